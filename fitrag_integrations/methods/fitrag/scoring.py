"""Two ways to score passages and their windows (FIT-RAG, sections 4.2 and 4.4.2).

`Windows` is the paper's: every window is a text of its own, read after the passages. `OnePass`
judges the windows from the pass over the whole passages that reranking needs anyway, by a scorer
with ``score_sentences``; ``OnePassScorer`` is one, and the embedded scorer can. That departs from
the paper, and costs less than half.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from fitrag_integrations.core.checks import can
from fitrag_integrations.core.record import remade
from fitrag_integrations.defaults import DEFAULTS, ONE_PASS, WINDOWS
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.flow.ask import ask_able
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER, embedded_detector
from fitrag_integrations.methods.ik.decider import limit_of
from fitrag_integrations.ports import Detector, Pair, Scorer, model_name, port_of, scorer_of
from fitrag_integrations.text.layout import named_by, named_exactly
from fitrag_integrations.text.records import records_of
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.excerpt import SPAN, grouped
from fitrag_integrations.values.score import labels_of
from fitrag_integrations.values.selected import Selection

T = TypeVar("T")
ScorePort: TypeAlias = Port[Pair, BiLabelScore]
Sentences: TypeAlias = tuple[str, Passage, list[tuple[int, int]]]  # question, passage, spans
SentencePort: TypeAlias = Port[Sentences, tuple[BiLabelScore, Sequence[BiLabelScore]]]
NAMED = 1.5
"""Logits that a list item or a row gains when the question names it (benchmarks/layout.py)."""
EXACT = 3.0
"""Logits that a window gains by an identifier of the question (benchmarks/own_files.py)."""
FAR = 2000
"""Characters from a lead to the end of a window that are judged together at most."""
Cut: TypeAlias = Callable[[Passage], list[Excerpt]]
WindowsOf: TypeAlias = Callable[[Sequence[Excerpt]], Flow[list[Excerpt]]]


@runtime_checkable
class SentenceScorer(Protocol):
    """Scores each passage, and each of its spans, [start, end) in its text."""

    def score_sentences(
        self, items: Sequence[Sentences], /
    ) -> Sequence[tuple[BiLabelScore, Sequence[BiLabelScore]]]: ...


@dataclass(frozen=True)
class Scoring(ABC):
    """Score the passages of a question, and the windows cut from them.

    ``weight`` and ``logits`` are those of ``BiLabelScore.combine``; ``ends`` are where to stop
    reading passages that are too long for one call.
    """

    port: Port[Any, Any]
    weight: float = DEFAULTS.weight
    logits: bool = False
    question: str = ""
    ends: Mapping[Passage, int] = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection, compare=False)

    def about(self, question: str, ends: Mapping[Passage, int], selection: Selection) -> Self:
        """Return the same for a question, whose `selection` records what is dropped."""
        return replace(self, question=question, ends=ends, selection=selection)

    def read(self, passage: Passage) -> Passage:
        """Return what the scorer reads of a passage."""
        if passage not in self.ends:
            return passage
        return replace(passage, text=passage.text[: self.ends[passage]])

    @property
    def scorer(self) -> str:
        """The name of the scorer behind the port; empty if it has none."""
        return model_name(self.port)

    @abstractmethod
    def passages(
        self, passages: Sequence[Passage], cut: Cut
    ) -> Flow[tuple[list[Excerpt], WindowsOf]]:
        """Score whole passages, in the order given; with them comes the way to their windows."""

    @abstractmethod
    def windows(self, windows: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
        """Score windows in one ask, in the order given."""

    def ask(
        self, items: Sequence[object], of: Sequence[T], excerpt: Callable[[T], Excerpt]
    ) -> Flow[tuple[list[T], list[Any]]]:
        """Ask about items; what of them is refused is dropped with the reason."""
        able, answers, refused = yield from ask_able(self.port, items, of)
        for one, error in refused:
            self.selection.drop([excerpt(one)], "refused", str(error))
        return able, answers

    def labelled(self, excerpts: Iterable[Excerpt], answers: object) -> list[Excerpt]:
        """Attach the labels to their excerpts."""
        labels = labels_of(answers)
        scores = [label.relevance(self.weight, logits=self.logits) for label in labels]
        return [
            remade(one, score=score, labels=label)
            for one, score, label in zip(excerpts, scores, labels, strict=True)
        ]


class Windows(Scoring):
    """Read every window as a text of its own, in a second ask."""

    def passages(
        self, passages: Sequence[Passage], cut: Cut
    ) -> Flow[tuple[list[Excerpt], WindowsOf]]:
        """Score whole passages; the windows of those chosen are asked about later."""

        def windows_of(chosen: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
            return self.windows([window for one in chosen for window in cut(one.passage)])

        return (yield from self.wholes(passages)), windows_of

    def wholes(self, passages: Sequence[Passage]) -> Flow[list[Excerpt]]:
        """Score whole passages in one ask."""
        items = [(self.question, self.read(passage)) for passage in passages]
        able, answers = yield from self.ask(items, passages, Excerpt.whole)
        return self.labelled(map(Excerpt.whole, able), answers)

    def windows(self, windows: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
        """Score windows as passages with the titles of those they are from."""
        asked = [(self.question, window.as_passage()) for window in windows]
        return self.labelled(*(yield from self.ask(asked, windows, lambda window: window)))


class OnePass(Scoring):
    """Read every passage once, and judge its windows from that reading.

    A window with a lead (a list item, a table row, code) is judged twice, by itself and together
    with all from the innermost part of its lead on, and gets the mean of the two logits: a row of
    cells says little without the header. Of the windows that share a lead, those named by the
    question (``named_by``) get ``NAMED`` more: a key in a cell is no sentence to be understood. A
    window that holds an identifier of the question gets ``EXACT`` more where few others do.
    """

    def passages(
        self, passages: Sequence[Passage], cut: Cut
    ) -> Flow[tuple[list[Excerpt], WindowsOf]]:
        """Score whole passages and all their windows in one ask."""
        wholes, judged = yield from self._read([(one, cut(one)) for one in passages])
        own = {whole.passage: windows for whole, windows in zip(wholes, judged, strict=True)}

        def windows_of(chosen: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
            return [window for one in chosen for window in own[one.passage]]
            yield  # a flow that asks nothing

        return wholes, windows_of

    def windows(self, windows: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
        """Read the passages of windows, and judge these from it."""
        groups = grouped(windows, attrgetter("passage"))
        _, judged = yield from self._read(list(groups.items()))
        return [window for own in judged for window in own]

    def _read(
        self, cut: Sequence[tuple[Passage, Sequence[Excerpt]]]
    ) -> Flow[tuple[list[Excerpt], list[list[Excerpt]]]]:
        led = [[w for w in own if w.lead and w.end - w.lead[-1][0] <= FAR] for _, own in cut]
        items = [
            (
                self.question,
                self.read(passage),
                [*map(SPAN, own), *((w.lead[-1][0], w.end) for w in more)],
            )
            for (passage, own), more in zip(cut, led, strict=True)
        ]
        pairs = list(zip(cut, led, strict=True))
        able, answers = yield from self.ask(items, pairs, lambda pair: Excerpt.whole(pair[0][0]))
        bodies = [window.body for (_, own), _ in able for window in own]
        judged, exact = [], iter(named_exactly(self.question, bodies))
        for ((passage, own), more), (_, spans) in zip(able, answers, strict=True):
            labels = labels_of(spans)
            both = dict(zip(map(SPAN, more), labels[len(own) :], strict=True))
            named = self._named(own if records_of(passage.text) else more)
            means = []
            for window, one in zip(own, labels, strict=False):
                at = SPAN(window)
                extra = max(EXACT * next(exact), NAMED * (at in named))
                means.append(one.mixed(both.get(at, one), extra) if extra or at in both else one)
            judged.append(self.labelled(own, means))
        wholes = [Excerpt.whole(passage) for (passage, _), _ in able]
        return self.labelled(wholes, [whole for whole, _ in answers]), judged

    def _named(self, windows: Sequence[Excerpt]) -> set[tuple[int, int]]:
        """Return the places of windows that the question names among those with the same lead."""
        return {
            SPAN(group[at])
            for group in grouped(windows, attrgetter("lead")).values()
            if group[0].lead or len(group) > 2  # not a header row
            for at in named_by(self.question, [one.body for one in group])
        }


def score_port(scorer: Scorer | None = None) -> ScorePort:
    """Build the port of a scorer; without one, of the embedded scorer, loaded when first asked."""
    given = EMBEDDED_SCORER if scorer is None else scorer_of(scorer)
    return port_of("score", given, "score", argument="scorer")


def check_scoring(field: str, given: str | None) -> str | None:
    """Read one of the two ways to score windows; None leaves it to the scorer."""
    named = {None: None, WINDOWS: WINDOWS, ONE_PASS: ONE_PASS, "one-pass": ONE_PASS}
    refuse_if(given not in named, field, given, "'windows', 'one_pass' or None")
    return named[given]


def scoring_of(
    port: ScorePort | SentencePort, named: str, weight: float, *, logits: bool = False
) -> Scoring:
    """Return the named way to score with the scorer behind a port.

    Raises ``InputError`` for one_pass with a scorer that has no ``score_sentences``.
    """
    if named == WINDOWS:
        return Windows(port, weight, logits)
    allowed = "for scoring='one_pass', one with score_sentences, such as OnePassScorer"
    refuse_if(not reads_once(port), "scorer", port.owner or port, allowed)
    return OnePass(sentence_port(port), weight, logits)


def reads_once(port: ScorePort | SentencePort) -> bool:
    """Check whether the scorer behind a port can judge windows from one reading."""
    return can(port.owner, "score_sentences") or can(port.owner, "ascore_sentences")


def sentence_port(port: ScorePort | SentencePort) -> SentencePort:
    """Build the port of the scorer behind a port, for passages with spans."""
    if port.name == "score_sentences":
        return port  # type: ignore[return-value]  # the name says what it takes
    return port_of("score_sentences", port.owner, "score_sentences", argument="scorer")


Stopped: TypeAlias = tuple[list[Excerpt], tuple[str, ...]]  # the excerpts kept, and notes


def check_detector(field: str, detector: Detector) -> Detector:
    """Require a detector."""
    detect_port(detector)
    return detector


def detect_port(detector: Detector) -> Port[Any, float]:
    """Build the port of a detector.

    One with ``eligible_among`` is asked with pairs of the scores kept and those left out, any other
    with the scores kept.
    """
    verb = "eligible_among" if hasattr(detector, "eligible_among") else "eligible"
    return port_of("detect", detector, verb, argument="detector")


def detector_for(
    given: Detector | Literal[False] | None, scoring: Scoring, **cutting: int | None
) -> Detector | None:
    """Return the detector to ask about a scorer's scores of windows cut so, if there is one.

    None stands for the embedded one that was trained on such scores, False for none. Raises
    ``ThresholdMismatchError`` for one that refuses the scorer.
    """
    if given is False:
        return None
    if given is None:
        return embedded_detector(scoring.scorer, **cutting)
    if can(given, "check_scorer"):
        given.check_scorer(scoring.scorer)  # type: ignore[attr-defined]
    return given


def sufficient(ordered: Sequence[Excerpt], detector: Detector) -> Flow[Stopped]:
    """Keep the shortest prefix the detector finds sufficient, asking about all in one ask.

    Sufficient is 0.5 or more, or the detector's own ``threshold``. Without a sufficient prefix
    everything is kept. A note reports either.
    """
    if not ordered:
        return [], ()
    labels = tuple(excerpt.labels for excerpt in ordered)
    prefixes: list[Any] = [labels[:length] for length in range(1, len(labels) + 1)]
    if hasattr(detector, "eligible_among"):
        prefixes = [(prefix, labels[len(prefix) :]) for prefix in prefixes]
    chances = yield from detect_port(detector).ask(prefixes)
    threshold = limit_of(detector)
    for length, chance in enumerate(chances, start=1):
        if float(chance) >= threshold:
            left = len(labels) - length
            note = f"{left} of {len(labels)} excerpts left out: the detector found the best enough"
            return list(ordered[:length]), (note,) if left else ()
    note = f"the detector found no prefix sufficient: all {len(labels)} excerpts kept"
    return list(ordered), (note,)
