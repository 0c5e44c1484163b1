"""Options of FIT-RAG, and the plan that they resolve to (FIT-RAG, sections 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol, TypeAlias, runtime_checkable

from fitrag_integrations.core.checks import Checked, Count, Share, can, trait
from fitrag_integrations.defaults import DEFAULTS, Auto
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Port
from fitrag_integrations.methods.budget import Counting
from fitrag_integrations.methods.defaults import EMBEDDED_SCORER, embedded_detector, torch_note
from fitrag_integrations.ports import Detector, Pair, Scorer, model_name, port_of, scorer_of
from fitrag_integrations.text.tokens import CountTokens, TokenCounter, approximate_tokens
from fitrag_integrations.types import BiLabelScore, Passage

Sentences: TypeAlias = tuple[str, Passage, list[tuple[int, int]]]  # question, passage, spans
STRIDE = 1
"""Sentences from the start of one window to the next, as in the paper."""
LEAST = 64
"""Tokens that the share of the default always allows."""


@runtime_checkable
class SentenceScorer(Protocol):
    """Scorer of passages and of their spans, [start, end) in the text."""

    def score_sentences(
        self, items: Sequence[Sentences], /
    ) -> Sequence[tuple[BiLabelScore, Sequence[BiLabelScore]]]:
        """Return the score of each passage, and those of its spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Resolved options of a reduction, in which None always means "no limit" or "no detector".

    Args:
        port: Port of the scorer: of passages, or with `one_pass` of passages with the spans of
            their windows.
        weight: Weight of ``llm_prefer`` against ``has_answer``.
        prior: Weight of the order of retrieval and of shared words.
        top_n: Passages that the reranker keeps.
        min_score: Lowest score kept.
        deduplicate: Whether copies are left out.
        notes: Notes on the models.
        window: Sentences in a window; 0 keeps passages whole, which is reranking alone.
        one_pass: Whether windows are scored in the same pass as their passage.
        per_passage: Maximum number of windows of a passage.
        detector: Decides when the excerpts are enough.
        max_tokens: Budget of tokens.
        max_share: Maximum fraction of the tokens to keep.
        least: Tokens that this fraction always allows.
        of_chosen: Whether the fraction is of the `top_n` passages; else of all passages.
        counter: Counts the tokens of a text.
    """

    port: Port[Any, Any]
    weight: float
    prior: float
    top_n: int | None
    min_score: float
    deduplicate: bool
    notes: tuple[str, ...]
    window: int = 0
    one_pass: bool = False
    per_passage: int | None = None
    detector: Detector | None = None
    max_tokens: int | None = None
    max_share: float | None = None
    least: int = 1
    of_chosen: bool = False
    counter: TokenCounter = approximate_tokens

    @property
    def cut_so(self) -> dict[str, Any]:
        """Return the scorer and the windows, which a detector must have been trained for."""
        cutting = {"window": self.window, "stride": STRIDE, "per_passage": self.per_passage}
        return {"scorer": model_name(self.port), **cutting}

    def details(self) -> dict[str, object]:
        """Return the resolved numbers, for a context."""
        names = ["weight", "prior", "top_n", "min_score"]
        names += ["window", "per_passage", "max_tokens", "max_share"] if self.window else []
        return {name: getattr(self, name) for name in names}


def check_part(field: str, value: Any) -> float:
    """Check that a value is a fraction.

    Args:
        field: Name of the field in errors.
        value: Value to check.

    Returns:
        The fraction, in (0, 1].

    Raises:
        InputError: If it is not above 0 and at most 1.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    refuse_if(not (is_number and 0 < value <= 1), field, value, "a number above 0 and at most 1")
    return float(value)


def check_detector(field: str, detector: Detector) -> Detector:
    """Check that a value is a detector, and return it.

    Args:
        field: Name of the field in errors.
        detector: Value to check.
    """
    detect_port(detector)
    return detector


@dataclass(frozen=True)
class RankingOptions(Checked):
    """Options of components that rank passages by the two labels (FIT-RAG, section 4.4.1).

    Args:
        scorer: Object with ``score(pairs)``; None is the bundled one.
        top_n: Passages that the reranker keeps, best first; None keeps all but blank ones.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].
        prior: Weight, in [0, 1], of what does not come from the scorer. Passages are ranked also by
            the retriever's order as far as it agrees with the scores, by shared words, and by
            identifiers of the question, or the whole of it, that few of them contain. Windows are
            ranked also by the score and the rank of their passage. An item that is moved before a
            better-scored one gets its score.
            None is 0.1 for the bundled scorer and 0 for any other.
        min_score: Lowest ``relevance_score`` kept, in [0, 1]; None keeps all; a pruner uses its own
            threshold for sentences.
        deduplicate: Keep passages of equal text and title, and text that chunks of one source
            share, once: the best-scored.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.plan

    @cached_property
    def plan(self) -> Plan:
        """Return the resolved options, computed once."""
        return self.resolve()

    def resolve(self) -> Plan:
        """Resolve the options left open, by the capabilities of the scorer."""
        port, prior = score_port(self.scorer), self.prior
        if prior is None:
            prior = DEFAULTS.prior if model_name(port) == EMBEDDED_SCORER.name else 0.0
        return Plan(
            port=port,
            weight=self.weight,
            prior=prior,
            top_n=self.top_n,
            min_score=self.min_score or 0.0,
            deduplicate=self.deduplicate,
            notes=torch_note(port),
        )


@dataclass(frozen=True, kw_only=True)
class FitRagOptions(Counting, RankingOptions):
    """Options of FIT-RAG (sections 4.2 to 4.4) and of its token reducer.

    Passages are scored and ranked. The `top_n` best are cut into windows of `window` sentences,
    which are scored too. Of the windows, best first, those below `min_score` go, then all after the
    shortest prefix that `detector` finds sufficient, then what is over the budget. Those worth most
    for their tokens are bought first, in an order that no budget changes, so that a larger one
    keeps all that a smaller one kept.
    Where not even the first fits, it is shortened, sentence by sentence and then by clause and
    word, to the part that scores best. Windows that touch are joined.

    | call | windows | how many | how much |
    | --- | --- | --- | --- |
    | `FitRag()` | single sentences, judged in the pass over their passage | any of a passage | \
the fraction `DEFAULTS.max_share` of the tokens of the `top_n` passages, 64 at least |
    | `FitRag(max_tokens=800)` | the same | the same | 800 tokens |
    | `FitRag(max_share=0.25)` | the same | the same | 0.25 of the tokens of all passages |
    | `FitRag(scorer)` without ``score_sentences`` | three sentences, each window read as a text \
alone | the best of a passage | as `FitRag()` |
    | `FitRag(window=3)` | the same, with every scorer | the best of a passage, until the detector \
agrees | all |
    | `FitRag.as_published()` | the same, without `prior` | the same | all |

    Args:
        window: Sentences in a window; None is one for a scorer that judges sentences, else three.
            Windows of more than one are read as texts of their own, as in the paper.
        max_tokens: Budget of tokens: the excerpts cost no more in a prompt, as numbered documents,
            and added up one by one; None is no limit.
        max_share: Fraction of the tokens of all passages given that is kept at most, in (0, 1];
            None keeps all; "auto" is the fraction in `DEFAULTS`, of the `top_n` passages, if
            neither `window` nor `max_tokens` is given.
        count_tokens: Counts the tokens of a text; None estimates them.
        detector: Decides when the excerpts are enough, at 0.5 or its own ``threshold``; None is the
            bundled one where it fits the scorer and the windows, False keeps all.

    Raises:
        ThresholdMismatchError: If the detector was fitted for another scorer.
    """

    window: Count | None = None
    max_tokens: Count | None = DEFAULTS.max_tokens
    max_share: Annotated[float, check_part] | Auto | None = "auto"
    count_tokens: CountTokens = None
    detector: Annotated[Detector, check_detector] | Literal[False] | None = None

    def resolve(self) -> Plan:
        """Resolve the options left open, by the capabilities of the scorer."""
        plan = super().resolve()
        port, low, share = plan.port, self.min_score, self.max_share
        reads_once = can(port.owner, "score_sentences") or can(port.owner, "ascore_sentences")
        one_pass = reads_once and self.window in (None, DEFAULTS.window)
        if low is None and one_pass:  # a pruner's own
            low = trait(port.owner, "sentence_threshold", float)
        if by_default := share == "auto":
            is_open = self.max_tokens is None and (one_pass or self.window is None)
            share = DEFAULTS.max_share if is_open else None
        plan = replace(
            plan,
            port=port_of("score_sentences", port.owner, "score_sentences", argument="scorer")
            if one_pass
            else port,
            min_score=low or 0.0,
            window=self.window or (DEFAULTS.window if one_pass else DEFAULTS.paper_window),
            one_pass=one_pass,
            per_passage=None if one_pass else 1,
            detector=self.detector or None,
            max_tokens=self.max_tokens,
            max_share=share,
            least=LEAST if by_default else 1,
            of_chosen=by_default,
            counter=self.counter,
        )
        if self.detector is None:
            return replace(plan, detector=embedded_detector(**plan.cut_so))
        if can(plan.detector, "check_scorer"):
            plan.detector.check_scorer(model_name(port))  # type: ignore[union-attr]
        return plan


def score_port(scorer: Scorer | None = None) -> Port[Pair, BiLabelScore]:
    """Build the port of a scorer; by default of the bundled scorer, loaded at first use."""
    given = EMBEDDED_SCORER if scorer is None else scorer_of(scorer)
    return port_of("score", given, "score", argument="scorer")


def detect_port(detector: Detector) -> Port[Any, float]:
    """Build the port of a detector.

    A detector with ``eligible_among`` is called with pairs of the scores kept and left out, any
    other with the scores kept.
    """
    verb = "eligible_among" if hasattr(detector, "eligible_among") else "eligible"
    return port_of("detect", detector, verb, argument="detector")
