"""Decide for a question whether to retrieve, before anything is retrieved (IK, section 3).

The flow every gate is asked by: the model's own first words where the gate wants them, the gate's
number, a threshold. What to do with the decision is left to the caller. FIT-RAG's recognizer,
which wants the scores of what was retrieved, is not asked here but inside `FitRag`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from fitrag_integrations.core.checks import (
    Checked,
    Share,
    Text,
    can,
    check_is,
    check_number,
    check_text,
    trait,
)
from fitrag_integrations.core.record import Record
from fitrag_integrations.core.show import describe_error
from fitrag_integrations.errors import ThresholdMismatchError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.defaults import EMBEDDED_GATE
from fitrag_integrations.ports import Gate, gate_port, model_name, port_of
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.types import Draft, RetrievalDecision
from fitrag_integrations.values.prompt import LimitedPrompt
from fitrag_integrations.values.thresholds import FittedThreshold

OnError = Literal["retrieve", "raise"]
DRAFT_PROMPT = "Question: {question}\nAnswer:"  # for what only continues prompts
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

    `gate` None is the embedded `IKClassifier`. `drafter` is a `Drafter`, or writes the draft from a
    prompt: an object with `generate`, a callable, a `Port`. It is asked only by a gate whose
    `draft_tokens` is not 0; None is the gate's own `drafter`, where it has one. `threshold` None is
    the gate's, or 0.5. With `on_error` "retrieve" a gate or drafter that fails, and a blank draft,
    end in the decision to retrieve, whose `why` names what failed; "raise" raises it. A threshold
    that was fitted for another model is refused unless `allow_other_model`.
    """

    gate: Gate | None = None
    _: KW_ONLY
    drafter: object = None
    threshold: Share | None = None
    on_error: OnError = "retrieve"
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        gate_port(self._gate)
        if self.drafter is not None:
            draft_port(self.drafter)

    def decided(self, question: str) -> Flow[Decided]:
        """Return the flow that ends in the decision; it never retrieves.

        The flow raises `InputError` for a blank question and `ThresholdMismatchError` where the
        gate's threshold was fitted for another model than the drafter's, at any `on_error`.
        """
        check_text("question", question, blank=False)
        draft, threshold, asked = None, self.threshold, "gate"
        try:
            threshold = limit_of(self._gate, self.threshold)
            drafter = None
            if trait(self._gate, "draft_tokens", int) != 0:
                own = self.drafter is None
                drafter = trait(self._gate, "drafter", object) if own else self.drafter
            if self.threshold is None:
                judged = self.drafter if drafter is None else drafter
                check_fitted(self._gate, judged, allow_other_model=self.allow_other_model)
            if drafter is not None:
                asked = "drafter"
                tokens = trait(self._gate, "draft_tokens", int)
                draft = yield from write_draft(question, drafter, tokens)
                asked = "gate"
            (answer,) = yield from gate_port(self._gate).ask([(question, draft or "")])
            fitted = trait(self._gate, "fitted", FittedThreshold)
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
        used = 0 if decided.draft is None else trait(self._gate, "draft_tokens", int)
        return {"threshold": decided.decision.threshold, "draft_tokens": used}

    @property
    def _gate(self) -> Gate:
        return EMBEDDED_GATE if self.gate is None else self.gate


@dataclass(frozen=True)
class Decider(GateDecision):
    """Decision whether a question is known, from a gate and, if it needs one, the model's draft.

    Args:
        gate: Gate with `p_known(questions, drafts)`; None is the bundled `IKClassifier`.
        drafter: Writes the draft that the gate reads: a `Drafter`, an object with `generate`, a
            callable, or a `Port`; None is the gate's own. It is called only if the gate's
            `draft_tokens` is not 0.
        threshold: A question is known above this number, in [0, 1]; None is the gate's, or 0.5.
        on_error: "retrieve" decides to retrieve if gate or drafter fails or the draft is blank, and
            `why` names the failure; "raise" raises it.
        allow_other_model: Accept a threshold that was fitted for another model.

    Raises:
        InputError: If an argument is of the wrong kind or out of range.
    """

    def __call__(self, question: str) -> Flow[Decided]:
        """Return the flow that ends in the decision, as `decided` does."""
        return self.decided(question)


def limit_of(gate: object, given: float | None = None) -> float:
    """Find the threshold in use: the one given, else the gate's own, else 0.5."""
    found = trait(gate, "threshold", object) if given is None else given
    return 0.5 if found is None else check_number("threshold", found)


def check_fitted(gate: object, judged: object, *, allow_other_model: bool = False) -> None:
    """Refuse a gate's own threshold where it was fitted for another model than the one `judged`.

    That is a model, the port of one, or its name; where it has none there is nothing to refuse.
    """
    fitted = trait(gate, "fitted", FittedThreshold)
    if fitted is not None:
        name = judged if isinstance(judged, str) else model_name(judged)
        allow = allow_other_model or bool(trait(gate, "allow_other_model", bool))
        fitted.check(name, allow_other=allow)


def decide(p_known: object, threshold: float, model: str = "") -> RetrievalDecision:
    """Compare a gate's answer with a threshold: known, and not retrieved for, iff it is above.

    ``model`` names in the reason whose knowledge was judged, which need not be that of the
    language model that will answer.
    """
    number = check_number("p_known", p_known, low=0.0, high=1.0)
    known = number > threshold
    why = (KNOWN if known else UNKNOWN).format(model=model or "the model")
    return RetrievalDecision(not known, number, threshold, why)


def write_draft(question: str, drafter: object, tokens: int | None = None) -> Flow[str]:
    """Return the flow that ends in the model's first words, as many tokens as the gate reads.

    A blank draft raises `InputError`.
    """
    item = question if can(drafter, "draft") else DRAFT_PROMPT.format(question=question)
    (answer,) = yield from draft_port(drafter).ask([LimitedPrompt(item, tokens=tokens)])
    text = answer.text if isinstance(answer, Draft) else answer
    return check_text("draft", strip_thoughts(check_text("draft", text)), blank=False)


def draft_port(drafter: object) -> Port[str, Draft | str]:
    """Build the port of a drafter; all but a `Drafter` are asked with `DRAFT_PROMPT` filled."""
    verb = "draft" if can(drafter, "draft") else "generate"
    return port_of("draft", drafter, verb, argument="drafter")
