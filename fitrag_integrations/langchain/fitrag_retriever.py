"""Retrieve as FIT-RAG does: score, decide, rerank, reduce (FIT-RAG, Algorithm 1)."""

from __future__ import annotations

from typing import Any, Self

from pydantic import model_validator

from fitrag_integrations.langchain._fields import AnyModel, Count, ReducerFields
from fitrag_integrations.langchain._retriever import MethodOverBase
from fitrag_integrations.methods.fitrag import FitRag
from fitrag_integrations.ports import Method


class FitRagRetriever(ReducerFields, MethodOverBase):
    """Give the best windows of the best documents ``base`` finds, within a budget of tokens.

    ::

        FitRagRetriever(base=store.as_retriever(search_kwargs={"k": 100}), max_tokens=800)

    It gives nothing where ``gate`` finds that the model knows the answer by itself.
    """

    top_n: Count = 10
    """Documents the reranker keeps before they are reduced."""

    gate: AnyModel = None
    """An object with ``p_known(questions, drafts)``, or a recognizer with ``decide``."""

    def method_now(self) -> Method:
        """Give FIT-RAG with the fields as they are at this call."""
        arguments: dict[str, Any] = self.reducer_arguments()
        return FitRag(self.scorer, gate=self.gate, top_n=self.top_n, **arguments)

    @model_validator(mode="after")
    def _check_gate(self) -> Self:
        FitRag(self.scorer, gate=self.gate)
        return self
