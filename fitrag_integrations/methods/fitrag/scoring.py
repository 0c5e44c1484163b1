"""Two ways to score passages and their windows (FIT-RAG, sections 4.2 and 4.4.2).

`Windows` is the paper's: every window is a text of its own, read after the passages. `OnePass`
judges the windows from the pass over the whole passages that reranking needs anyway, by a scorer
with ``score_sentences``; ``OnePassScorer`` is one, and the embedded scorer can. That departs from
the paper, and costs less than half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.adapting import scorer_of
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER
from fitrag_integrations.ports import Pair, Scorer, port_of
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.score import labels_of

ScorePort: TypeAlias = Port[Pair, BiLabelScore]
Sentences: TypeAlias = tuple[str, Passage, list[tuple[int, int]]]  # question, passage, spans
SentencePort: TypeAlias = Port[Sentences, tuple[BiLabelScore, Sequence[BiLabelScore]]]
Cut: TypeAlias = Callable[[Passage], list[Excerpt]]
WindowsOf: TypeAlias = Callable[[Sequence[Excerpt]], Flow[list[Excerpt]]]

WINDOWS, ONE_PASS = "windows", "one_pass"


@runtime_checkable
class SentenceScorer(Protocol):
    """Give the labels of each passage, and of each of its spans, [start, end) in its text."""

    def score_sentences(
        self, items: Sequence[Sentences], /
    ) -> Sequence[tuple[BiLabelScore, Sequence[BiLabelScore]]]: ...


class Scoring(Protocol):
    """Score the passages of a question, and the windows cut from them."""

    @property
    def scorer(self) -> str: ...

    def passages(
        self, question: str, passages: Sequence[Passage], cut: Cut
    ) -> Flow[tuple[list[Excerpt], WindowsOf]]:
        """Score whole passages, in the order given; with them comes the way to their windows."""
        ...

    def windows(self, question: str, windows: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
        """Score windows in one ask, in the order given."""
        ...


@dataclass(frozen=True)
class Windows:
    """Read every window as a text of its own, in a second ask."""

    port: ScorePort
    weight: float = 0.5
    logits: bool = False

    @property
    def scorer(self) -> str:
        """Name the scorer behind the port; empty where it has no name."""
        return owner_name(self.port)

    def passages(
        self, question: str, passages: Sequence[Passage], cut: Cut
    ) -> Flow[tuple[list[Excerpt], WindowsOf]]:
        """Score whole passages; the windows of those chosen are asked about later."""

        def windows_of(chosen: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
            own = [window for one in chosen for window in cut(one.passage)]
            return (yield from self.windows(question, own))

        return (yield from self.wholes(question, passages)), windows_of

    def wholes(self, question: str, passages: Sequence[Passage]) -> Flow[list[Excerpt]]:
        """Score whole passages in one ask."""
        answers = yield from self.port.ask([(question, passage) for passage in passages])
        return list(_labelled(map(Excerpt.whole, passages), answers, self._combined))

    def windows(self, question: str, windows: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
        """Score windows as passages with the titles of those they are from."""
        asked = [(question, window.as_passage()) for window in windows]
        answers = yield from self.port.ask(asked)
        return list(_labelled(windows, answers, self._combined))

    def _combined(self, label: BiLabelScore) -> float:
        return label.combine(self.weight, logits=self.logits)


@dataclass(frozen=True)
class OnePass:
    """Read every passage once, and judge its windows from that reading."""

    port: SentencePort
    weight: float = 0.5
    logits: bool = False

    @property
    def scorer(self) -> str:
        """Name the scorer behind the port; empty where it has no name."""
        return owner_name(self.port)

    def passages(
        self, question: str, passages: Sequence[Passage], cut: Cut
    ) -> Flow[tuple[list[Excerpt], WindowsOf]]:
        """Score whole passages and all their windows in one ask."""
        wholes, judged = yield from self._read(question, [(one, cut(one)) for one in passages])
        own = {whole.passage: windows for whole, windows in zip(wholes, judged, strict=True)}

        def windows_of(chosen: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
            return [window for one in chosen for window in own[one.passage]]
            yield  # a flow that asks nothing

        return wholes, windows_of

    def windows(self, question: str, windows: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
        """Read the passages of windows, and judge these from it."""
        groups: dict[Passage, list[Excerpt]] = {}
        for window in windows:
            groups.setdefault(window.passage, []).append(window)
        _, judged = yield from self._read(question, list(groups.items()))
        return [window for own in judged for window in own]

    def _read(
        self, question: str, cut: Sequence[tuple[Passage, Sequence[Excerpt]]]
    ) -> Flow[tuple[list[Excerpt], list[list[Excerpt]]]]:
        items = [(question, passage, [(w.start, w.end) for w in own]) for passage, own in cut]
        answers = yield from self.port.ask(items)
        wholes = [Excerpt.whole(passage) for passage, _ in cut]
        firsts = list(_labelled(wholes, [whole for whole, _ in answers], self._combined))
        judged = [
            list(_labelled(own, spans, self._combined))
            for (_, own), (_, spans) in zip(cut, answers, strict=True)
        ]
        return firsts, judged

    def _combined(self, label: BiLabelScore) -> float:
        return label.combine(self.weight, logits=self.logits)


def score_port(scorer: Scorer | None = None) -> ScorePort:
    """Build the port of a scorer; without one, of the embedded scorer, loaded when first asked."""
    given = EMBEDDED_SCORER if scorer is None else scorer_of(scorer)
    return port_of("score", given, "score", argument="scorer")


def scoring_named(given: str | None) -> str | None:
    """Read one of the two ways to score windows; None leaves it to the scorer."""
    named = {None: None, WINDOWS: WINDOWS, ONE_PASS: ONE_PASS, "one-pass": ONE_PASS}
    if given not in named:
        raise InputError.of("scoring", given=given, allowed="'windows', 'one_pass' or None")
    return named[given]


def scoring_of(
    port: ScorePort | SentencePort, named: str, weight: float, *, logits: bool = False
) -> Scoring:
    """Give the named way to score with the scorer behind a port.

    Raises ``InputError`` for one_pass with a scorer that has no ``score_sentences``.
    """
    if named == WINDOWS:
        return Windows(port, weight, logits)  # type: ignore[arg-type]  # a port of pairs
    if not reads_once(port):
        allowed = "for scoring='one_pass', one with score_sentences, such as OnePassScorer"
        raise InputError.of("scorer", given=port.owner or port, allowed=allowed)
    return OnePass(sentence_port(port), weight, logits)


def reads_once(port: ScorePort | SentencePort) -> bool:
    """Tell whether the scorer behind a port can judge windows from one reading."""
    verbs = ("score_sentences", "ascore_sentences")
    return any(callable(getattr(port.owner, verb, None)) for verb in verbs)


def sentence_port(port: ScorePort | SentencePort) -> SentencePort:
    """Build the port of the scorer behind a port, for passages with spans."""
    if port.name == "score_sentences":
        return port  # type: ignore[return-value]  # the name says what it takes
    return port_of("score_sentences", port.owner, "score_sentences", argument="scorer")


def owner_name(port: Port[Any, Any]) -> str:
    """Name the model behind a port; empty where it has no name."""
    name = getattr(port.owner, "name", "")
    return name if isinstance(name, str) else ""


def _labelled(
    excerpts: Iterable[Excerpt],
    answers: Sequence[Any],
    combined: Callable[[BiLabelScore], float],
) -> Iterator[Excerpt]:
    """Put the labels on the excerpts they are for."""
    for excerpt, label in zip(excerpts, labels_of(answers), strict=True):
        yield replace(excerpt, score=combined(label), labels=label)
