"""FIT-RAG's reranker (sections 4.2 and 4.4.1): what is read of what was found, and its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Share,
    check_many,
    check_text,
)
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER, script_note, torch_note
from fitrag_integrations.methods.fitrag.scoring import (
    Scoring,
    Windows,
    score_port,
)
from fitrag_integrations.ports import Scorer, model_name
from fitrag_integrations.text.bm25 import BM25
from fitrag_integrations.text.layout import named_exactly
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import (
    apart,
    at_least,
    best_copies,
    bounded,
    by_score,
    only_links,
    usable,
)

NAMING = 3.0
"""What a passage gains by an identifier of the question, in units of `prior`."""


@dataclass(frozen=True)
class RankingOptions(Checked):
    """Options of everything that ranks passages by the two labels (FIT-RAG, section 4.4.1).

    Args:
        scorer: Object with ``score(pairs)``; None is the bundled one.
        top_n: Passages that the reranker keeps, best first; None keeps all but blank ones.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].
        prior: Weight, in [0, 1], of what is known before anything is scored: in the order of
            passages, their places in the order given, which is the retriever's, and by shared
            words, and an identifier of the question that few of them hold (``ranked``); in that of
            windows, half of it divided by the place of their passage. Scores stay as they are. None
            is 0.1 for the bundled scorer, 0 for another.
        min_score: Lowest ``relevance_score`` kept, in [0, 1]; None keeps all.
        deduplicate: Keep passages of equal text and title, and text that chunks of one source
            share, once: the best-scored.
        max_passages: Maximum number of passages read, in the order given; None is no limit.
        max_sentences: Maximum number of sentences read, of all passages; None is no limit.

    Raises:
        InputError: If an option is out of range.
    """

    scorer: Scorer | None = None
    _: KW_ONLY
    top_n: Count | None = DEFAULTS.top_n
    weight: Share = DEFAULTS.weight
    prior: Share | None = None
    min_score: Share | None = DEFAULTS.min_score
    deduplicate: bool = DEFAULTS.deduplicate
    max_passages: Count | None = DEFAULTS.max_passages
    max_sentences: Count | None = DEFAULTS.max_sentences

    def __post_init__(self) -> None:
        super().__post_init__()
        score_port(self.scorer)

    def read(self, scoring: Scoring, question: str, found: object) -> Reading:
        """Return what is read of the passages ``found`` for a ``question``, by a ``scoring``."""
        check_text("question", question, blank=False)
        passages, selection = check_many("passages", found, Passage), Selection()
        given, notes = usable(
            passages, deduplicate=self.deduplicate, scored=True, selection=selection
        )
        given, ends, more = bounded(
            given,
            max_passages=self.max_passages,
            max_sentences=self.max_sentences,
            split=getattr(self, "split", None),
            selection=selection,
        )
        foreign = script_note(self.scorer, EMBEDDED_SCORER, question, given)
        asked = scoring.about(question, ends, selection)
        prior = self.prior
        if prior is None:
            own = self.scorer is None or model_name(self.scorer) == EMBEDDED_SCORER.name
            prior = DEFAULTS.prior if own else 0.0
        return Reading(
            passages,
            given,
            asked,
            (*notes, *more, *foreign, *torch_note(self.scorer)),
            self.deduplicate,
            prior,
        )


@dataclass
class Reading:
    """What is read of the passages found for one question.

    Args:
        found: Everything found, in its order.
        passages: What is read of that.
        asked: The scoring for this question; its `selection` records what is dropped.
        notes: What was left out so far, in plain sentences.
        deduplicate: Whether copies are left out.
        prior: Weight of what is known of passages before they are scored.
    """

    found: tuple[Passage, ...]
    passages: list[Passage]
    asked: Scoring
    notes: tuple[str, ...]
    deduplicate: bool
    prior: float = 0.0

    def ranked(self, wholes: Sequence[Excerpt]) -> list[Excerpt]:
        """Return whole passages, best first."""
        return ranked(self.asked.question, wholes, self.prior)

    def once(self, scored: list[Excerpt]) -> list[Excerpt]:
        """Record the scores of whole passages; return them without copies."""
        selection = self.asked.selection
        selection.scored(scored)
        if self.deduplicate:
            scored, more = best_copies(scored, of=len(self.found), selection=selection)
            self.notes += more
        return scored

    def context(self, kept: Sequence[Excerpt], method: str, details: Mapping[str, Any]) -> Context:
        """Return the context of what was kept, with a row for everything dropped."""
        asked = self.asked
        return Context(
            asked.question,
            tuple(kept),
            notes=(*self.notes, *asked.selection.refused()),
            method=method,
            details=details,
            selection=asked.selection.rows(kept),
        )


def ranked(question: str, wholes: Sequence[Excerpt], prior: float) -> list[Excerpt]:
    """Sort scored passages, best first, also by what is known of them without a model.

    A passage ranks by ``(1 - prior) * score + prior * (1 / a + 1 / b) / 2``, where ``a`` is its
    place, from 1, in the order given and ``b`` that by BM25 among all. A scorer of meanings hardly
    reads an identifier: a passage that holds one of the question ranks by ``NAMING * prior`` more,
    the less the more passages do.

    Args:
        question: The question.
        wholes: Passages with their scores, in the order in which they were retrieved.
        prior: Weight of both places, in [0, 1].
    """
    if not prior:
        return by_score(wholes)
    texts = [f"{one.passage.title} {one.passage.text}" for one in wholes]
    shared = BM25(texts)
    lexical = sorted(range(len(texts)), key=lambda at: -shared(question, texts[at]))
    places = {at: place for place, at in enumerate(lexical, 1)}
    named = named_exactly(question, texts)
    mixed = [
        (1 - prior) * one.score + prior * ((1 / (at + 1) + 1 / places[at]) / 2 + NAMING * named[at])
        for at, one in enumerate(wholes)
    ]
    order = sorted(range(len(wholes)), key=lambda at: (only_links(wholes[at]), -mixed[at]))
    return [wholes[at] for at in order]


@dataclass(frozen=True)
class Reranking(RankingOptions):
    """Rerank whole passages by the two labels (FIT-RAG, sections 4.2 and 4.4.1)."""

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Return the flow that ends in the best ``passages`` for a ``question``, best first."""
        asked = Windows(score_port(self.scorer), self.weight)
        reading = self.read(asked, question, passages)
        scored = yield from cast(Windows, reading.asked).wholes(reading.passages)
        selection, ordered = reading.asked.selection, reading.ranked(reading.once(scored))
        if self.deduplicate:
            ordered = apart(ordered, trim=False, selection=selection)
        able = at_least(self.min_score, ordered, selection)
        kept = selection.first(able, self.top_n, "top_n")
        details = {"weight": self.weight, "top_n": self.top_n}
        low = {} if self.min_score is None else {"min_score": self.min_score}
        return reading.context(kept, "rerank", details | low)
