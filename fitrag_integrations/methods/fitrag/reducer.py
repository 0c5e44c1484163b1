"""FIT-RAG's token reducer over given passages (section 4.4.2).

`TokenReducer` is what the drop-ins of both frameworks run; `reduce` is the reduction itself,
shared with `FitRag`. Where Algorithm 3 as printed contradicts its text and Figure
5, this follows the text: the whole prefix of sub-documents is kept, not the last alone, and
everything when the detector never agrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Literal

from fitrag_integrations.core.checks import (
    Count,
    check_number,
    trait,
)
from fitrag_integrations.defaults import DEFAULTS, ONE_PASS, Auto, Cutting
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.budget import Budget, Counting
from fitrag_integrations.methods.fitrag.ranking import RankingOptions, Reading
from fitrag_integrations.methods.fitrag.scoring import (
    ScorePort,
    Scoring,
    check_detector,
    check_scoring,
    detector_for,
    reads_once,
    score_port,
    scoring_of,
    sufficient,
)
from fitrag_integrations.ports import Detector, Scorer
from fitrag_integrations.text.sentences import SentenceSplitter
from fitrag_integrations.text.tokens import CountTokens
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.windows import (
    apart,
    at_least,
    by_score,
    merge,
    only_links,
    windows,
)


def check_part(field: str, value: object) -> float:
    """Require a part of a whole, in (0, 1]."""
    if not (part := check_number(field, value, high=1)) > 0:
        raise InputError.of(field, given=value, allowed="a number above 0, at most 1")
    return part


@dataclass(frozen=True, kw_only=True)
class ReducerOptions(Counting, RankingOptions):
    """Options of the token reducer (FIT-RAG, section 4.4.2).

    Every passage is cut into windows of `window` sentences, and all windows are scored. The best
    `per_passage` of each passage that do not overlap represent it. Of these, best first, those
    below `min_score` go, then all after the shortest prefix that `detector` finds sufficient, then
    what is over the budget. They are bought in an order that no budget changes; where not even the
    first fits, it is shortened, sentence by sentence and then by clause and word, to the part that
    scores best. Windows that touch are joined.

    What is left open is settled by `fitrag_integrations.defaults`: single sentences in one pass for
    a scorer that can, such as the bundled one, else windows of three, one a passage; of both,
    without `max_tokens`, 0.4 of the tokens of the `top_n` passages.

    Args:
        window: Sentences in a window; None is one for a scorer that judges sentences, else three.
        stride: Sentences from the start of one window to the next, at most ``window``.
        max_tokens: Budget of tokens: the excerpts cost no more in a prompt, as numbered documents,
            and added up one by one; None is no limit.
        count_tokens: Counts the tokens of a text; None estimates them.
        detector: Decides when the excerpts are enough, at 0.5 or its own ``threshold``; None is the
            bundled one where it fits the scorer and the windows, False keeps all.
        split: Returns the [start, end) of the sentences of a text; None is the built-in one.
        per_passage: Maximum number of windows kept of a passage; None is no limit.
        max_share: Fraction of the tokens of all passages given that is kept at most, in (0, 1];
            None keeps all.
        min_tokens: Tokens that ``max_share`` always allows.
        min_score: Lowest ``relevance_score`` kept, in [0, 1]; None keeps all, but for a pruner the
            threshold of its own.
        scoring: "one_pass" judges windows from one reading of their passage, "windows" reads each
            as a text of its own, as in the paper; None is what the scorer can do. The bundled
            scorer judges sentences in one pass by ``has_answer`` alone, so that ``weight`` changes
            the order of passages only.
        logits: Add logits instead of probabilities.

    Raises:
        ThresholdMismatchError: If the detector was fitted for another scorer.
    """

    window: Count | None = None
    stride: Count = DEFAULTS.sentences.stride
    max_tokens: Count | None = DEFAULTS.max_tokens
    count_tokens: CountTokens = None
    detector: Annotated[Detector, check_detector] | Literal[False] | None = None
    split: SentenceSplitter | None = None
    per_passage: Count | Auto | None = "auto"
    max_share: Annotated[float, check_part] | Auto | None = "auto"
    min_tokens: Count | Auto = "auto"
    scoring: Annotated[str | None, check_scoring] = None
    logits: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.resolved

    @cached_property
    def resolved(self) -> Resolved:
        """The options as they are for the scorer in use."""
        return self.resolve(self.scorer)

    def resolve(self, scorer: Scorer | ScorePort | None = None) -> Resolved:
        """Settle what the options leave open, by what a scorer can do.

        Args:
            scorer: The scorer, or its port; None is the bundled one.
        """
        port = score_port(scorer)  # type: ignore[arg-type]  # a port is passed through
        cutting = DEFAULTS.cutting(
            reads_sentences=reads_once(port),
            scoring=self.scoring,
            window=self.window,
            stride=self.stride,
            per_passage=self.per_passage,
            max_share=self.max_share,
            min_tokens=self.min_tokens,
            max_tokens=self.max_tokens,
        )
        scoring = scoring_of(port, cutting.scoring, self.weight, logits=self.logits)
        low = self.min_score
        if low is None and cutting.scoring == ONE_PASS:  # a pruner's own
            low = trait(port.owner, "sentence_threshold", float)
        cut_so = {name: getattr(cutting, name) for name in ("window", "stride", "per_passage")}
        detector = detector_for(self.detector, scoring, **cut_so)
        return Resolved(self, cutting, scoring, low, detector)


@dataclass(frozen=True, slots=True)
class Resolved:
    """Options of the token reducer with everything settled for one scorer.

    Args:
        options: The options as they were given.
        cutting: How passages are cut into windows, and how much of them is kept.
        scoring: How they are scored.
        min_score: Lowest score kept; None keeps all.
        detector: The detector in use, if any.
    """

    options: ReducerOptions
    cutting: Cutting
    scoring: Scoring
    min_score: float | None
    detector: Detector | None

    def read(self, question: str, found: object) -> Reading:
        """Return what is read of the passages ``found`` for a ``question``."""
        return self.options.read(self.scoring, question, found)

    def cut(self, passage: Passage, ends: Mapping[Passage, int]) -> list[Excerpt]:
        """Cut a passage into windows, up to where it is read; without a sentence, there is none."""
        size, stride, split = self.cutting.window, self.cutting.stride, self.options.split
        end = ends.get(passage, len(passage.text))
        cut = windows(passage, size=size, stride=stride, split=split)
        return [one for one in cut if one.end <= end and one.body.strip()]

    def details(self) -> dict[str, object]:
        """Return the numbers, as they were settled, for a context."""
        given = {name: getattr(self.options, name) for name in ("weight", "max_tokens", "top_n")}
        return {**asdict(self.cutting), **given, "min_score": self.min_score}


@dataclass(frozen=True, slots=True)
class Reduction:
    """Excerpts that a reduction kept, best first, and those it chose from.

    Args:
        kept: Excerpts kept; windows that touch are joined.
        ranked: The best windows of every passage, best first, before any limit.
        tokens_in: Tokens of everything found, in a prompt.
        tokens_out: Tokens of the excerpts kept, in a prompt.
    """

    kept: tuple[Excerpt, ...]
    ranked: tuple[Excerpt, ...]
    tokens_in: int = 0
    tokens_out: int = 0


def reduce(windows: Sequence[Excerpt], resolved: Resolved, reading: Reading) -> Flow[Reduction]:
    """Choose among scored windows (section 4.4.2).

    Args:
        windows: Windows of the passages that are reduced, best passages first, with their scores.
        resolved: The options.
        reading: What they are from. Its scoring scores the parts of a window that is shortened, and
            what is dropped is added to its notes and its selection.

    Returns:
        The flow that ends in what is kept.
    """
    options, cutting = resolved.options, resolved.cutting
    asked, selection = reading.asked, reading.asked.selection

    # the best windows of each passage, each text once; the place of their passage counts a little,
    # so that where no sentence stands out those of the best passages are kept together
    places = {one: at for at, one in enumerate(dict.fromkeys(w.passage for w in windows), 1)}
    ranked = sorted(
        by_score(windows),
        key=lambda one: (only_links(one), -one.score - reading.prior / 2 / places[one.passage]),
    )
    each, repeated = cutting.per_passage, selection.counts["duplicate"]
    ordered = apart(ranked, per_passage=each, deduplicate=options.deduplicate, selection=selection)
    notes: tuple[str, ...] = ()
    if repeated := selection.counts["duplicate"] - repeated:
        notes = (f"{repeated} of {len(ranked)} excerpts left out: repeated",)
    able = at_least(resolved.min_score, ordered, selection)
    if low := len(ordered) - len(able):
        reached = f"min_score={resolved.min_score:g}"
        nothing = f"nothing to refer to: no excerpt reaches {reached}"
        some = f"{low} of {len(ordered)} excerpts left out by {reached}"
        notes += (some if able else nothing,)

    # the sub-document filter: is this prefix enough?
    enough = able
    if resolved.detector is not None:
        enough, more = yield from sufficient(able, resolved.detector)
        notes += more
        selection.drop(able[len(enough) :], "detector", "those before it are enough")

    # the budget
    def joined(kept: Sequence[Excerpt]) -> list[Excerpt]:
        return list(kept) if each == 1 else by_score(merge(kept))

    budget = Budget(count=options.counter, split=options.split, arrange=joined)
    tokens_in = options.tokens_in(reading.found)
    limit, share = f"max_tokens={options.max_tokens}", None
    if cutting.max_share is not None:
        of = tokens_in
        if options.max_share == "auto":  # of what `top_n` left
            passages = dict.fromkeys(one.passage for one in windows)
            of = budget.cost(list(map(Excerpt.whole, passages)))
        share = max(cutting.min_tokens, int(cutting.max_share * of))
        if options.max_tokens is None or share < options.max_tokens:
            limit = f"max_share={cutting.max_share:g}"
    budget = replace(budget, max_tokens=options.max_tokens, share=share, limit=limit)
    fitted = yield from budget.fitted(enough, asked.windows)
    selection.drop(fitted.left, "budget", f"over {limit}")
    if links := sum(map(only_links, fitted.kept)):
        note = f"{links} of {len(fitted.kept)} excerpts kept are only links or badges"
        fitted = replace(fitted, notes=(*fitted.notes, note))
    kept = tuple(joined(fitted.kept))
    reading.notes += (*notes, *fitted.notes)
    return Reduction(kept, tuple(ordered), tokens_in, budget.cost(kept))


@dataclass(frozen=True, kw_only=True)
class TokenReducer(ReducerOptions):
    """Rerank passages to the `top_n` best, and reduce these to few excerpts (FIT-RAG, section 4.4).

    `FitRag` without retrieval: equal passages give equal excerpts.

    Example:
        >>> TokenReducer(max_tokens=800).resolved.cutting.window
        1
    """

    def context(self, question: str, passages: Sequence[Passage]) -> Flow[Context]:
        """Return the flow that ends in the excerpts kept of ``passages`` for a ``question``."""
        reading, reduced = yield from self.reduction(question, passages)
        numbers = {"tokens_in": reduced.tokens_in, "tokens_out": reduced.tokens_out}
        return reading.context(reduced.kept, "compress", self.resolved.details() | numbers)

    def reduction(
        self, question: str, passages: Sequence[Passage]
    ) -> Flow[tuple[Reading, Reduction]]:
        """Return the flow of `context` that ends in what was read and how it was reduced.

        Args:
            question: The question; not blank.
            passages: What to reduce.
        """
        resolved, top_n = self.resolved, self.top_n
        reading = resolved.read(question, passages)
        asked, given = reading.asked, reading.passages
        if top_n is None or (len(given) <= top_n and resolved.cutting.scoring != ONE_PASS):
            cut = [window for one in given for window in resolved.cut(one, asked.ends)]
            scored = yield from asked.windows(cut)
            best: dict[Passage, float] = {}
            for one in scored:
                best[one.passage] = max(one.score, best.get(one.passage, one.score))
            wholes = [Excerpt.whole(passage, score=best[passage]) for passage in best]
            once = {id(whole.passage) for whole in reading.once(wholes)}
            scored = [one for one in scored if id(one.passage) in once]
        else:
            wholes, windows_of = yield from asked.passages(
                given, partial(resolved.cut, ends=asked.ends)
            )
            ordered = reading.ranked(reading.once(wholes))
            scored = yield from windows_of(asked.selection.first(ordered, top_n, "top_n"))
            if left := len(ordered[top_n:]):
                note = f"{left} of {len(ordered)} passages left out by top_n={top_n}"
                reading.notes += (note,)
        return reading, (yield from reduce(scored, resolved, reading))
