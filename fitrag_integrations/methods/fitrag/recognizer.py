"""FIT-RAG's bi-faceted self-knowledge recognizer (section 4.3, equations 12 to 14).

The first facet looks at what was retrieved, the second at how the model did on similar questions;
retrieval is skipped only where both speak for it. The bank of questions is
`fitrag_integrations.retrieval.QuestionBank` or any object with `neighbours`. The paper's numbers
hold for its own scorer and encoder only, and it gives no k: `fit_recognizer` finds others by a
plain search, as the paper does not say how its own were found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Protocol, Self, TypeAlias, runtime_checkable

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Number,
    Share,
    Size,
    Text,
    check_able,
    check_is,
    trait,
)
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import ModelLoadError, PortError, raise_if, refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.ports import Call, model_name
from fitrag_integrations.types import BiLabelScore, RetrievalDecision
from fitrag_integrations.values.thresholds import refuse_other


@runtime_checkable
class Bank(Protocol):
    """Holds questions with whether a model knew the answer."""

    def neighbours(self, questions: Sequence[str], k: int, /) -> Sequence[Sequence[bool]]:
        """Return whether the k nearest questions of each question were known, nearest first."""


@dataclass(frozen=True, slots=True)
class RecognizerThresholds(Checked, Record):
    """The four numbers of the recognizer, with what they were fitted for.

    Args:
        delta: Threshold of a Has_Answer logit.
        s_l: Threshold of the fraction of passages above `delta`, in [0, 1].
        s_n: Threshold of the fraction of known neighbors, in [0, 1].
        k: Number of neighbors.
        scorer: Name of the scorer; blank if unknown.
        encoder: Name of the encoder; blank if unknown.
        rows: Number of rows of the fit; 0 if the numbers were not fitted.
        accuracy: Accuracy of the fit on its rows, in [0, 1].
    """

    delta: Number = 4.5
    s_l: Share = 0.04
    s_n: Share = 0.55
    k: Count = 10
    scorer: Text = ""
    encoder: Text = ""
    rows: Size = 0
    accuracy: float | None = None

    def check(self, role: str, name: str) -> None:
        """Check that the thresholds were fitted for a scorer or encoder.

        Args:
            role: "scorer" or "encoder".
            name: Name of the model; blank passes.

        Raises:
            ThresholdMismatchError: If they were fitted for another one.
        """
        fitted = {"scorer": self.scorer, "encoder": self.encoder}[role]
        if name:
            what = "the recognizer's thresholds were"
            refuse_other(what, fitted, name, "train recognizer", f"the {role} ")


CheckedBank: TypeAlias = Annotated[Bank, partial(check_able, verb="neighbours")]


def encoder_name(bank: Bank) -> str:
    """Return the name of a bank's encoder; blank if unknown."""
    return model_name(trait(bank, "encoder", object))


RECOGNIZER = "recognizer.json"  # beside a bank, in the folder of `fitrag train recognizer`
PAPER = RecognizerThresholds()  # section 5.1, NQ and PopQA; 0.67 as s_n on TriviaQA; k is ours


@dataclass(frozen=True)
class SelfKnowledgeRecognizer(Checked):
    """Decision from the scores of all retrieved passages and the nearest questions (equation 14).

    Pass it as `FitRag(gate=...)`.

    Args:
        bank: Object with `neighbours(questions, k)`, such as a `QuestionBank`.
        thresholds: Those of `fit_recognizer`; the default are the paper's, and each decision then
            notes that they were not fitted.
        scorer: Name of the scorer, if it has no `name`.
        allow_other_model: Accept thresholds that were fitted for another scorer or encoder.

    Raises:
        ThresholdMismatchError: If the thresholds were fitted for another encoder than the bank's,
            or another scorer than the method's.
    """

    bank: CheckedBank
    thresholds: Annotated[RecognizerThresholds, partial(check_is, kind=RecognizerThresholds)] = (
        PAPER
    )
    _: KW_ONLY
    scorer: Text = ""
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_scorer(self.scorer)
        if not self.allow_other_model:
            self.thresholds.check("encoder", encoder_name(self.bank))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load what `fitrag train recognizer` wrote: the bank and its thresholds.

        Raises:
            ModelLoadError: If the folder holds none, or one that is damaged.
        """
        from fitrag_integrations.retrieval import QuestionBank

        path = Path(folder) / RECOGNIZER
        try:
            given = jsonl.loads(path.read_text(encoding="utf-8"))
            thresholds = RecognizerThresholds.from_dict(given["thresholds"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelLoadError(f"{path} is damaged: {error!r}") from error
        return cls(QuestionBank.load(folder), thresholds)

    @cached_property
    def _port(self) -> Port[str, Sequence[bool]]:
        k, twin = self.thresholds.k, getattr(self.bank, "aneighbours", None)
        acall = _Nearest(twin, k) if twin else None
        return Port.of("neighbours", _Nearest(self.bank.neighbours, k), acall)

    def check_scorer(self, name: str | None) -> None:
        """Refuse a scorer the thresholds were not fitted for; one without a name is passed over."""
        if name and not self.allow_other_model:
            self.thresholds.check("scorer", name)

    def decide(self, question: str, scores: Sequence[BiLabelScore]) -> Flow[RetrievalDecision]:
        """Return the flow that ends in the decision; it calls the port "neighbours" once.

        Args:
            question: The question.
            scores: Scores of all passages retrieved, in any order.

        Raises:
            InputError: If a score has no Has_Answer logit.
            PortError: If the bank returns no neighbor.
        """
        s_ltod = share_above(scores, self.thresholds.delta)
        (known,) = yield from self._port.ask([question])
        raise_if(not len(known), PortError, "the bank gave no neighbour: S_nn needs one at least")
        s_nn = sum(map(bool, known)) / len(known)
        s_l, s_n = self.thresholds.s_l, self.thresholds.s_n
        why = (
            f"S_ltod {s_ltod:.3f} {'>' if s_ltod > s_l else '<='} {s_l:g} "
            f"and S_nn {s_nn:.3f} {'>' if s_nn > s_n else '<='} {s_n:g}"
        )
        if not self.thresholds.rows:
            why += " (thresholds not fitted for this scorer and encoder)"
        return RetrievalDecision(not (s_ltod > s_l and s_nn > s_n), why=why)


def share_above(scores: Sequence[BiLabelScore], delta: float) -> float:
    """Compute the fraction of passages with a Has_Answer logit above delta (equation 12).

    Args:
        scores: Scores of the passages, with their logits.
        delta: Threshold of the logit.

    Returns:
        The fraction, in [0, 1].

    Raises:
        InputError: If there are no scores, or one has no logit.
    """
    logits = [check_is("scores", score, BiLabelScore).has_answer_logit for score in scores]
    allowed = "one score or more, each with a has_answer_logit"
    refuse_if(not logits or None in logits, "scores", scores, allowed)
    return sum(logit > delta for logit in logits if logit is not None) / len(logits)


@dataclass(frozen=True)
class _Nearest:
    """Call of a bank for k neighbors; equal and hashable by the bank's call and k."""

    call: Call
    k: int

    def __call__(self, questions: Sequence[str]) -> Any:
        return self.call(list(questions), self.k)


Row: TypeAlias = tuple[str, Sequence[BiLabelScore], bool]  # question, scores, known


def fit_recognizer(
    rows: Iterable[Row],
    bank: Bank,
    *,
    scorer: str = "",
    deltas: Sequence[float] | None = None,
    ks: Sequence[int] = (1, 3, 5, 10, 20, 50),
) -> RecognizerThresholds:
    """Choose delta, s_l, s_n and k by the best accuracy.

    Shares are tried at every value that occurs; of equal fits the first in the order of `deltas`
    and `ks` is taken, with the lowest shares.

    Args:
        rows: Question, which must not be in the bank; scores of what was retrieved for it; and
            whether the model answered it correctly without.
        bank: Object with `neighbours(questions, k)`.
        scorer: Name of the scorer whose scores they are.
        deltas: Logits to try as delta; None are the tenths of the rows' logits.
        ks: Numbers of neighbors to try.

    Raises:
        InputError: If there are no rows, or scores without logits.
    """
    labelled = list(rows)
    refuse_if(not (labelled and ks), "`rows` and `ks` are empty, or one is: pass some of each.")
    truths = [check_is("rows.known", known, bool) for _, _, known in labelled]
    near = bank.neighbours([question for question, _, _ in labelled], max(ks))
    shares = {k: [sum(map(bool, known[:k])) / len(known[:k]) for known in near] for k in ks}
    if deltas is None:
        given = (score.has_answer_logit for _, scores, _ in labelled for score in scores)
        logits = sorted(logit for logit in given if logit is not None)
        refuse_if(not logits, "A row has no scores with a has_answer_logit: score it again.")
        deltas = sorted({logits[len(logits) * tenth // 10] for tenth in range(10)})
    found = []
    for delta in deltas:
        ltod = [share_above(scores, delta) for _, scores, _ in labelled]
        found += [(*_best_cuts(ltod, shares[k], truths), float(delta), k) for k in ks]
    accuracy, s_l, s_n, delta, k = max(found, key=lambda fit: fit[0])
    fitted_for = scorer, encoder_name(bank)
    return RecognizerThresholds(delta, s_l, s_n, k, *fitted_for, len(labelled), accuracy)


def _best_cuts(
    ltod: Sequence[float], nn: Sequence[float], truths: Sequence[bool]
) -> tuple[float, float, float]:
    """Return the best accuracy and the two shares behind it, the lowest of equals."""
    import numpy as np

    lows, nears = (np.array(sorted({0.0, *values})) for values in (ltod, nn))
    above_l = (np.array(ltod)[:, None] > lows).astype(float)
    above_n = (np.array(nn)[:, None] > nears).astype(float)
    known = np.array(truths, dtype=float)
    # a row guessed known is worth 1 where it is known; one not guessed, where it is not
    right = (above_l * (2 * known - 1)[:, None]).T @ above_n + (1 - known).sum()
    at_l, at_n = np.unravel_index(int(np.argmax(right)), right.shape)
    return float(right[at_l, at_n]) / len(truths), float(lows[at_l]), float(nears[at_n])
