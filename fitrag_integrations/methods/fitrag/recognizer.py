"""FIT-RAG's bi-faceted self-knowledge recognizer (section 4.3, equations 12 to 14).

The first facet looks at what was retrieved, the second at how the model did on similar questions;
retrieval is skipped only where both speak for it. The bank of questions is
`fitrag_integrations.retrieval.QuestionBank` or any object with `neighbours`. The paper's numbers
hold for its own scorer and encoder only, and it gives no k: `fit_recognizer` finds others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol, runtime_checkable

from fitrag_integrations.core.checks import check_is, check_number, check_text, check_whole
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import InputError, PortError, ThresholdMismatchError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.types import BiLabelScore, RetrievalDecision


@runtime_checkable
class Bank(Protocol):
    """Tell for the k questions nearest to each, nearest first, which were known."""

    def neighbours(self, questions: Sequence[str], k: int, /) -> Sequence[Sequence[bool]]: ...


@dataclass(frozen=True, slots=True)
class RecognizerThresholds(Record):
    """Hold the recognizer's four numbers with what they were fitted for.

    `delta` cuts a Has_Answer logit; `s_l` and `s_n` are shares in [0, 1]. `scorer` and `encoder`
    are names, blank where unknown; `rows` and `accuracy` tell of the fit.
    """

    delta: float = 4.5
    s_l: float = 0.04
    s_n: float = 0.55
    k: int = 10
    scorer: str = ""
    encoder: str = ""
    rows: int = 0
    accuracy: float | None = None

    def __post_init__(self) -> None:
        bounds = {"s_l": {"low": 0.0, "high": 1.0}, "s_n": {"low": 0.0, "high": 1.0}}
        for name in ("delta", "s_l", "s_n"):
            number = check_number(name, getattr(self, name), **bounds.get(name, {}))
            object.__setattr__(self, name, number)
        check_whole("k", self.k, low=1)
        check_whole("rows", self.rows, low=0)
        check_text("scorer", self.scorer)
        check_text("encoder", self.encoder)

    def check(self, role: str, name: str) -> None:
        """Raise `ThresholdMismatchError` where `scorer` or `encoder` is not the one fitted for."""
        fitted = getattr(self, role)
        if fitted and name and fitted != name:
            raise ThresholdMismatchError(
                f"the recognizer's thresholds were fitted for the {role} {fitted!r}, given "
                f"{name!r}: fit them with fit_recognizer, or pass allow_other_model=True"
            )


RECOGNIZER = "recognizer.json"  # beside a bank, in the folder of `fitrag train recognizer`
PAPER = RecognizerThresholds()  # section 5.1, NQ and PopQA; 0.67 as s_n on TriviaQA; k is ours


@dataclass(frozen=True)
class SelfKnowledgeRecognizer:
    """Decide from the scores of everything retrieved and from the nearest questions (equation 14).

    Give it to `FitRag(gate=...)`. `thresholds` are those of `fit_recognizer`; the default is the
    paper's, and each decision then says that they were not fitted. Thresholds fitted for another
    encoder than the bank's, or another scorer than the method's, raise `ThresholdMismatchError`
    unless `allow_other_model`. `scorer` names the scorer where it has no `name` of its own.
    """

    bank: Bank
    thresholds: RecognizerThresholds = PAPER
    _: KW_ONLY
    scorer: str = ""
    allow_other_model: bool = False
    _port: Port[str, Sequence[bool]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        if isinstance(self.bank, type) or not isinstance(self.bank, Bank):
            raise InputError.of("bank", given=self.bank, allowed="an object with 'neighbours'")
        check_is("thresholds", self.thresholds, RecognizerThresholds)
        self.check_scorer(check_text("scorer", self.scorer))
        encoder = getattr(getattr(self.bank, "encoder", None), "name", None)
        self._check("encoder", encoder)
        object.__setattr__(self, "_port", _neighbour_port(self.bank, self.thresholds.k))

    def check_scorer(self, name: Any) -> None:
        """Refuse a scorer the thresholds were not fitted for; what is no name is passed over."""
        self._check("scorer", name)

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

    def _check(self, role: str, name: Any) -> None:
        if isinstance(name, str) and not self.allow_other_model:
            self.thresholds.check(role, name)


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

    call: Any
    k: int

    def __call__(self, questions: Sequence[str]) -> Any:
        return self.call(list(questions), self.k)


def _sign(value: float, limit: float) -> str:
    return ">" if value > limit else "<="
