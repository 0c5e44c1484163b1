"""What the demo's gate is worth: what it lets pass, answered without and with retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fitrag_integrations.commands.demo.data import Worked
from fitrag_integrations.commands.demo.figures import is_right
from fitrag_integrations.text.tokens import approximate_tokens


@dataclass(frozen=True, slots=True)
class GateFigures:
    """Hold shares in [0, 1] and the mean tokens of a prompt, by estimate.

    `skipped` is the share of questions that were not retrieved for; `right_skipped` is how many of
    these were right, `right_if_retrieved` how many of the same would have been, and
    `right_retrieved` how many of the others. None where there are no such questions. `tokens` is
    what the prompts of all questions took, `tokens_if_retrieved` what they would have taken.
    """

    threshold: float
    skipped: float
    right_skipped: float | None
    right_if_retrieved: float | None
    right_retrieved: float | None
    tokens: float
    tokens_if_retrieved: float


def gate_figures(
    worked: Sequence[Worked], again: Sequence[Worked], threshold: float
) -> GateFigures:
    """Compare a pipeline behind a gate with `again`, its skipped questions retrieved for."""
    skipped = [each for each in worked if each.skipped]
    others = [each for each in worked if not each.skipped]
    return GateFigures(
        threshold=threshold,
        skipped=len(skipped) / max(1, len(worked)),
        right_skipped=_right(skipped),
        right_if_retrieved=_right(again),
        right_retrieved=_right(others),
        tokens=_tokens(worked),
        tokens_if_retrieved=_tokens([*others, *again]),
    )


def _right(worked: Sequence[Worked]) -> float | None:
    right = [is_right(each, extractive=True) for each in worked]
    return sum(right) / len(right) if right else None


def _tokens(worked: Sequence[Worked]) -> float:
    return sum(approximate_tokens(each.prompt) for each in worked) / max(1, len(worked))
