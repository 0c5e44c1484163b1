"""Decide whether to retrieve for a question, before anything is retrieved (IK, section 3).

Every gate is called by this flow: write a draft if the gate reads one, call the gate, compare its
number with a threshold. The caller acts on the decision. FIT-RAG's recognizer requires the scores
of retrieved passages, so `FitRag` calls it itself.
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
from fitrag_integrations.errors import ThresholdMismatchError, refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.ik.gates import (
    AskGate,
    check_fitted,
    draft_port,
    is_local,
    own_gate,
    write_draft,
)
from fitrag_integrations.ports import Gate, gate_port
from fitrag_integrations.types import RetrievalDecision
from fitrag_integrations.values.prompt import shots_id
from fitrag_integrations.values.thresholds import FittedThreshold, refuse_other

OnError = Literal["retrieve", "raise"]
KNOWN = "{model} seems to know it"
UNKNOWN = "{model} does not seem to know it"


@dataclass(frozen=True, slots=True)
class Decided(Record, Checked):
    """Decision, with the draft it was based on if the gate reads one.

    Args:
        decision: Whether to retrieve, and why.
        draft: The model's first words; None if the gate reads none.
    """

    _nested: ClassVar = {"decision": RetrievalDecision}

    decision: Annotated[RetrievalDecision, partial(check_is, kind=RetrievalDecision)]
    draft: Text | None = None


@dataclass(frozen=True)
class GateDecision(Checked):
    """Gate with its inputs; base class of everything that calls a gate before retrieval.

    Args:
        gate: Gate with `p_known(questions, drafts)`, or a local model, whose `own_gate` is used.
            Defaults to `own_gate` of the caller's language model.
        drafter: Model that writes the draft for the gate: a `Drafter`, an object with `generate`, a
            callable, or a `Port`. Defaults to the gate's own. It is called only if the gate's
            `draft_tokens` is not 0.
        threshold: A question is known above this number, in [0, 1]. Defaults to the gate's, or 0.5.
        on_error: "retrieve" retrieves if the gate or the drafter fails or the draft is blank, and
            `why` names the failure; "raise" raises the error.
        allow_other_model: Accept a threshold that was fitted for another model.
    """

    gate: Gate | None = None
    _: KW_ONLY
    drafter: object = None
    threshold: Share | None = None
    on_error: OnError = "retrieve"
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_local(self.gate):
            object.__setattr__(self, "gate", own_gate(self.gate))
        if self.gate is not None:
            gate_port(self.gate)
        if self.drafter is not None:
            draft_port(self.drafter)

    def decided(self, question: str, llm: object = None) -> Flow[Decided]:
        """Return the flow that ends in the decision; it never retrieves.

        Args:
            question: Question.
            llm: Language model to judge if there is no gate.

        Raises:
            InputError: If the question is blank, or there is neither a gate nor a language model.
            ThresholdMismatchError: If the gate's threshold was fitted for a model other than the
                drafter's, whatever `on_error` is.
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
                draft = yield from write_draft(question, drafter, trait(gate, "draft_tokens", int))
                asked = "gate"
            if self.gate is None:  # a flow itself, whose asks those of other questions join
                answer = yield from gate.known(question, draft or "")
            else:
                (answer,) = yield from gate_port(gate).ask([(question, draft or "")])
            return Decided(decide_by(gate, answer, self.threshold), draft)
        except ThresholdMismatchError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, retrieving still answers
            if self.on_error == "raise":
                raise
            why = f"the {asked} failed ({describe_error(error)}): retrieving"
            return Decided(RetrievalDecision(True, None, threshold, why), draft)

    def details(self, decided: Decided) -> dict[str, object]:
        """Return what was `decided` by (threshold, length of draft), for `Context.details`."""
        gate = AskGate if self.gate is None else self.gate  # alone of its own it is given one
        used = 0 if decided.draft is None else trait(gate, "draft_tokens", int)
        return {"threshold": decided.decision.threshold, "draft_tokens": used}

    def _gate(self, llm: object) -> Any:
        if self.gate is not None:
            return self.gate
        refuse_if(
            llm is None,
            "Pass `gate=` or `llm=` (`--llm`): one of them says whether a question is known.",
        )
        return own_gate(llm)


@dataclass(frozen=True, kw_only=True)
class Decider(GateDecision):
    """Decision whether a question is known, from a gate and, if it needs one, the model's draft.

    Args:
        gate: Gate with `p_known(questions, drafts)`. Defaults to `own_gate` of `llm`: a local model
            is judged by its draft, any other is asked.
        drafter: Model that writes the draft for the gate: a `Drafter`, an object with `generate`,
            a callable, or a `Port`. Defaults to the gate's own. It is called only if the gate's
            `draft_tokens` is not 0.
        threshold: A question is known above this number, in [0, 1]. Defaults to the gate's, or 0.5.
        on_error: "retrieve" retrieves if the gate or the drafter fails or the draft is blank, and
            `why` names the failure; "raise" raises the error.
        allow_other_model: Accept a threshold that was fitted for another model.
        llm: Language model that is judged if there is no gate.

    Raises:
        InputError: If an argument is of the wrong kind or out of range, or neither `gate` nor `llm`
            is given.
    """

    llm: object = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gate is None:
            _ = self._gate(self.llm)

    def __call__(self, question: str) -> Flow[Decided]:
        """Return the flow that ends in the decision, as `decided` does."""
        return self.decided(question, self.llm)


def limit_of(gate: object, given: float | None = None) -> float:
    """Return the threshold in use: the one given, else the gate's own, else 0.5.

    Args:
        gate: Gate.
        given: Threshold of the caller, in [0, 1].

    Raises:
        ThresholdMismatchError: If the gate's threshold was fitted with other examples in the
            model's prompt.
    """
    found = trait(gate, "threshold", object) if given is None else given
    fitted = (
        None if trait(gate, "allow_other_model", bool) else trait(gate, "fitted", FittedThreshold)
    )
    shots = trait(trait(gate, "judged", object), "shots", tuple)
    if given is None and fitted is not None and shots is not None:
        refuse_other(
            f"threshold {found:g} was",
            fitted.shots,
            shots_id(shots),
            "calibrate",
            "examples (--shots) ",
        )
    return 0.5 if found is None else check_number("threshold", found)


def decide_by(gate: object, p_known: object, given: float | None = None) -> RetrievalDecision:
    """Decide by comparing a gate's number with the threshold in use; known means above.

    The reason names the model that the threshold was fitted for, which may differ from the language
    model that will answer. For an untrained gate, it names the signal, and whether its threshold
    was fitted.

    Args:
        gate: Gate.
        p_known: Its number, in [0, 1].
        given: Threshold of the caller. Defaults to the gate's own.
    """
    threshold, signal = limit_of(gate, given), trait(gate, "signal", str)
    fitted = trait(gate, "fitted", FittedThreshold)
    number = check_number("p_known", p_known, low=0.0, high=1.0)
    known = number > threshold
    why = (KNOWN if known else UNKNOWN).format(model=(fitted and fitted.model) or "the model")
    if signal:
        unset = given is None and trait(gate, "threshold", object) is None
        by = f"judged by {signal}: {number:.3f}, threshold {threshold:.3f}"
        why = f"{why}, {by}{' (not fitted)' if unset else ''}"
    return RetrievalDecision(not known, number, threshold, why)


def check_judged(decider: GateDecision, answers: str | None) -> None:
    """Check that a gate's threshold was fitted for the model that answers.

    Args:
        decider: Decision with its gate; a threshold that the caller gave passes.
        answers: Name of the model that answers; None passes.
    """
    if answers is not None and decider.threshold is None:
        check_fitted(decider.gate, answers, allow_other_model=decider.allow_other_model)
