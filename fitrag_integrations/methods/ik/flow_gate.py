"""What the gates that need no training share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated

from fitrag_integrations.core.checks import Checked, Share, Size, check_is, check_many
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, arun_many, run_many
from fitrag_integrations.methods.ik.decider import check_fitted
from fitrag_integrations.values.thresholds import FittedThreshold


@dataclass(frozen=True)
class FlowGate(Checked, ABC):
    """Gate by a flow per question, all in lock step.

    A question is known above `threshold`, in [0, 1]; None is that of `fitted`, which is refused for
    another model than it was fitted for unless `allow_other_model`. `draft_tokens` 0 asks nobody
    for a draft. A question that fails has its exception in the place of its number; the others are
    answered.
    """

    _: KW_ONLY
    threshold: Share | None = None
    fitted: Annotated[FittedThreshold, partial(check_is, kind=FittedThreshold)] | None = None
    draft_tokens: Size = 0
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threshold is None and self.fitted is not None:
            check_fitted(self, self.judged)
            object.__setattr__(self, "threshold", self.fitted.value)

    @property
    @abstractmethod
    def judged(self) -> object:
        """The model whose knowledge is judged."""

    @abstractmethod
    def known(self, question: str, draft: str) -> Flow[float]:
        """Return the flow to one question's number, in [0, 1]; a blank draft is written first."""

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float | Exception]:
        """Return for each question how sure the model is, in [0, 1]."""
        return [trace.outcome for trace in run_many(self._flows(questions, drafts))]

    async def ap_known(
        self, questions: Sequence[str], drafts: Sequence[str]
    ) -> list[float | Exception]:
        """Async version of `p_known`, in [0, 1], in [0, 1] too, without blocking the event loop."""
        return [trace.outcome for trace in await arun_many(self._flows(questions, drafts))]

    def _flows(self, questions: Sequence[str], drafts: Sequence[str]) -> list[Flow[float]]:
        asked, given = check_many("questions", questions, str), check_many("drafts", drafts, str)
        if len(asked) != len(given):
            allowed = f"as many as questions: {len(asked)}, blank where there is none"
            raise InputError.of("drafts", given=len(given), allowed=allowed)
        return [self.known(question, draft) for question, draft in zip(asked, given, strict=True)]
