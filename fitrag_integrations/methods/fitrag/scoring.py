"""Two ways to score passages and their windows (FIT-RAG, sections 4.2 and 4.4.2).

The paper's reads every window as a separate text, after the passages. The other judges the
windows from the pass over the whole passages that reranking needs anyway, by a scorer with
``score_sentences``, such as the embedded one. That departs from the paper, and costs less than
half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeAlias

from fitrag_integrations.core.generic import T
from fitrag_integrations.core.record import remade
from fitrag_integrations.flow import Flow
from fitrag_integrations.flow.ask import ask_able
from fitrag_integrations.methods.fitrag.options import STRIDE, Plan, detect_port
from fitrag_integrations.methods.ik.decider import limit_of
from fitrag_integrations.ports import Detector
from fitrag_integrations.text.layout import named_by, named_exactly
from fitrag_integrations.text.records import records_of
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.excerpt import SPAN, grouped
from fitrag_integrations.values.score import labels_of
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import windows

NAMED = 1.5
"""Logits that a list item or a row gains when the question names it (benchmarks/layout.py)."""
EXACT = 3.0
"""Logits that a window gains by an identifier of the question (benchmarks/own_files.py)."""
FAR = 2000
"""Characters from a lead to the end of a window that are judged together at most."""
WindowsOf: TypeAlias = dict[int, list[Excerpt]]  # by the id() of their passage


@dataclass(frozen=True)
class Scoring:
    """Score the passages of one question, and the windows cut from them.

    Args:
        plan: How.
        question: The question.
        ends: Where to stop reading passages that are too long for one call.
        selection: Records what the scorer refuses.
    """

    plan: Plan
    question: str
    ends: Mapping[Passage, int]
    selection: Selection

    def passages(
        self, passages: Sequence[Passage], *, spared: bool
    ) -> Flow[tuple[list[Excerpt], WindowsOf]]:
        """Score whole passages and, where that is one ask, their windows.

        Args:
            passages: The passages.
            spared: Whether passages need no scores of their own, since all are kept: then only
                their windows are asked about, and the best stands for the passage.
        """
        if self.plan.one_pass:
            return (yield from self._one_pass([(one, self.cut(one)) for one in passages]))
        if not (self.plan.window and spared):
            items = [(self.question, self._read(one)) for one in passages]
            asked = yield from self._ask(items, passages, Excerpt.whole)
            return self._scored(map(Excerpt.whole, asked[0]), labels_of(asked[1])), {}
        judged = yield from self.windows([window for one in passages for window in self.cut(one)])
        groups = grouped(judged, lambda one: id(one.passage))
        best = [max(group, key=attrgetter("score")) for group in groups.values()]
        return [Excerpt.whole(one.passage, score=one.score) for one in best], groups

    def windows(self, cut: Sequence[Excerpt]) -> Flow[list[Excerpt]]:
        """Score windows in one ask, in the order given."""
        if self.plan.one_pass:
            groups = list(grouped(cut, attrgetter("passage")).items())
            _, judged = yield from self._one_pass(groups)
            return [window for own in judged.values() for window in own]
        items = [(self.question, window.as_passage()) for window in cut]
        able, answers = yield from self._ask(items, cut, lambda window: window)
        return self._scored(able, labels_of(answers))

    def cut(self, passage: Passage) -> list[Excerpt]:
        """Cut a passage into windows, up to where it is read; without a sentence, there is none."""
        end = self.ends.get(passage, len(passage.text))
        cut = windows(passage, size=self.plan.window, stride=STRIDE)
        return [one for one in cut if one.end <= end and one.body.strip()]

    def _read(self, passage: Passage) -> Passage:
        """Return what the scorer reads of a passage."""
        if passage not in self.ends:
            return passage
        return replace(passage, text=passage.text[: self.ends[passage]])

    def _ask(
        self, items: Sequence[object], of: Sequence[T], excerpt: Callable[[T], Excerpt]
    ) -> Flow[tuple[list[T], list[Any]]]:
        """Ask about items; what of them is refused is dropped with the reason."""
        able, answers, refused = yield from ask_able(self.plan.port, items, of)
        for one, error in refused:
            self.selection.drop([excerpt(one)], "refused", str(error))
        return able, answers

    def _scored(self, excerpts: Iterable[Excerpt], labels: Iterable[BiLabelScore]) -> list[Excerpt]:
        weight = self.plan.weight
        return [
            remade(one, score=label.relevance(weight), labels=label)
            for one, label in zip(excerpts, labels, strict=True)
        ]

    def _one_pass(
        self, cut: Sequence[tuple[Passage, Sequence[Excerpt]]]
    ) -> Flow[tuple[list[Excerpt], WindowsOf]]:
        """Read every passage once, and judge its windows from that reading.

        A window with a lead (a list item, a table row, code) is judged twice, by itself and
        together with all from the innermost part of its lead on, and gets the mean of the two
        logits: a row of cells says little without the header. Of the windows that share a lead,
        those named by the question (``named_by``) score ``NAMED`` more: a key in a cell is no
        sentence to be understood. A window that holds an identifier of the question, or whose
        lead does, scores ``EXACT`` more where few others do. Labels stay without either.
        """
        led = [[w for w in own if w.lead and w.end - w.lead[-1][0] <= FAR] for _, own in cut]
        items = [
            (
                self.question,
                self._read(passage),
                [*map(SPAN, own), *((w.lead[-1][0], w.end) for w in more)],
            )
            for (passage, own), more in zip(cut, led, strict=True)
        ]
        pairs = list(zip(cut, led, strict=True))
        able, answers = yield from self._ask(items, pairs, lambda pair: Excerpt.whole(pair[0][0]))
        named_as = [  # what leads a value names it, as an option does its default
            f"{one.passage.text[slice(*one.lead[-1])]}\n{one.body}" if one.lead else one.body
            for (_, own), _ in able
            for one in own
        ]
        judged, exact = WindowsOf(), iter(named_exactly(self.question, named_as))
        for ((passage, own), more), (_, spans) in zip(able, answers, strict=True):
            labels = labels_of(spans)
            both = dict(zip(map(SPAN, more), labels[len(own) :], strict=True))
            alike = grouped(own if records_of(passage.text) else more, attrgetter("lead")).values()
            named = {
                SPAN(group[at])
                for group in alike
                if group[0].lead or len(group) > 2  # not a header row
                for at in named_by(self.question, [one.body for one in group])
            }
            scored = []
            for window, label in zip(own, labels, strict=False):
                at = SPAN(window)
                extra = max(EXACT * next(exact), NAMED * (at in named))
                mean = label.mixed(both[at]) if at in both else label
                score = (mean.mixed(mean, extra) if extra else mean).relevance(self.plan.weight)
                scored.append(remade(window, score=score, labels=mean))
            judged[id(passage)] = scored
        wholes = [Excerpt.whole(passage) for (passage, _), _ in able]
        return self._scored(wholes, labels_of([whole for whole, _ in answers])), judged


def sufficient(
    ordered: Sequence[Excerpt], detector: Detector
) -> Flow[tuple[list[Excerpt], tuple[str, ...]]]:
    """Keep the shortest prefix that the detector finds sufficient.

    All prefixes are scored in one call. Sufficient is 0.5 or more, or the detector's own
    ``threshold``. Without a sufficient prefix, all excerpts are kept.

    Args:
        ordered: Excerpts, best first.
        detector: Detector of eligibility.

    Returns:
        The excerpts kept, and a note on the result.
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
