"""IK: retrieve only for what the model does not know (IK, sections 3 and 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fitrag_integrations.core.checks import check_callable
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.direct import Direct
from fitrag_integrations.methods.ik.decider import GateDecision
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context


@dataclass(frozen=True, kw_only=True)
class IKnow(GateDecision):
    """Method that retrieves only for unknown questions (IK, sections 3 and 4.2).

    A known question ends in a context without excerpts, whose prompt is the no-retrieval one.

    Args:
        gate: Gate with `p_known(questions, drafts)`. Defaults to `own_gate` of the caller's
            language model: a local model is judged by its draft, any other is asked.
        drafter: Model that writes the draft for the gate: a `Drafter`, an object with `generate`,
            a callable, or a `Port`. Defaults to the gate's own. It is called only if the gate's
            `draft_tokens` is not 0.
        threshold: A question is known above this number, in [0, 1]. Defaults to the gate's, or 0.5.
        on_error: "retrieve" retrieves if the gate or the drafter fails or the draft is blank, and
            `why` names the failure; "raise" raises the error.
        allow_other_model: Accept a threshold that was fitted for another model.
        method: Method for unknown questions. Defaults to `Direct()`, which puts all retrieved
            passages into the prompt, as in the paper.

    Example:
        >>> IKnow(threshold=0.7).threshold
        0.7
    """

    method: Annotated[Method, check_callable] | None = None

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        An unknown question has the notes and excerpts of `method`.

        Args:
            question: Question.
            ports: Ports of the question.

        Raises:
            InputError: If the question is blank, or there is neither a gate nor a language model.
        """
        # does the model know it? (section 3)
        decided = yield from self.decided(question, ports.generate or None)
        context = Context(question)

        # retrieve for what it does not know (section 4.2)
        if decided.decision.retrieve:
            context = yield from (self.method or Direct())(question, ports)
        return replace(
            context,
            decision=decided.decision,
            draft=decided.draft if context.draft is None else context.draft,
            method=type(self).__name__.lower(),
            details={**context.details, **self.details(decided)},
        )
