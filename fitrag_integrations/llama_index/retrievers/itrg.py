"""Retrieve in rounds, each with what the last one had written: ITRG as a retriever."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from fitrag_integrations.llama_index.base.retriever import MethodOverBase
from fitrag_integrations.methods.itrg.method import ITRG
from fitrag_integrations.text.tokens import Encoder


@dataclass(eq=False, repr=False, kw_only=True)
class ITRGRetriever(MethodOverBase):
    """Retriever that alternates retrieval and generation, and returns the last round's nodes
    (ITRG).

    Use it for questions whose second fact can only be found with the first. ``last_run`` has every
    round.

    Args:
        base: Retriever of every round.
        llm: Language model that writes between rounds.

    The other options are those of ``fitrag_integrations.methods.ITRG``.

    Example:
        >>> retriever = ITRGRetriever(index.as_retriever(), llm=llm, rounds=3)
        >>> nodes = retriever.retrieve("Where was the director of Amarcord born?")
    """

    made: ClassVar = ITRG

    llm: object = None
    mode: Literal["refine", "refresh"] = "refine"
    answer_tokens: int = 15
    count_tokens: Callable[[str], int] | Encoder | str | None = None
    on_error: Literal["degrade", "raise"] = "degrade"
    rounds: int = 5
    k: int = 5
    stop: str | Iterable[str] = "rounds"
    answers: Literal["caller", "last", "each"] = "caller"
    demonstrations: Iterable[object] = ()
    document_tokens: int = 200
    deduplicate: bool = True
