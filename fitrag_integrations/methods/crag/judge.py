"""Judge what was retrieved, and leave to the caller what to do about it (CRAG, sections 4.2, 4.3).

`Crag` judges and acts. This is its first half by itself, for callers with branches of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from fitrag_integrations.core.checks import check_is, check_many, check_text
from fitrag_integrations.core.record import Record
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.crag.actions import ActionThresholds
from fitrag_integrations.methods.crag.grading import (
    check_thresholds,
    evaluate_port,
    grade,
    thresholds_of,
)
from fitrag_integrations.types import Action, Excerpt, Passage

BLANK = -1.0
"""The grade of a passage without text, which no evaluator is asked about."""


@dataclass(frozen=True, slots=True)
class Judged(Record):
    """Hold an action, the grades it follows from, in the order of the passages, and the thresholds.

    There is one grade in [-1, 1] per passage; a blank one has -1 and no say in the action.
    """

    _nested: ClassVar = {"thresholds": ActionThresholds}

    action: Action
    grades: tuple[float, ...]
    thresholds: ActionThresholds


@dataclass(frozen=True)
class Judge:
    """Grade passages against a question and decide on the action.

    `evaluator`, `thresholds` and `allow_other_model` are those of `Crag`. Without passages, or
    where all are blank, the action is incorrect.
    """

    evaluator: Any = None
    _: KW_ONLY
    thresholds: ActionThresholds | str | None = None
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        check_is("allow_other_model", self.allow_other_model, bool)
        evaluate_port(self.evaluator)
        if self.evaluator is not None:  # the embedded one is not loaded for this
            self._thresholds()
        elif self.thresholds is not None:
            check_thresholds(self.thresholds)

    def __call__(self, question: str, passages: Sequence[Passage]) -> Flow[Judged]:
        """Give the flow that ends in the action; all passages are graded in one ask."""
        check_text("question", question, blank=False)
        given = check_many("passages", passages, Passage)
        asked = [at for at, passage in enumerate(given) if passage.text.strip()]
        wholes = [Excerpt.whole(given[at]) for at in asked]
        graded = yield from grade(question, wholes, evaluate_port(self.evaluator))
        thresholds = self._thresholds()
        grades = [BLANK] * len(given)
        for at, excerpt in zip(asked, graded, strict=True):
            grades[at] = excerpt.score
        action = thresholds.action(excerpt.score for excerpt in graded)
        return Judged(action, tuple(grades), thresholds)

    def _thresholds(self) -> ActionThresholds:
        return thresholds_of(
            self.evaluator, self.thresholds, allow_other_model=self.allow_other_model
        )
