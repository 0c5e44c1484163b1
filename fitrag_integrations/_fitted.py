"""Thresholds that know which model's scores they were fitted on.

A number that means "probably" for one model means nothing for another, so a fitted threshold is
saved beside the weights with the name of what it was fitted for, and is checked where they meet.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitrag_integrations._checks import check_number, check_text, check_whole
from fitrag_integrations._plain import Record
from fitrag_integrations.errors import InputError, ThresholdMismatchError


@dataclass(frozen=True, slots=True)
class FittedThreshold(Record):
    """Hold a threshold with what it was fitted for.

    ``model`` names the language model whose knowledge was judged, or the scorer whose scores were
    cut; ``target`` says in words what was asked of the fit, such as "best accuracy"; ``rows`` is
    the number of labelled rows; ``low`` and ``high`` bound the threshold over bootstrap samples
    with the probability ``confidence``, all None where no interval was asked for.
    """

    value: float
    model: str = ""
    target: str = ""
    data: str = ""
    rows: int = 0
    low: float | None = None
    high: float | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", check_number("FittedThreshold.value", self.value))
        for name in ("model", "target", "data"):
            check_text(f"FittedThreshold.{name}", getattr(self, name))
        check_whole("FittedThreshold.rows", self.rows, low=0)
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                number = check_number(f"FittedThreshold.{name}", getattr(self, name))
                object.__setattr__(self, name, number)
        if self.confidence is not None:
            sure = check_number("FittedThreshold.confidence", self.confidence, low=0.0, high=1.0)
            object.__setattr__(self, "confidence", sure)

    def check(self, model: str, *, allow_other: bool = False) -> None:
        """Raise ``ThresholdMismatchError`` where ``model`` is not the one this was fitted for.

        A threshold that names no model, and a model without a name, are let through: there is
        nothing to compare.
        """
        if not isinstance(model, str):
            raise InputError.of("model", given=model, allowed="the name of a model")
        if self.model and model and self.model != model and not allow_other:
            raise ThresholdMismatchError(
                f"threshold {self.value:g} was fitted for {self.model!r}, given {model!r}: fit one "
                "with `fitrag calibrate`, or pass allow_other_model=True to use it all the same"
            )
