"""IK: retrieve only for what the model does not know (IK, sections 3 and 4.2)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from fitrag_integrations.core.checks import check_callable
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines.direct import Direct
from fitrag_integrations.methods.ik.decider import Decider, OnError
from fitrag_integrations.ports import Gate, Method, Ports
from fitrag_integrations.types import Context


@dataclass(frozen=True)
class IKnow:
    """Ask whether the model knows the answer; if not, go on with another method.

    `gate`, `drafter`, `threshold`, `on_error` and `allow_other_model` are those of `Decider`.
    `method` None is `Direct()`: whatever is retrieved goes into the prompt, as in the paper. A
    known question ends in a context without excerpts, whose prompt is the no-retrieval one.
    """

    gate: Gate | None = None
    _: KW_ONLY
    drafter: Any = None
    threshold: float | None = None
    method: Method | None = None
    on_error: OnError = "retrieve"
    allow_other_model: bool = False
    _decider: Decider = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        check_callable("method", self.method)
        decider = Decider(
            self.gate,
            drafter=self.drafter,
            threshold=self.threshold,
            on_error=self.on_error,
            allow_other_model=self.allow_other_model,
        )
        object.__setattr__(self, "_decider", decider)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Give the flow that ends in the context for one question.

        The flow raises `InputError` for a blank question. Notes and excerpts of an unknown one are
        those of `method`.
        """
        decided = yield from self._decider(question)
        context = Context(question)
        if decided.decision.retrieve:
            method = Direct() if self.method is None else self.method
            context = yield from method(question, ports)
        details = {**context.details, **self._decider.details(decided)}
        return replace(
            context,
            decision=decided.decision,
            draft=decided.draft if context.draft is None else context.draft,
            method="iknow",
            details=details,
        )
