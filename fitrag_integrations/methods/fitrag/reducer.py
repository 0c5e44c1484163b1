"""FIT-RAG's reranker and token reducer, as flows any adapter can run (section 4.4).

Where Algorithm 3 as printed contradicts its text and Figure 5, this follows the text: the whole
prefix of sub-documents is kept, not the last alone, and everything when the detector never
agrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Share,
    check_many,
    check_number,
    check_text,
    check_whole,
    trait,
)
from fitrag_integrations.defaults import DEFAULTS, ONE_PASS, Auto, Cutting
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.budget import Budget, Counting
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER, script_note
from fitrag_integrations.methods.fitrag.scoring import (
    ScorePort,
    Scoring,
    Windows,
    check_detector,
    check_scoring,
    detector_for,
    reads_once,
    score_port,
    scoring_of,
    sufficient,
)
from fitrag_integrations.ports import Detector
from fitrag_integrations.text.sentences import SentenceSplitter
from fitrag_integrations.text.tokens import CountTokens
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.score import logit
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import (
    apart,
    at_least,
    bounded,
    by_score,
    merge,
    only_links,
    usable,
    windows,
    with_text,
)

__all__ = ["Reduced", "ScorePort", "TokenReducer", "compress", "rerank", "score_port"]

Reduced: TypeAlias = tuple[list[Excerpt], tuple[str, ...]]  # the excerpts kept, and notes


@dataclass(frozen=True, slots=True)
class Reduction:
    """Excerpts that a reduction kept, best first, and those it chose from.

    Args:
        kept: Excerpts kept; windows that touch are joined.
        ranked: The best windows of every passage, best first, before any limit.
        notes: What was left out, in plain sentences.
        tokens_in: Tokens of the whole passages in a prompt.
        tokens_out: Tokens of the excerpts kept.
    """

    kept: tuple[Excerpt, ...]
    ranked: tuple[Excerpt, ...]
    notes: tuple[str, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0


def check_part(field: str, value: object) -> float:
    """Require a part of a whole, in (0, 1]."""
    if not (part := check_number(field, value, high=1)) > 0:
        raise InputError.of(field, given=value, allowed="a number above 0, at most 1")
    return part


def rerank(
    question: str,
    passages: Sequence[Passage],
    score: ScorePort,
    *,
    top_n: int | None = DEFAULTS.top_n,
    weight: float = DEFAULTS.weight,
    min_score: float | None = DEFAULTS.min_score,
    logits: bool = False,
    deduplicate: bool = DEFAULTS.deduplicate,
    selection: Selection | None = None,
    ends: Mapping[Passage, int] | None = None,
) -> Flow[list[Excerpt]]:
    """Score whole passages and keep the ``top_n`` best, best first (section 4.4.1).

    Args:
        question: The question; not blank.
        passages: What to rank; with a `selection`, what `usable` left of them.
        score: Port of a scorer, called with pairs of question and passage.
        top_n: Maximum number of passages kept; None keeps all but blank ones.
        weight: Weight of ``llm_prefer`` in ``BiLabelScore.combine``, in [0, 1].
        min_score: Lowest score kept, in [0, 2], or any number with ``logits``; None keeps all.
        logits: Whether to add logits instead of probabilities.
        deduplicate: Keep equal texts once, and text that chunks of one source share only with the
            better one.
        selection: Records what is dropped.
        ends: Where the scorer stops reading a passage; other passages are read whole.

    Returns:
        The flow that ends in whole passages, best first; equals keep their order.
    """
    check_text("question", question, blank=False)
    top_n = None if top_n is None else check_whole("top_n", top_n, low=1)
    if selection is None:
        given, selection = with_text(check_many("passages", passages, Passage)), Selection()
        passages = usable(given)[0] if deduplicate else given
    scored = yield from Windows(score, weight, logits, question, ends or {}).wholes(passages)
    selection.scored(scored)
    ranked = by_score(scored)
    if deduplicate:
        ranked = apart(ranked, selection=selection)
    able = at_least(min_score, ranked)
    selection.drop(ranked[len(able) :], "min_score", f"min_score={min_score}")
    return selection.first(able, top_n, "top_n")


def compress(
    question: str, passages: Sequence[Passage], score: ScorePort, **settings: Any
) -> Flow[list[Excerpt]]:
    """Reduce passages to their best sentences or windows, best first (section 4.4.2).

    Args:
        question: The question; not blank.
        passages: What to reduce.
        score: Port of a scorer, called with pairs of question and window, or of question and
            passage with spans if it judges sentences in one pass.
        **settings: Options of `TokenReducer`, such as `max_tokens`, `window` and `detector`.

    Returns:
        The flow that ends in the excerpts kept, best first.
    """
    kept, _ = yield from TokenReducer(**settings)(question, passages, score)
    return kept


def readable(
    question: str,
    passages: Sequence[Passage],
    scorer: object,
    selection: Selection,
    *,
    deduplicate: bool,
    max_passages: int | None,
    max_sentences: int | None,
    split: SentenceSplitter | None = None,
) -> tuple[list[Passage], dict[Passage, int], tuple[str, ...]]:
    """Return the passages that are read, where reading ends in them, and what there is to note."""
    given, notes = usable(passages, deduplicate=deduplicate, selection=selection)
    given, ends, more = bounded(
        given,
        max_passages=max_passages,
        max_sentences=max_sentences,
        split=split,
        selection=selection,
    )
    return given, ends, (*notes, *more, *script_note(scorer, EMBEDDED_SCORER, question, given))


@dataclass(frozen=True, kw_only=True)
class Reducing(Checked):
    """Settings of the token reducer.

    Args:
        window: Sentences in a window; None is one for a scorer that judges sentences, else three.
        stride: Sentences from the start of one window to the next, at most ``window``.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].
        max_tokens: Budget of prompt tokens of the excerpts; None is no limit.
        count_tokens: Counts the tokens of a text; None estimates them.
        detector: Decides when the excerpts are enough; None is the bundled one where it fits the
            scorer and the windows, False keeps all.
        split: Returns the [start, end) of the sentences of a text; None is the built-in one.
        per_passage: Maximum number of windows kept of a passage; None is no limit.
        max_share: Fraction of the passages' tokens kept at most, in (0, 1]; None keeps all.
        min_tokens: Tokens that ``max_share`` always allows.
        min_score: Lowest score kept, in [0, 2], or any number with ``logits``; None keeps all.
        scoring: "one_pass" judges windows from one reading of their passage, "windows" reads each
            as a text of its own, as in the paper; None is what the scorer can do.
        logits: Add logits instead of probabilities.
        deduplicate: Keep equal texts, and text that chunks of one source share, once.
        max_passages: Maximum number of passages read, in the order given; None is no limit.
        max_sentences: Maximum number of sentences read, of all passages; None is no limit.
    """

    window: Count | None = None
    stride: Count = DEFAULTS.sentences.stride
    weight: Share = DEFAULTS.weight
    max_tokens: Count | None = DEFAULTS.max_tokens
    count_tokens: CountTokens = None
    detector: Annotated[Detector, check_detector] | Literal[False] | None = None
    split: SentenceSplitter | None = None
    per_passage: Count | Auto | None = "auto"
    max_share: Annotated[float, check_part] | Auto | None = "auto"
    min_tokens: Count | Auto = "auto"
    min_score: float | None = DEFAULTS.min_score
    scoring: Annotated[str | None, check_scoring] = None
    logits: bool = False
    deduplicate: bool = DEFAULTS.deduplicate
    max_passages: Count | None = DEFAULTS.max_passages
    max_sentences: Count | None = DEFAULTS.max_sentences

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None and self.stride > self.window:
            allowed = f"an integer from 1 to window={self.window}, or sentences would be skipped"
            raise InputError.of("stride", given=self.stride, allowed=allowed)
        if self.min_score is not None:
            bounds = {} if self.logits else {"low": 0.0, "high": 2.0}
            check_number("min_score", self.min_score, **bounds)

    def cutting(self, score: ScorePort) -> Cutting:
        """Return how passages are cut and how much is kept, with the scorer behind a port."""
        return DEFAULTS.cutting(
            reads_sentences=reads_once(score),
            scoring=self.scoring,
            window=self.window,
            stride=self.stride,
            per_passage=self.per_passage,
            max_share=self.max_share,
            min_tokens=self.min_tokens,
            max_tokens=self.max_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class TokenReducer(Counting, Reducing):
    """Reduce passages to few excerpts (section 4.4.2).

    Every passage is cut into windows of ``window`` sentences, ``stride`` apart, and all windows are
    scored. The best ``per_passage`` of each passage that do not overlap represent it, None any
    number. Equal texts are kept once, and so is what chunks of one source share, unless
    ``deduplicate`` is False. Of these, best first, those below ``min_score``, on the scale of
    ``BiLabelScore.combine`` and by default the threshold of a pruner, go, then all after the
    shortest prefix ``detector`` finds sufficient (0.5 or more, or its own ``threshold``), then what
    is over the budget: the rendered text of what is kept costs at most ``max_tokens``, and at most
    ``max_share`` in (0, 1] of what all passages cost. What does not fit is skipped, and the budget
    filled with what fits behind it. An excerpt too long by itself is shortened, sentence by
    sentence and then by clause and word, to the part that scores best. Windows that touch are
    joined.

    With ``scoring`` "windows" every window is read as a text of its own, as in the paper; with
    "one_pass" windows are judged from one reading of their passage, by a scorer with
    ``score_sentences``. What is left open is settled by ``fitrag_integrations.defaults``:
    single sentences in one pass for a scorer that can, such as the bundled one, else windows of
    three, one a passage; of both, without ``max_tokens``, 0.4 of the tokens, and ``min_tokens`` of
    64 in any case. Another ``window``, or ``scoring="windows"``, selects the paper's way.
    ``count_tokens`` goes from a text to its tokens (None estimates them), ``split`` to the
    [start, end) of its sentences. A call reads the first ``max_passages`` passages and the first
    ``max_sentences`` sentences of all of them; a note names what is left out.

    ``weight`` and ``logits`` are those of ``BiLabelScore.combine``; sums of logits are any number.
    The bundled scorer judges sentences in one pass by ``has_answer`` alone, so that ``weight``
    changes the order of passages only; of windows it gives both labels.

    ``detector`` None is the embedded one, where the scores come from the scorer it was trained on
    and windows are cut as they were in its training; anywhere else, and with False, nothing is cut
    off. A detector that was fitted for another scorer raises ``ThresholdMismatchError``.
    """

    def __call__(
        self, question: str, passages: Sequence[Passage], score: ScorePort
    ) -> Flow[Reduced]:
        """Return the flow that ends in the excerpts kept, best first, and what there is to note."""
        reduction = yield from self.reduction(question, passages, score)
        return list(reduction.kept), reduction.notes

    def reduction(
        self,
        question: str,
        passages: Sequence[Passage],
        score: ScorePort,
        selection: Selection | None = None,
        *,
        top_n: int | None = None,
    ) -> Flow[Reduction]:
        """Return the flow that reduces the ``top_n`` best passages and ends in a `Reduction`.

        ``top_n`` None reduces all; ``selection`` records what is dropped.
        """
        reducer, scoring = self.settled(score)
        check_text("question", question, blank=False)
        selection = Selection() if selection is None else selection
        given, asked, notes = reducer.readable(passages, scoring.about(question), selection)
        cut = partial(reducer.cut, ends=asked.ends)
        if top_n is None or (len(given) <= top_n and reducer.scoring != ONE_PASS):
            scored = yield from asked.windows([each for one in given for each in cut(one)])
        else:
            wholes, windows_of = yield from asked.passages(given, cut)
            selection.scored(wholes)
            ranked = by_score(wholes)
            scored = yield from windows_of(ranked[:top_n])
            if left := ranked[top_n:]:
                selection.drop(left, "top_n", f"top_n={top_n}")
                notes += (f"{len(left)} of {len(ranked)} passages left out by top_n={top_n}",)
        chosen = yield from reducer.chosen(scored, asked, selection)
        return replace(chosen, notes=(*notes, *chosen.notes))

    def settled(self, score: ScorePort) -> tuple[TokenReducer, Scoring]:
        """Settle what was left open, by what the scorer behind a port can do."""
        found = self.cutting(score)
        scoring = scoring_of(score, found.scoring, self.weight, logits=self.logits)
        low, least = self.min_score, trait(score.owner, "sentence_threshold", float)
        if low is None and least and found.scoring == ONE_PASS:  # a pruner's own
            low = 2 * (logit(least) if self.logits else least)
        return replace(self, **asdict(found), min_score=low), scoring

    def readable(
        self, passages: Sequence[Passage], asked: Scoring, selection: Selection
    ) -> tuple[list[Passage], Scoring, tuple[str, ...]]:
        """Return what is read of passages, the scoring that stops where it ends, and notes."""
        given, ends, notes = readable(
            asked.question,
            passages,
            asked.port,
            selection,
            deduplicate=self.deduplicate,
            max_passages=self.max_passages,
            max_sentences=self.max_sentences,
            split=self.split,
        )
        return given, replace(asked, ends=ends), notes

    def cut(self, passage: Passage, ends: Mapping[Passage, int] | None = None) -> list[Excerpt]:
        """Cut a passage into its windows, in the order of the text, up to where reading ends."""
        size = self.window or DEFAULTS.paper.window
        cut = windows(passage, size=size, stride=self.stride, split=self.split)
        end = ends.get(passage) if ends else None
        return cut if end is None else [window for window in cut if window.end <= end]

    def chosen(
        self, scored: Sequence[Excerpt], asked: Scoring, selection: Selection | None = None
    ) -> Flow[Reduction]:
        """Choose among scored windows; every one that is dropped goes into ``selection``.

        ``asked`` scores the parts of a window that is shortened.
        """
        selection = Selection() if selection is None else selection

        # the best windows of each passage, each text once
        each = 1 if self.per_passage == "auto" else self.per_passage
        ranked, repeated = by_score(scored), selection.counts["duplicate"]
        ordered = apart(ranked, per_passage=each, deduplicate=self.deduplicate, selection=selection)
        notes: tuple[str, ...] = ()
        if repeated := selection.counts["duplicate"] - repeated:
            notes = (f"{repeated} of {len(ranked)} excerpts left out: repeated",)
        able = at_least(self.min_score, ordered)
        selection.drop(ordered[len(able) :], "min_score", f"min_score={self.min_score}")
        if not able and ordered:
            notes += (f"nothing to refer to: no excerpt reaches min_score={self.min_score:g}",)
        elif low := len(ordered) - len(able):
            left = f"{low} of {len(ordered)} excerpts left out"
            notes += (f"{left} by min_score={self.min_score:g}",)

        # the sub-document filter: is this prefix enough?
        cutting = {"window": self.window, "stride": self.stride, "per_passage": each}
        enough, detector = able, detector_for(self.detector, asked, **cutting)
        if detector is not None:
            enough, more = yield from sufficient(able, detector)
            notes += more
            selection.drop(able[len(enough) :], "detector", "those before it are enough")

        # the budget
        wholes = [Excerpt.whole(one) for one in dict.fromkeys(one.passage for one in scored)]
        tokens_in = Budget(count=self.counter).cost(wholes)
        budget = self._budget(tokens_in)
        fitted = yield from budget.fitted(enough, asked.windows)
        selection.drop(fitted.left, "budget", f"over {budget.limit}")
        kept = fitted.kept if each == 1 else by_score(merge(fitted.kept))
        notes = (*notes, *fitted.notes)
        if links := sum(map(only_links, fitted.kept)):
            notes += (f"{links} of {len(fitted.kept)} excerpts kept are only links or badges",)
        return Reduction(tuple(kept), tuple(ordered), notes, tokens_in, budget.cost(kept))

    def _budget(self, tokens: int) -> Budget:
        limit, share = f"max_tokens={self.max_tokens}", None
        if self.max_share is not None and self.max_share != "auto":
            least = 1 if self.min_tokens == "auto" else self.min_tokens
            share = max(least, int(self.max_share * tokens))
            if self.max_tokens is None or share < self.max_tokens:
                limit = f"max_share={self.max_share:g}"
        return Budget(self.max_tokens, share, limit, self.counter, self.split)
