"""FIT-RAG's reranker and token reducer, as flows any adapter can run (section 4.4).

Where Algorithm 3 as printed contradicts its text and Figure 5, this follows the text: the whole
prefix of sub-documents is kept, not the last alone, and everything when the detector never
agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from fitrag_integrations._checks import (
    check_callable,
    check_many,
    check_number,
    check_text,
    check_whole,
)
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods._defaults import EMBEDDED_SCORER
from fitrag_integrations.methods.excerpts import best_per_passage, by_score, fit, windows
from fitrag_integrations.methods.tokens import approximate_tokens
from fitrag_integrations.ports import (
    Detector,
    Pair,
    Scorer,
    SentenceSplitter,
    TokenCounter,
    port_of,
)
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage

ScorePort: TypeAlias = Port[Pair, BiLabelScore]
Reduced: TypeAlias = tuple[list[Excerpt], tuple[str, ...]]  # the excerpts kept, and notes


def score_port(scorer: Scorer | None = None) -> ScorePort:
    """Build the port of a scorer; without one, of the embedded scorer, loaded when first asked."""
    given = EMBEDDED_SCORER if scorer is None else scorer
    return port_of("score", given, "score", argument="scorer")


def detect_port(detector: Detector) -> Port[Sequence[BiLabelScore | None], float]:
    """Build the port of a detector."""
    return port_of("detect", detector, "eligible", argument="detector")


def with_text(passages: Sequence[Passage]) -> list[Passage]:
    """Leave out passages whose text is blank: there is nothing to score, and scorers refuse it."""
    checked = check_many("passages", passages, Passage)
    return [passage for passage in checked if passage.text.strip()]


def grade(
    question: str, passages: Sequence[Passage], score: ScorePort, *, weight: float = 0.5
) -> Flow[list[Excerpt]]:
    """Score whole passages in one ask, in the order given."""
    wholes = [Excerpt.whole(passage) for passage in check_many("passages", passages, Passage)]
    return (yield from _scored(question, wholes, passages, score, weight))


def rerank(
    question: str,
    passages: Sequence[Passage],
    score: ScorePort,
    *,
    top_n: int | None = 10,
    weight: float = 0.5,
) -> Flow[list[Excerpt]]:
    """Score whole passages and keep the ``top_n`` best, best first (section 4.4.1).

    Equals keep their order; None keeps all but blank ones, which are never kept. ``weight`` is
    that of ``BiLabelScore.combine``.
    """
    kept = None if top_n is None else check_whole("top_n", top_n, low=1)
    graded = yield from grade(question, with_text(passages), score, weight=weight)
    return by_score(graded)[:kept]


def compress(
    question: str,
    passages: Sequence[Passage],
    score: ScorePort,
    *,
    window: int = 3,
    stride: int = 1,
    weight: float = 0.5,
    max_tokens: int | None = None,
    count_tokens: TokenCounter | None = None,
    detector: Detector | None = None,
    split: SentenceSplitter | None = None,
) -> Flow[list[Excerpt]]:
    """Reduce each passage to its best window of sentences, best first: ``TokenReducer``'s flow."""
    reducer = TokenReducer(
        window=window,
        stride=stride,
        weight=weight,
        max_tokens=max_tokens,
        count_tokens=count_tokens,
        detector=detector,
        split=split,
    )
    kept, _ = yield from reducer(question, passages, score)
    return kept


@dataclass(frozen=True, kw_only=True)
class TokenReducer:
    """Reduce passages to few excerpts (section 4.4.2).

    Every passage is cut into windows of ``window`` sentences, ``stride`` apart, and the windows of
    all passages are scored in one ask. The best of each passage represents it; best first, the
    longest prefix whose rendered text costs at most ``max_tokens`` is kept, and of that the
    shortest prefix ``detector`` finds sufficient (0.5 or more, or its own ``threshold``).
    """

    window: int = 3
    stride: int = 1
    weight: float = 0.5
    max_tokens: int | None = None
    count_tokens: TokenCounter | None = None
    detector: Detector | None = None
    split: SentenceSplitter | None = None

    def __post_init__(self) -> None:
        check_whole("window", self.window, low=1)
        if not 1 <= check_whole("stride", self.stride, low=1) <= self.window:
            allowed = f"an integer from 1 to window={self.window}, or sentences would be skipped"
            raise InputError.of("stride", given=self.stride, allowed=allowed)
        check_number("weight", self.weight, low=0.0, high=1.0)
        if self.max_tokens is not None:
            check_whole("max_tokens", self.max_tokens, low=1)
        check_callable("count_tokens", self.count_tokens)
        check_callable("split", self.split)
        if self.detector is not None:
            detect_port(self.detector)

    def __call__(
        self, question: str, passages: Sequence[Passage], score: ScorePort
    ) -> Flow[Reduced]:
        """Give the flow that ends in the excerpts kept, best first, and what there is to note."""
        cut = [
            piece
            for passage in with_text(passages)
            for piece in windows(passage, size=self.window, stride=self.stride, split=self.split)
        ]
        read = [piece.as_passage() for piece in cut]
        scored = yield from _scored(question, cut, read, score, self.weight)
        ordered = by_score(best_per_passage(scored))
        kept = fit(ordered, max_tokens=self.max_tokens, count_tokens=self.counter)
        notes: tuple[str, ...] = ()
        if left := len(ordered) - len(kept):
            notes = (f"{left} of {len(ordered)} excerpts left out by max_tokens={self.max_tokens}",)
        enough, more = yield from self._sufficient(kept)
        return enough, notes + more

    @property
    def counter(self) -> TokenCounter:
        """Give the counter in use."""
        return approximate_tokens if self.count_tokens is None else self.count_tokens

    def _sufficient(self, excerpts: list[Excerpt]) -> Flow[Reduced]:
        if self.detector is None or not excerpts:
            return excerpts, ()
        labels = [excerpt.labels for excerpt in excerpts]
        prefixes = [tuple(labels[:length]) for length in range(1, len(labels) + 1)]
        chances = yield from detect_port(self.detector).ask(prefixes)
        threshold = getattr(self.detector, "threshold", None)
        for length, chance in enumerate(chances, start=1):
            if float(chance) >= (0.5 if threshold is None else float(threshold)):
                return excerpts[:length], ()
        note = f"the detector found no prefix sufficient: all {len(excerpts)} excerpts kept"
        return excerpts, (note,)


def _scored(
    question: str,
    excerpts: Sequence[Excerpt],
    read: Sequence[Passage],
    score: ScorePort,
    weight: float,
) -> Flow[list[Excerpt]]:
    """Ask for the labels of what is read, and put them on the excerpts it was read from."""
    check_text("question", question, blank=False)
    answers = yield from score.ask([(question, passage) for passage in read])
    labels = check_many("scores", answers, BiLabelScore)
    return [
        replace(excerpt, score=label.combine(weight), labels=label)
        for excerpt, label in zip(excerpts, labels, strict=True)
    ]
