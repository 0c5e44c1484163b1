"""Retrieve as ITRG does: in rounds, each with what the last one had written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from fitrag_integrations.langchain.base.fields import Counter, Kept
from fitrag_integrations.langchain.base.retriever import Writing
from fitrag_integrations.methods.itrg.method import ITRG

K = ITRG.k  # documents of a round, as in the paper


class ITRGRetriever(Writing):
    """Retriever that alternates retrieval and generation, and returns the last round's documents
    (ITRG).

    Use it for questions whose second fact can only be found with the first. The ``context`` of the
    result has the query, documents and text of every round, and the last text as
    ``details["document"]``.

    Example:
        >>> retriever = ITRGRetriever(base=store.as_retriever(), llm=llm, rounds=3)
        >>> found = retriever.invoke("Where was the director of Amarcord born?")
    """

    made: ClassVar[type[ITRG]] = ITRG

    k: int | None = K
    """Documents of a round, and maximum returned; an argument of `invoke` sets the latter. None is
    5."""
    mode: Literal["refine", "refresh"] = "refine"
    """What a round writes: "refine" improves the last document with the passages that are new,
    "refresh" writes each from all passages of its round."""
    rounds: int = 5
    """Maximum number of rounds."""
    stop: str | Sequence[str] = "rounds"
    """What else ends the rounds, one or several: "empty", a round that finds nothing new;
    "unchanged", an answer that repeats the last one. With "rounds" alone they end early only where
    all further ones would repeat the last."""
    answers: Literal["caller", "last", "each"] = "caller"
    """Who answers: "caller", whose prompt reads the last document; "last" writes the answer here,
    "each" one for every round, which "unchanged" needs."""
    demonstrations: Kept[Sequence[object]] = ()
    """(question, document, answer) triples to show the language model."""
    document_tokens: int = 200
    """Tokens that a document is cut to."""
    answer_tokens: int = 15
    """Tokens that an answer is cut to."""
    deduplicate: bool = True
    """Count equal texts of a retrieval once."""
    count_tokens: Kept[Counter | None] = None
    """Counts the tokens of a text; None estimates them."""
    on_error: Literal["degrade", "raise"] = "degrade"
    """A failed language model or later retrieval: "degrade" leaves the question with what it has,
    and a note; "raise" raises the error."""

    def settings(self, **given: object) -> dict[str, Any]:
        """Return ITRG's options as they are now."""
        return super().settings(**{"k": K if self.k is None else self.k, **given})
