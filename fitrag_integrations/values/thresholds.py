"""Thresholds, each stored with the model whose scores it was fitted on.

A score that means "probably" for one model means nothing for another. So a fitted threshold is
saved with the name of its model, and the name is checked when the threshold is used.
``FittedThreshold`` is one number; ``ActionThresholds`` are the three of CRAG (section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Number,
    Share,
    Size,
    Text,
    check_number,
    check_text,
)
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import ThresholdMismatchError, raise_if, refuse_if
from fitrag_integrations.values.decision import Action

PAPERS_STRIP = -0.5
SENTENCES = 3
"""What "a few sentences" of a strip are here; the paper gives no number."""


def check_grade(field: str, value: object) -> float:
    """Require an evaluator's grade, or a threshold on one."""
    return check_number(field, value, low=-1.0, high=1.0)


def refuse_other(what: str, fitted: str, given: str, verb: str, role: str = "") -> None:
    """Raise ``ThresholdMismatchError`` if a threshold meets a model it was not fitted for."""
    raise_if(
        fitted and fitted != given,
        ThresholdMismatchError,
        f"{what} fitted for {role}{fitted!r}, given "
        f"{repr(given) if given else 'an evaluator without a name'}: fit some with `fitrag "
        f"{verb}`, or pass allow_other_model=True to use it all the same",
    )


Grade: TypeAlias = Annotated[float, check_grade]


@dataclass(frozen=True, slots=True)
class FittedThreshold(Record, Checked):
    """Threshold with the model it was fitted for.

    ``model`` names the language model whose knowledge was judged, or the scorer whose scores are
    compared with it. ``target`` describes the target of the fit, such as "best accuracy", and
    ``rows`` is the number of labeled rows. ``low`` and ``high`` bound the threshold over bootstrap
    samples with the probability ``confidence``; all three are None if no interval was computed.
    ``shots`` identifies the examples that the model was shown; blank if unknown.
    """

    value: Number
    model: Text = ""
    target: Text = ""
    data: Text = ""
    rows: Size = 0
    low: Number | None = None
    high: Number | None = None
    confidence: Share | None = None
    shots: Text = ""

    def check(self, model: str, *, allow_other: bool = False) -> None:
        """Raise ``ThresholdMismatchError`` if ``model`` is not the one this was fitted for.

        ``allow_other`` accepts any model. A threshold that names no model and a model without a
        name are accepted, because there is nothing to compare.
        """
        if check_text("model", model) and not allow_other:
            refuse_other(f"threshold {self.value:g} was", self.model, model, "calibrate")


@dataclass(frozen=True, slots=True)
class ActionThresholds(Record, Checked):
    """Thresholds of CRAG's actions and strips, on the grades of one evaluator.

    Args:
        upper: Grade from which a list is correct, in [-1, 1].
        lower: Grade below which all of an incorrect list are, at most ``upper``.
        strip: Grade that a knowledge strip has to reach, in [-1, 1].
        model: Name of the evaluator they were fitted for; blank if unknown.
        sentences: Maximum sentences of the strips that ``strip`` was fitted for.

    Raises:
        InputError: If a number is out of range, or ``lower`` above ``upper``.
    """

    upper: Grade
    lower: Grade
    strip: Grade = PAPERS_STRIP
    model: Text = ""
    sentences: Count = SENTENCES

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        allowed = f"a number of at most upper={self.upper:g}"
        refuse_if(self.lower > self.upper, "ActionThresholds.lower", self.lower, allowed)

    def action(self, grades: Iterable[float]) -> Action:
        """Decide from the grades of all passages retrieved for one question.

        Correct if any grade is at least ``upper``, incorrect if all are below ``lower`` or there
        are none, else ambiguous.
        """
        best = max((check_grade("grade", grade) for grade in grades), default=None)
        if best is None or best < self.lower:
            return Action.INCORRECT
        return Action.CORRECT if best >= self.upper else Action.AMBIGUOUS

    def check(self, model: str, *, allow_other: bool = False) -> None:
        """Check that these thresholds belong to an evaluator.

        Thresholds that name no evaluator pass.

        Args:
            model: Name of the evaluator; a blank name fails if the thresholds name an evaluator.
            allow_other: Accept any evaluator.

        Raises:
            ThresholdMismatchError: If ``model`` is not the evaluator these were fitted for.
            InputError: If ``model`` is not a string.
        """
        if check_text("model", model) != self.model and not allow_other:
            what = f"thresholds {self.upper:g} / {self.lower:g} were"
            refuse_other(what, self.model, model, "calibrate evaluator")
