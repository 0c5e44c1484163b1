"""Use any method of this package, or one of your own, as a retriever."""

from __future__ import annotations

from typing import Any, ClassVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager

from fitrag_integrations.llama_index.base.convert import Ids
from fitrag_integrations.llama_index.base.ports import Caller
from fitrag_integrations.llama_index.base.retriever import MethodOverBase
from fitrag_integrations.methods.adapting import check_method
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.ports import Method


class MethodRetriever(FromFitted, MethodOverBase):
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

    _held: ClassVar[tuple[str, ...]] = ("_caller",)

    def __init__(
        self,
        base: BaseRetriever,
        *,
        method: Method,
        search: Any = None,
        llm: Any = None,
        ids: Ids = "pieces",
        callback_manager: CallbackManager | None = None,
    ) -> None:
        caller = Caller(base, search, llm)
        super().__init__(caller, check_method(method), ids=ids, callback_manager=callback_manager)

    @property
    def method(self) -> Method:
        """The method, which may be set to another one."""
        return self._method

    @method.setter
    def method(self, method: Method) -> None:
        self._method = check_method(method)
