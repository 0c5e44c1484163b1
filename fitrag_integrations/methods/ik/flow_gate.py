"""What the gates that need no training share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from fitrag_integrations.core.checks import check_is, check_many, check_number, check_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, arun_many, run_many
from fitrag_integrations.values.thresholds import FittedThreshold


class FlowGate(ABC):
    """Gate by a flow per question, all in lock step.

    A question that fails has its exception in the place of its number; the others are answered.
    """

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[Any]:
        """Tell for each question how sure the model is."""
        return [trace.outcome for trace in run_many(self._flows(questions, drafts))]

    async def ap_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[Any]:
        """Do what `p_known` does without blocking the event loop."""
        return [trace.outcome for trace in await arun_many(self._flows(questions, drafts))]

    @abstractmethod
    def known(self, question: str, draft: str) -> Flow[float]:
        """Give the flow to one question's number, in [0, 1]; a blank draft is written first."""

    def _flows(self, questions: Sequence[str], drafts: Sequence[str]) -> list[Flow[float]]:
        asked, given = check_many("questions", questions, str), check_many("drafts", drafts, str)
        if len(asked) != len(given):
            allowed = f"as many as questions: {len(asked)}, blank where there is none"
            raise InputError.of("drafts", given=len(given), allowed=allowed)
        return [self.known(question, draft) for question, draft in zip(asked, given, strict=True)]


def check_gate(gate: Any, model: Any) -> None:
    """Check what these gates have in common, and their fitted threshold against their model."""
    if gate.fitted is not None:
        check_is("fitted", gate.fitted, FittedThreshold)
        if gate.threshold is None:
            name = getattr(model, "name", None)
            allow = gate.allow_other_model
            gate.fitted.check(name if isinstance(name, str) else "", allow_other=allow)
            object.__setattr__(gate, "threshold", gate.fitted.value)
    if gate.threshold is not None:
        check_number("threshold", gate.threshold, low=0.0, high=1.0)
    check_whole("draft_tokens", gate.draft_tokens, low=0)
