"""What a method decided: whether to retrieve, and what to do with what was found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from fitrag_integrations.core.checks import Checked, Number, Share, Text, check_number, check_text
from fitrag_integrations.core.record import Record


@dataclass(frozen=True, slots=True)
class RetrievalDecision(Record, Checked):
    """Say whether to retrieve, and on what grounds.

    ``p_known`` in [0, 1] is how likely the model knows the answer by itself, None where a gate
    gives a verdict without a number; ``threshold`` is what it was compared with; ``why`` is one
    plain sentence.
    """

    retrieve: bool
    p_known: Share | None = None
    threshold: Number | None = None
    why: Text = ""

    def __str__(self) -> str:
        """Tell the verdict, its numbers and its reason in one line."""
        said = "retrieve" if self.retrieve else "do not retrieve"
        known = "" if self.p_known is None else f", p_known {self.p_known:.2f}"
        threshold = "" if self.threshold is None else f", threshold {self.threshold:.2f}"
        return f"{said}{known}{threshold}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True)
class Draft(Record):
    """Hold ``text``, a model's first words on a question, and how sure it was of each token.

    Per token of the draft, in order: ``logprobs`` are natural logarithms of the probability of the
    token written, at most 0; ``margins`` the probability of the likeliest token less that of the
    second, in [0, 1]; ``entropies`` in nats over the whole vocabulary, or over the alternatives a
    service shows. All three are empty where the model does not tell.
    """

    text: str
    logprobs: tuple[float, ...] = ()
    margins: tuple[float, ...] = ()
    entropies: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_text("Draft.text", self.text)
        bounds = {"logprobs": (-math.inf, 0.0), "margins": (0.0, 1.0), "entropies": (0.0, math.inf)}
        for name, (low, high) in bounds.items():
            numbers = tuple(
                check_number(f"Draft.{name}[{i}]", value, low=low, high=high)
                for i, value in enumerate(getattr(self, name))
            )
            object.__setattr__(self, name, numbers)


class Action(StrEnum):
    """Name what CRAG does with what was retrieved (CRAG, section 4.3)."""

    CORRECT = "correct"
    AMBIGUOUS = "ambiguous"
    INCORRECT = "incorrect"
