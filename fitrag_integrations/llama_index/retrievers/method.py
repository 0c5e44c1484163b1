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
    """Run any method over a retriever; an empty list means that nothing was worth showing.

    ``base`` is the wrapped retriever, ``search`` what a method may search the web with, ``llm``
    what it may write with.
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
