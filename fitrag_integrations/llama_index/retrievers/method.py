"""Use any method of this package, or one of your own, as a retriever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitrag_integrations.llama_index.base.retriever import MethodOverBase
from fitrag_integrations.ports import Method, check_method


@dataclass(eq=False, repr=False, kw_only=True)
class MethodRetriever(MethodOverBase):
    """Retriever of the excerpts that ``method`` keeps from the nodes of ``base``.

    Args:
        base: Retriever to query.
        method: Method of this package or of your own: ``method(question, ports)`` returns a flow.
        search: Search provider, tool, retriever, or function, for a method that searches the web.
        llm: Language model, for a method that writes.
        ids: "pieces" for ids of their own, "source" for those of the nodes.

    Example:
        >>> MethodRetriever(index.as_retriever(), method=FitRag(top_n=5)).retrieve("Who?")
    """

    method: Method
    search: Any = None
    llm: Any = None

    def _build(self) -> Method:
        return check_method(self.method)
