"""Retrieve as SlimPLM does: for what a slim proxy model's answer shows to be missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from langchain_core.runnables import Runnable, RunnableConfig

from fitrag_integrations.langchain.base.fields import Counter, Kept
from fitrag_integrations.langchain.base.ports import Backend, text_of
from fitrag_integrations.langchain.base.retriever import Writing
from fitrag_integrations.methods.slimplm.method import SlimPLM
from fitrag_integrations.ports import Method
from fitrag_integrations.values.prompt import PromptTemplate

ROLES = {"proxy": "draft", "judge": "judge", "rewriter": "rewrite"}  # and their ports' names


class SlimPLMRetriever(Writing):
    """Retriever for the claims and questions that a small proxy model could not answer (SlimPLM).

    It returns nothing if the judge finds that the question is known. The ``context`` of the result
    has the decision, the claims with their verdicts, and the notes. The ``llm`` stands in
    for a missing ``proxy``, ``judge`` or ``rewriter``.

    Example:
        >>> retriever = SlimPLMRetriever(base=store.as_retriever(), llm=llm)
        >>> found = retriever.invoke("Who scored Amarcord?")
    """

    made: ClassVar[type[SlimPLM]] = SlimPLM

    proxy: Kept[Any] = None
    """Writes the heuristic answer: a chat model or another Runnable, an object with
    `answer(questions)`, or anything that continues prompts; None is the judge's own `drafter`, else
    `llm`."""
    judge: Kept[Any] = None
    """Judges whether question and claims are known; None asks `llm` for Yes or No."""
    rewriter: Kept[Any] = None
    """Writes claims and queries; None is `llm`."""
    rewriter_prompt: Kept[PromptTemplate | str | None] = None
    """A template or the name of one: paper, released or instruct."""
    threshold: float | None = None
    """Threshold of a judge that is a gate, in [0, 1]; None is its own, or 0.5."""
    k: int | None = 5
    """Maximum number of documents returned, whole; None is no limit. Also an argument of
    `invoke`."""
    per_query: int | None = None
    """Documents of each query that count; None is no limit."""
    rrf_k: float = SlimPLM.rrf_k
    """Constant of reciprocal rank fusion."""
    max_queries: int | None = 16
    """Maximum number of queries, all retrieved for in one call; None is no limit."""
    max_tokens: int | None = None
    """Token budget of what is kept; None is no limit."""
    count_tokens: Kept[Counter | None] = None
    """Counts the tokens of a text; None estimates them."""
    max_draft: int = 4000
    """Characters of the heuristic answer that count."""
    with_question: bool = False
    """Retrieve for the question as well."""
    judge_question: bool = True
    """False retrieves for every question (w/o QJ in the paper's Table 2)."""
    rewrite: bool = True
    """False retrieves for the question only (w/o QR)."""
    filter: bool = True
    """False retrieves for every claim (w/o QF)."""
    when_all_known: Literal["skip", "retrieve"] = "skip"
    """Where the filter leaves no query: "retrieve" retrieves for the question itself, "skip" for
    nothing."""
    on_error: Literal["retrieve", "raise"] = "retrieve"
    """A failed step: "retrieve" goes on to more retrieval, with a note; "raise" raises it."""
    allow_other_model: bool = False
    """Accept a threshold that was fitted for another model."""
    deduplicate: bool = True
    """Keep equal texts, and text that chunks of one source share, once."""

    def methods(self, configs: Sequence[RunnableConfig], **options: object) -> list[Method]:
        """Return the method of each question, whose Runnables are called under its config.

        They are equal but for the configs, so that the calls of all questions join.

        Args:
            configs: The config of each question.
            **options: Not used.
        """
        backends = self._backends()
        return [SlimPLM(**self.settings(**_ports(backends, config))) for config in configs]

    def settings(self, **given: object) -> dict[str, Any]:
        """Return SlimPLM's options as they are now, with ports for what is a Runnable."""
        return super().settings(**{**_ports(self._backends(), RunnableConfig()), **given})

    def _backends(self) -> dict[str, Backend]:
        return {
            name: Backend(each, text_of)
            for name, each in self
            if name in ROLES and isinstance(each, Runnable)
        }


def _ports(backends: dict[str, Backend], config: RunnableConfig) -> dict[str, object]:
    return {name: each.port(config, ROLES[name]) for name, each in backends.items()}
