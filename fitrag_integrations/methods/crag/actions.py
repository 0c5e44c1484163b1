"""CRAG's actions (section 4.3): the paper's thresholds by name, and an action done without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from fitrag_integrations.errors import InputError
from fitrag_integrations.types import Action
from fitrag_integrations.values.thresholds import (
    PAPERS_STRIP,
    SENTENCES,
    ActionThresholds,
    check_grade,
)

__all__ = [
    "PAPERS_EVALUATOR",
    "PAPERS_STRIP",
    "PRESETS",
    "SENTENCES",
    "ActionThresholds",
    "check_grade",
    "merged_action",
    "removed_actions",
    "thresholds_named",
]

PAPERS_EVALUATOR = "Mindie/CRAG-Evaluator"
"""What the paper's presets were fitted for: the T5-large its authors released, by its name there.

A copy in a folder is loaded with this as its ``name``.
"""


def _of_the_paper(upper: float, lower: float) -> ActionThresholds:
    return ActionThresholds(upper, lower, PAPERS_STRIP, PAPERS_EVALUATOR)


PRESETS: Mapping[str, ActionThresholds] = MappingProxyType(
    {
        "popqa": _of_the_paper(0.59, -0.99),
        "pubhealth": _of_the_paper(0.5, -0.91),
        "arc": _of_the_paper(0.5, -0.91),
        "biography": _of_the_paper(0.95, -0.91),
    }
)
"""What the paper set for its own evaluator, by the data it was set on (appendix B.3)."""


def thresholds_named(name: str) -> ActionThresholds:
    """Find one of the paper's presets by its name."""
    if name not in PRESETS:
        raise InputError.of("thresholds", given=name, allowed=", ".join(PRESETS))
    return PRESETS[name]


def removed_actions(without: Any) -> frozenset[Action]:
    """Read the actions to do without, one or several; at least one has to stay."""
    allowed = "some of " + ", ".join(repr(action.value) for action in Action) + ", but not all"
    try:
        removed = frozenset(map(Action, [without] if isinstance(without, str) else without))
    except (TypeError, ValueError):
        raise InputError.of("without", given=without, allowed=allowed) from None
    if len(removed) == len(Action):
        raise InputError.of("without", given=without, allowed=allowed)
    return removed


def check_without(_: str, without: object) -> frozenset[Action]:
    """Async version of `removed_actions`, for a field."""
    return removed_actions(without)


def merged_action(action: Action, without: Iterable[Action | str]) -> Action:
    """Replace an action that is done without (section 5.4).

    Correct and incorrect merge with ambiguous. What was ambiguous becomes incorrect, so that
    ``upper`` is the one threshold left; the paper does not say which it kept. With one action
    left it is always that.
    """
    left = [each for each in Action if each not in set(without)]
    if action in left or len(left) == 1:
        return action if action in left else left[0]
    return Action.AMBIGUOUS if Action.AMBIGUOUS in left else Action.INCORRECT
