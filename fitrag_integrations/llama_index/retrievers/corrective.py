"""Correct what a retriever finds: CRAG as a retriever (CRAG, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from fitrag_integrations.llama_index.base.retriever import MethodOverBase
from fitrag_integrations.methods.crag.method import Crag
from fitrag_integrations.text.sentences import SentenceSplitter
from fitrag_integrations.text.tokens import Encoder
from fitrag_integrations.types import Action
from fitrag_integrations.values.thresholds import ActionThresholds


@dataclass(eq=False, repr=False, kw_only=True)
class CorrectiveRetriever(MethodOverBase):
    """Retriever that grades what ``base`` returns, refines it, and searches the web if it is not
    good (CRAG).

    Nodes from the web have ``web``, ``url`` and ``trust`` ("untrusted") in their metadata.

    Args:
        base: Retriever of candidates.
        search: Search provider, tool, retriever, or function of a query; without one the web is not
            searched.
        llm: Language model that writes the keywords; None searches for the question itself.

    The other options are those of ``fitrag_integrations.methods.Crag``.

    Example:
        >>> retriever = CorrectiveRetriever(index.as_retriever(), search=my_search_tool)
        >>> nodes = retriever.retrieve("How often does the night bus leave?")
        >>> retriever.last_run.value.action
    """

    made: ClassVar = Crag

    search: object = None
    llm: object = None
    evaluator: object = None
    thresholds: ActionThresholds | str | None = None
    top_n: int | None = 5
    strip_threshold: float | None = None
    sentences: int | None = None
    max_tokens: int | None = None
    count_tokens: Callable[[str], int] | Encoder | str | None = None
    split: SentenceSplitter | None = None
    on_web_error: Literal["degrade", "raise"] = "degrade"
    allow_other_model: bool = False
    without: Iterable[Action | str] = ()
    refine: bool = True
    rewrite: bool = True
    select: bool = True
    min_score: float | None = None
    on_incorrect: Literal["warn", "drop", "keep"] = "warn"
    deduplicate: bool = True
