"""FIT-RAG's bi-faceted self-knowledge recognizer (section 4.3, equations 12 to 14).

The first facet looks at what was retrieved, the second at how the model did on similar questions;
retrieval is skipped only where both speak for it. The bank of questions is
`fitrag_integrations.retrieval.QuestionBank` or any object with `neighbours`. The paper's numbers
hold for its own scorer and encoder only, and it gives no k: `fit_recognizer` finds others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Annotated, Any, Protocol, runtime_checkable

from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Number,
    Share,
    Size,
    Text,
    can,
    check_is,
    trait,
)
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import InputError, PortError, ThresholdMismatchError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.ports import Call, model_name
from fitrag_integrations.types import BiLabelScore, RetrievalDecision


@runtime_checkable
class Bank(Protocol):
    """Tell for the k questions nearest to each, nearest first, which were known."""

    def neighbours(self, questions: Sequence[str], k: int, /) -> Sequence[Sequence[bool]]: ...


@dataclass(frozen=True, slots=True)
class RecognizerThresholds(Checked, Record):
    """Hold the recognizer's four numbers with what they were fitted for.

    `delta` cuts a Has_Answer logit; `s_l` and `s_n` are shares in [0, 1]. `scorer` and `encoder`
    are names, blank where unknown; `rows` and `accuracy` tell of the fit.
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
        """Raise `ThresholdMismatchError` where `scorer` or `encoder` is not the one fitted for."""
        fitted = {"scorer": self.scorer, "encoder": self.encoder}[role]
        if fitted and name and fitted != name:
            raise ThresholdMismatchError(
                f"the recognizer's thresholds were fitted for the {role} {fitted!r}, given "
                f"{name!r}: fit them with fit_recognizer, or pass allow_other_model=True"
            )


def check_bank(field: str, bank: object) -> object:
    """Require an object that knows neighbours."""
    if not can(bank, "neighbours"):
        raise InputError.of(field, given=bank, allowed="an object with 'neighbours'")
    return bank


def encoder_name(bank: Bank) -> str:
    """Name the encoder of a bank; blank where it does not say."""
    return model_name(trait(bank, "encoder", object))


RECOGNIZER = "recognizer.json"  # beside a bank, in the folder of `fitrag train recognizer`
PAPER = RecognizerThresholds()  # section 5.1, NQ and PopQA; 0.67 as s_n on TriviaQA; k is ours


@dataclass(frozen=True)
class SelfKnowledgeRecognizer(Checked):
    """Decide from the scores of everything retrieved and from the nearest questions (equation 14).

    Give it to `FitRag(gate=...)`. `thresholds` are those of `fit_recognizer`; the default is the
    paper's, and each decision then says that they were not fitted. Thresholds fitted for another
    encoder than the bank's, or another scorer than the method's, raise `ThresholdMismatchError`
    unless `allow_other_model`. `scorer` names the scorer where it has no `name` of its own.
    """

    bank: Annotated[Bank, check_bank]
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

    @cached_property
    def _port(self) -> Port[str, Sequence[bool]]:
        return _neighbour_port(self.bank, self.thresholds.k)

    def check_scorer(self, name: str | None) -> None:
        """Refuse a scorer the thresholds were not fitted for; one without a name is passed over."""
        if name and not self.allow_other_model:
            self.thresholds.check("scorer", name)

    def decide(self, question: str, scores: Sequence[BiLabelScore]) -> Flow[RetrievalDecision]:
        """Give the flow that ends in the decision; asks the port "neighbours" for one question.

        `scores` are those of all passages retrieved, any order. A score without a Has_Answer logit
        raises `InputError`, a bank without a neighbour `PortError`.
        """
        s_ltod = share_above(scores, self.thresholds.delta)
        (known,) = yield from self._port.ask([question])
        if not len(known):
            raise PortError("the bank gave no neighbour: S_nn needs one at least")
        return self._decided(s_ltod, sum(map(bool, known)) / len(known))

    def _decided(self, s_ltod: float, s_nn: float) -> RetrievalDecision:
        s_l, s_n = self.thresholds.s_l, self.thresholds.s_n
        why = (
            f"S_ltod {s_ltod:.3f} {_sign(s_ltod, s_l)} {s_l:g} "
            f"and S_nn {s_nn:.3f} {_sign(s_nn, s_n)} {s_n:g}"
        )
        if not self.thresholds.rows:
            why += " (thresholds not fitted for this scorer and encoder)"
        return RetrievalDecision(not (s_ltod > s_l and s_nn > s_n), why=why)


def share_above(scores: Sequence[BiLabelScore], delta: float) -> float:
    """Give the share of passages whose Has_Answer logit is above delta (equation 12)."""
    logits = [check_is("scores", score, BiLabelScore).has_answer_logit for score in scores]
    if not logits or None in logits:
        allowed = "at least one score, each with a has_answer_logit"
        raise InputError.of("scores", given=scores, allowed=allowed)
    return sum(logit > delta for logit in logits if logit is not None) / len(logits)


def _neighbour_port(bank: Bank, k: int) -> Port[str, Sequence[bool]]:
    twin = getattr(bank, "aneighbours", None)
    return Port.of("neighbours", _Nearest(bank.neighbours, k), _Nearest(twin, k) if twin else None)


@dataclass(frozen=True)
class _Nearest:
    """Ask a bank for k neighbours; equal, and hashed, by the bank's call and k."""

    call: Call
    k: int

    def __call__(self, questions: Sequence[str]) -> Any:
        return self.call(list(questions), self.k)


def _sign(value: float, limit: float) -> str:
    return ">" if value > limit else "<="
