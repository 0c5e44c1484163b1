"""Retrieve for what a slim proxy model's answer shows to be missing: SlimPLM as a retriever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from fitrag_integrations.llama_index.base.retriever import MethodOverBase
from fitrag_integrations.methods.ik.decider import OnError
from fitrag_integrations.methods.slimplm.method import SlimPLM
from fitrag_integrations.text.tokens import Encoder
from fitrag_integrations.values.prompt import PromptTemplate


@dataclass(eq=False, repr=False, kw_only=True)
class SlimPLMRetriever(MethodOverBase):
    """Retriever for the claims and questions that a small proxy model could not answer (SlimPLM).

    It returns an empty list if the judge finds that the question is known. ``proxy``, ``judge`` and
    ``rewriter`` may be LlamaIndex LLMs.

    Args:
        base: Retriever to query.
        proxy: Model that writes the heuristic answer; None is ``llm``.
        judge: Model that decides whether that answer shows knowledge; None is ``llm``, which says
            Yes or No.
        rewriter: Model that turns the answer into claims and queries; None is ``llm``.
        llm: Language model in place of a missing ``proxy``, ``judge`` or ``rewriter``.

    The other options are those of ``fitrag_integrations.methods.SlimPLM``.

    Example:
        >>> retriever = SlimPLMRetriever(index.as_retriever(), llm=llm)
        >>> nodes = retriever.retrieve("Who scored Amarcord?")
    """

    made: ClassVar = SlimPLM

    llm: object = None
    proxy: object = None
    judge: object = None
    rewriter: object = None
    rewriter_prompt: PromptTemplate | str | None = None
    threshold: float | None = None
    k: int | None = 5
    per_query: int | None = None
    rrf_k: float = 60.0
    max_queries: int | None = 16
    max_tokens: int | None = None
    count_tokens: Callable[[str], int] | Encoder | str | None = None
    max_draft: int = 4000
    with_question: bool = False
    judge_question: bool = True
    rewrite: bool = True
    filter: bool = True
    when_all_known: Literal["skip", "retrieve"] = "skip"
    on_error: OnError = "retrieve"
    allow_other_model: bool = False
    deduplicate: bool = True
