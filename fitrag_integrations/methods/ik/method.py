"""IK: retrieve only for what the model does not know (IK, sections 3 and 4.2)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated

from fitrag_integrations.core.checks import check_callable
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines.direct import Direct
from fitrag_integrations.methods.ik.decider import GateDecision
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context


@dataclass(frozen=True)
class IKnow(GateDecision):
    """Method that asks whether the model knows the answer; if not, another method runs.

    `gate`, `drafter`, `threshold`, `on_error` and `allow_other_model` are those of `Decider`.
    `method` None is `Direct()`: whatever is retrieved goes into the prompt, as in the paper. A
    known question ends in a context without excerpts, whose prompt is the no-retrieval one.
    """

    _: KW_ONLY
    method: Annotated[Method, check_callable] | None = None

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        The flow raises `InputError` for a blank question. Notes and excerpts of an unknown one are
        those of `method`.
        """
        # does the model know it? (section 3)
        decided = yield from self.decided(question)
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
