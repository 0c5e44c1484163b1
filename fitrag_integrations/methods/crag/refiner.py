"""Refine passages to knowledge strips: decompose, filter, recompose (CRAG, section 4.4).

Where the released code keeps the best strips in the order of their grades and without the paper's
threshold, this follows the paper: the threshold holds, and what is kept goes back into the order
of the documents.

A passage of one or two sentences is a strip; a longer one is cut into strips of a few sentences
each, without overlap (appendix B.3). Of a web page, whose paragraphs are parted by blank lines, no
strip spans two paragraphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from itertools import pairwise

from fitrag_integrations.core.checks import Checked, Count, Share, check_text, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import Shown
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.budget import Budget, Counting
from fitrag_integrations.methods.crag.evaluator import (
    PAPERS_STRIP,
    SENTENCES,
    EvaluatePort,
    evaluate_port,
    grade,
    own_thresholds,
)
from fitrag_integrations.text.layout import units_of
from fitrag_integrations.text.sentences import SentenceSplitter, split_sentences
from fitrag_integrations.text.spans import trimmed
from fitrag_integrations.text.tokens import CountTokens
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.passage import is_web
from fitrag_integrations.values.selected import Selected, Selection
from fitrag_integrations.values.thresholds import ActionThresholds, Grade
from fitrag_integrations.values.windows import apart, best_copies, by_score, usable

SHORT = 2
"""A text of at most so many sentences is one strip."""
_GAP = re.compile(r"\n[^\S\n]*\n\s*|\Z")


def strips(
    passage: Passage, *, sentences: int = SENTENCES, split: SentenceSplitter | None = None
) -> list[Excerpt]:
    """Cut a passage into strips of sentences, in order, with scores of 0.

    The sentences are distributed evenly: seven become 2, 2 and 3. A heading counts as part of the
    sentence under it. A blank passage has no strips.

    Args:
        passage: Passage.
        sentences: Maximum number of sentences of a strip.
        split: Splitter of sentences. Defaults to the package's own.
    """
    most = check_whole("sentences", sentences, low=1)
    splitter = split_sentences if split is None else split
    cut: list[Excerpt] = []
    for start, end in paragraphs(passage.text) if is_web(passage) else [(0, len(passage.text))]:
        text = passage.text[start:end]
        spans = [span for span, _ in units_of(text, splitter(text))]
        parts = 1 if len(spans) <= SHORT else -(-len(spans) // most)  # as few as hold them
        for first, after in pairwise(at * len(spans) // parts for at in range(parts + 1)):
            if first == after:  # no sentence at all
                continue
            place = start + spans[first][0], start + spans[after - 1][1]
            cut.append(Excerpt(passage, *place))
    return cut


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of each paragraph, without the white space around it."""
    at = 0
    for gap in _GAP.finditer(text):
        if text[at : gap.start()].strip():
            yield trimmed(text, at, gap.start())
        at = gap.end()


TOP_N = 5
"""Strips kept in the paper."""


@dataclass(frozen=True, slots=True)
class Refined(Shown):
    """What a `Refiner` kept of passages.

    Args:
        excerpts: Strips kept, in document order.
        notes: What was left out or degraded, in plain sentences.
        details: Numbers, as plain values.
        graded: All strips with their grades, of which those kept were chosen.
        selection: A row for each passage and each strip dropped, with the reason.
    """

    excerpts: tuple[Excerpt, ...] = ()
    notes: tuple[str, ...] = ()
    details: Row = field(default_factory=dict, hash=False)
    graded: tuple[Excerpt, ...] = field(default=(), compare=False, repr=False)
    selection: tuple[Selected, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class StripSource:
    """Passages of one origin, whose strips compete with each other, or are kept ``whole``."""

    wholes: Sequence[Excerpt]
    name: str = ""
    whole: bool = False

    @property
    def passages(self) -> list[Passage]:
        """Return the passages."""
        return [whole.passage for whole in self.wholes]


@dataclass(frozen=True)
class Refiner(Counting, Checked):
    """Cut passages into strips, grade all of them in one call, and keep the best in their order.

    Equal texts are kept once, and so is what chunks of one source share, unless ``deduplicate`` is
    False.

    Args:
        evaluator: Object with ``evaluate(pairs)``, a scorer, or a callable; None is the bundled
            one.
        top_n: Maximum number of strips kept; None is no limit.
        threshold: Grade that a strip has to reach, in [-1, 1]; None is the evaluator's own strip
            threshold, else the paper's -0.5. If no strip reaches it, the best one is kept, with a
            note.
        sentences: Maximum sentences of a strip; None is what the evaluator's strip threshold was
            fitted on, else three.
        max_tokens: Token budget of the rendered strips; one too long by itself is shortened to the
            clauses graded best. None is no limit.
        count_tokens: Counts the tokens of a text; None estimates them.
        split: Returns the [start, end) of the sentences of a text; None is the built-in one.
        min_score: Lowest ``relevance_score`` kept, in [0, 1]; None always keeps one strip.
        deduplicate: Whether equal texts are kept once.

    Raises:
        InputError: If an option is out of range.

    Example:
        >>> Refiner(top_n=3, max_tokens=200).top_n
        3
    """

    evaluator: object = None
    _: KW_ONLY
    top_n: Count | None = TOP_N
    threshold: Grade | None = None
    sentences: Count | None = None
    max_tokens: Count | None = None
    count_tokens: CountTokens = None
    split: SentenceSplitter | None = None
    min_score: Share | None = None
    deduplicate: bool = True

    def __post_init__(self) -> None:
        _ = self._port
        super().__post_init__()

    @cached_property
    def _port(self) -> EvaluatePort:
        return evaluate_port(self.evaluator)

    def __call__(self, question: str, passages: Sequence[Passage]) -> Flow[Refined]:
        """Return the flow that ends in the strips kept for one question."""
        check_text("question", question, blank=False)
        selection = Selection()
        readable, notes = usable(
            passages, deduplicate=self.deduplicate, scored=True, selection=selection
        )
        wholes = [Excerpt.whole(passage) for passage in readable]
        refined = yield from self.refined(question, [StripSource(wholes)], selection=selection)
        details = {
            "strips": len(refined.graded),
            "kept": len(refined.excerpts),
            **refined.details,
            "tokens_in": self.tokens_in(passages),
            "tokens_out": self.cost(refined.excerpts),
        }
        notes = (*notes, *refined.notes)
        rows = selection.rows(refined.excerpts)
        return Refined(refined.excerpts, notes, details, refined.graded, rows)

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Return the flow that ends in the strips kept.

        Args:
            question: Question.
            passages: Passages to refine.
        """
        kept = yield from self(question, passages)
        return Context(
            question,
            kept.excerpts,
            notes=kept.notes,
            method="refine",
            details=kept.details,
            selection=kept.selection,
        )

    def refined(
        self,
        question: str,
        sources: Sequence[StripSource],
        thresholds: ActionThresholds | None = None,
        *,
        selection: Selection,
    ) -> Flow[Refined]:
        """Return the flow that ends in the strips kept of several sources, all graded in one call.

        Args:
            question: Question.
            sources: Passages by origin; ``top_n`` is the limit of each.
            thresholds: Thresholds to use; None uses the evaluator's own.
            selection: Record to which the dropped strips are added.
        """
        limit, length = self.limit(thresholds), self.length(thresholds)

        # decompose
        to_cut = [passage for source in sources if not source.whole for passage in source.passages]
        cut = [s for one in to_cut for s in strips(one, sentences=length, split=self.split)]

        # filter
        refused = selection.counts["refused"]
        graded = yield from grade(question, cut, self._port, selection)
        once = graded
        if self.deduplicate:
            once, _ = best_copies(graded, what="strips", selection=selection)
        kept, more = self._filtered(sources, once, limit, selection)
        before = len(kept)
        kept = apart(by_score(kept), deduplicate=self.deduplicate, selection=selection)
        notes = []
        if repeated := len(graded) - len(once) + before - len(kept):
            notes.append(f"{repeated} of {len(cut)} strips left out: repeated")
        notes += more
        if refused := selection.counts["refused"] - refused:
            notes.append(f"{refused} of {len(cut)} strips left out: the evaluator refused them")

        # recompose
        budget = Budget(
            self.max_tokens,
            limit=f"max_tokens={self.max_tokens}",
            count=self.counter,
            split=self.split,
            arrange=partial(_in_order, sources=sources),
        )
        fitted = yield from budget.fitted(kept, partial(grade, question, evaluate=self._port))
        selection.drop(fitted.left, "budget", f"over {budget.limit}")
        shown = _in_order(fitted.kept, sources)
        details = {
            "top_n": self.top_n,
            "strip_threshold": limit,
            "sentences": length,
            "max_tokens": self.max_tokens,
        }
        return Refined(tuple(shown), (*notes, *fitted.notes), details, tuple(graded))

    def limit(self, thresholds: ActionThresholds | None = None) -> float:
        """Return the threshold in use, in [-1, 1]: ours, else the evaluator's, else the paper's.

        ``thresholds`` replace the evaluator's. A ``min_score``, mapped from [0, 1] to [-1, 1], is
        used if it is higher.
        """
        found = self.threshold
        if found is None:
            own = thresholds or own_thresholds(self.evaluator)
            found = PAPERS_STRIP if own is None else own.strip
        return float(found if self.min_score is None else max(found, 2 * self.min_score - 1))

    def length(self, thresholds: ActionThresholds | None = None) -> int:
        """Return the sentences of a strip: those given, else what the threshold was fitted on."""
        if self.sentences is not None:
            return int(self.sentences)
        own = thresholds or own_thresholds(self.evaluator)
        return SENTENCES if own is None else own.sentences

    def _filtered(
        self,
        sources: Sequence[StripSource],
        graded: Sequence[Excerpt],
        limit: float,
        selection: Selection,
    ) -> tuple[list[Excerpt], list[str]]:
        """Keep the best strips of each source that reach the limit; where none does, the best.

        That one stays only where nothing reached it in another source either.
        """
        kept, missed = list[Excerpt](), list[tuple[StripSource, list[Excerpt]]]()
        threshold = f"under {limit:.2f}"
        for source in sources:
            passages = set() if source.whole else set(map(id, source.passages))
            own = [strip for strip in graded if id(strip.passage) in passages]
            passed = by_score([strip for strip in own if strip.score >= limit])
            kept += selection.first(passed, self.top_n, "top_n")
            if passed:  # of others the best may yet stay
                low = [strip for strip in own if strip.score < limit]
                selection.drop(low, "threshold", threshold)
            if source.whole:
                kept += source.wholes
            elif own and not passed:
                missed.append((source, by_score(own)))
        notes, alone = [], not kept
        for source, ranked in missed:
            best = ranked[0]
            stays = alone and (self.min_score is None or best.score >= 2 * self.min_score - 1)
            kept += [best] * stays
            selection.drop(ranked[stays:], "threshold", threshold)
            of = f" of {source.name}" if source.name else ""
            verdict = "kept" if stays else "left out"
            notes.append(
                f"none of {len(ranked)} strips{of} reaches {limit:.2f}: the best, graded "
                f"{best.score:.2f}, is {verdict}"
            )
        return kept, notes


def _in_order(kept: Sequence[Excerpt], sources: Sequence[StripSource]) -> list[Excerpt]:
    """Sort excerpts by the order of the documents."""
    passages = [passage for source in sources for passage in source.passages]
    place = {id(passage): at for at, passage in enumerate(passages)}
    return sorted(kept, key=lambda one: (place[id(one.passage)], one.start))
