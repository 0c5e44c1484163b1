"""Decide for a question whether to retrieve, before anything is retrieved (IK, section 3).

The flow every gate is asked by: the model's own first words where the gate wants them, the gate's
number, a threshold. What to do with the decision is left to the caller. FIT-RAG's recognizer,
which wants the scores of what was retrieved, is not asked here but inside `FitRag`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from fitrag_integrations.core.checks import (
    Checked,
    Share,
    Text,
    check_is,
    check_number,
    check_text,
    trait,
)
from fitrag_integrations.core.record import Record
from fitrag_integrations.core.show import describe_error
from fitrag_integrations.errors import InputError, ThresholdMismatchError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.ik.gates import AskGate, check_fitted, draft_port, write_draft
from fitrag_integrations.ports import Gate, gate_port
from fitrag_integrations.types import RetrievalDecision
from fitrag_integrations.values.thresholds import FittedThreshold

OnError = Literal["retrieve", "raise"]
KNOWN = "{model} seems to know it"
UNKNOWN = "{model} does not seem to know it"


@dataclass(frozen=True, slots=True)
class Decided(Record, Checked):
    """A decision, and the draft it was based on if the gate needs one.

    Args:
        decision: Whether to retrieve, and why.
        draft: The model's first words; None if the gate reads none.
    """

    _nested: ClassVar = {"decision": RetrievalDecision}

    decision: Annotated[RetrievalDecision, partial(check_is, kind=RetrievalDecision)]
    draft: Text | None = None


@dataclass(frozen=True)
class GateDecision(Checked):
    """A gate with its inputs; base of whatever calls a gate before retrieval.

    `gate` None is `AskGate` over the caller's language model. `drafter` is a `Drafter`, or writes
    the draft from a prompt: an object with `generate`, a callable, a `Port`. It is asked only by a
    gate whose `draft_tokens` is not 0; None is the gate's own `drafter`, where it has one.
    `threshold` None is the gate's, or 0.5. With `on_error` "retrieve" a gate or drafter that fails,
    and a blank draft, end in the decision to retrieve, whose `why` names what failed; "raise"
    raises it. A threshold that was fitted for another model is refused unless `allow_other_model`.
    """

    gate: Gate | None = None
    _: KW_ONLY
    drafter: object = None
    threshold: Share | None = None
    on_error: OnError = "retrieve"
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gate is not None:
            gate_port(self.gate)
        if self.drafter is not None:
            draft_port(self.drafter)

    def decided(self, question: str, llm: object = None) -> Flow[Decided]:
        """Return the flow that ends in the decision; it never retrieves.

        Where there is no gate, `llm` is asked. The flow raises `InputError` for a blank question
        and where there is neither, and `ThresholdMismatchError` where the gate's threshold was
        fitted for another model than the drafter's, at any `on_error`.
        """
        check_text("question", question, blank=False)
        gate = self._gate(llm)
        draft, threshold, asked = None, self.threshold, "gate"
        try:
            threshold = limit_of(gate, self.threshold)
            drafter = None
            if trait(gate, "draft_tokens", int) != 0:
                own = self.drafter is None
                drafter = trait(gate, "drafter", object) if own else self.drafter
            if self.threshold is None:
                judged = self.drafter if drafter is None else drafter
                check_fitted(gate, judged, allow_other_model=self.allow_other_model)
            if drafter is not None:
                asked = "drafter"
                tokens = trait(gate, "draft_tokens", int)
                draft = yield from write_draft(question, drafter, tokens)
                asked = "gate"
            if self.gate is None:  # a flow itself, whose asks those of other questions join
                answer = yield from gate.known(question, draft or "")
            else:
                (answer,) = yield from gate_port(gate).ask([(question, draft or "")])
            fitted = trait(gate, "fitted", FittedThreshold)
            return Decided(decide(answer, threshold, fitted.model if fitted else ""), draft)
        except ThresholdMismatchError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, retrieving still answers
            if self.on_error == "raise":
                raise
            why = f"the {asked} failed ({describe_error(error)}): retrieving"
            return Decided(RetrievalDecision(True, None, threshold, why), draft)

    def details(self, decided: Decided) -> dict[str, object]:
        """Return what was `decided` by (threshold, length of draft), for `Context.details`."""
        gate = AskGate if self.gate is None else self.gate
        used = 0 if decided.draft is None else trait(gate, "draft_tokens", int)
        return {"threshold": decided.decision.threshold, "draft_tokens": used}

    def _gate(self, llm: object) -> Any:
        if self.gate is not None:
            return self.gate
        if llm is None:
            raise InputError(
                "Pass `gate=` or `llm=` (`--llm`): one of them says whether a question is known."
            )
        return AskGate(llm, drafter=llm)  # which writes, whatever it is


@dataclass(frozen=True)
class Decider(GateDecision):
    """Decision whether a question is known, from a gate and, if it needs one, the model's draft.

    Args:
        gate: Gate with `p_known(questions, drafts)`; None is `AskGate(llm)`.
        drafter: Writes the draft that the gate reads: a `Drafter`, an object with `generate`, a
            callable, or a `Port`; None is the gate's own. It is called only if the gate's
            `draft_tokens` is not 0.
        threshold: A question is known above this number, in [0, 1]; None is the gate's, or 0.5.
        on_error: "retrieve" decides to retrieve if gate or drafter fails or the draft is blank, and
            `why` names the failure; "raise" raises it.
        allow_other_model: Accept a threshold that was fitted for another model.
        llm: Language model that is asked where there is no gate, as `AskGate` takes it.

    Raises:
        InputError: If an argument is of the wrong kind or out of range, or neither `gate` nor `llm`
            is given.
    """

    _: KW_ONLY
    llm: object = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gate is None:
            _ = self._gate(self.llm)

    def __call__(self, question: str) -> Flow[Decided]:
        """Return the flow that ends in the decision, as `decided` does."""
        return self.decided(question, self.llm)


def limit_of(gate: object, given: float | None = None) -> float:
    """Find the threshold in use: the one given, else the gate's own, else 0.5."""
    found = trait(gate, "threshold", object) if given is None else given
    return 0.5 if found is None else check_number("threshold", found)


def decide(p_known: object, threshold: float, model: str = "") -> RetrievalDecision:
    """Compare a gate's answer with a threshold: known, and not retrieved for, iff it is above.

    ``model`` names in the reason whose knowledge was judged, which need not be that of the
    language model that will answer.
    """
    number = check_number("p_known", p_known, low=0.0, high=1.0)
    known = number > threshold
    why = (KNOWN if known else UNKNOWN).format(model=model or "the model")
    return RetrievalDecision(not known, number, threshold, why)


def check_judged(decider: GateDecision, answers: str | None) -> None:
    """Refuse a decider whose threshold was fitted for another model than the one that `answers`.

    Nothing is refused where that has no name, or where the caller gave a threshold.
    """
    if answers is not None and decider.threshold is None:
        check_fitted(decider.gate, answers, allow_other_model=decider.allow_other_model)
