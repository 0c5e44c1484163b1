"""Grade what was retrieved, and decide from the grades on the action (CRAG, 4.2 and 4.3).

An evaluator is an object with ``evaluate(pairs)``, or a callable that does the same, and may carry
``thresholds`` and ``name``. A bi-label scorer is seen through as one: ``2 * has_answer - 1``.
`Crag` judges and acts; ``ActionJudge`` is its first half, for callers with branches of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

from fitrag_integrations.core.checks import (
    Checked,
    can,
    check_is,
    check_many,
    check_text,
    trait,
)
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.crag.verdict import ListJudge, judge_of
from fitrag_integrations.methods.defaults import EMBEDDED_EVALUATOR
from fitrag_integrations.ports import Pair, model_name, port_of, scorer_as_evaluator, scorer_of
from fitrag_integrations.types import Action, Excerpt, Passage
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
]

PAPERS_EVALUATOR = "Mindie/CRAG-Evaluator"
"""What the paper's presets were fitted for: the T5-large its authors released, by its name there.

A copy in a folder is loaded with this as its ``name``.
"""


_UPPER_LOWER = {
    "popqa": (0.59, -0.99),
    "pubhealth": (0.5, -0.91),
    "arc": (0.5, -0.91),
    "biography": (0.95, -0.91),
}
PRESETS: Mapping[str, ActionThresholds] = MappingProxyType(
    {
        name: ActionThresholds(*limits, PAPERS_STRIP, PAPERS_EVALUATOR)
        for name, limits in _UPPER_LOWER.items()
    }
)
"""What the paper set for its own evaluator, by the data it was set on (appendix B.3)."""


def check_without(field: str, without: Any) -> frozenset[Action]:
    """Read the actions to do without, one or several; at least one has to stay."""
    allowed = "some of " + ", ".join(repr(action.value) for action in Action) + ", but not all"
    try:
        removed = frozenset(map(Action, [without] if isinstance(without, str) else without))
    except (TypeError, ValueError):
        raise InputError.of(field, given=without, allowed=allowed) from None
    refuse_if(len(removed) == len(Action), field, without, allowed)
    return removed


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


EvaluatePort: TypeAlias = Port[Pair, float]


def evaluate_port(evaluator: object = None) -> EvaluatePort:
    """Build the port of an evaluator; without one, of the embedded evaluator."""
    given = EMBEDDED_EVALUATOR if evaluator is None else scorer_of(evaluator)
    if not can(given, "evaluate") and can(given, "score"):
        return scorer_as_evaluator(given)
    return port_of("evaluate", given, "evaluate", argument="evaluator")


def thresholds_of(
    evaluator: object = None,
    given: ActionThresholds | str | None = None,
    *,
    allow_other_model: bool = False,
) -> ActionThresholds:
    """Find the thresholds for an evaluator's grades: those given, else its own.

    A text names one of the paper's presets. Raises ``ThresholdMismatchError`` for thresholds of
    another evaluator unless ``allow_other_model``, ``InputError`` where there are none.
    """
    thresholds = own_thresholds(evaluator) if given is None else check_thresholds(given)
    if thresholds is None:
        allowed = "ActionThresholds, or an evaluator with its own: `fitrag calibrate evaluator`"
        raise InputError.of("thresholds", given=None, allowed=allowed)
    name = ""
    if thresholds.model:
        own = own_thresholds(evaluator)
        name = model_name(EMBEDDED_EVALUATOR if evaluator is None else evaluator)
        name = name or ("" if own is None else own.model)
    if given is not None or name:
        thresholds.check(name, allow_other=allow_other_model)
    return thresholds


def check_thresholds(given: ActionThresholds | str) -> ActionThresholds:
    """Require thresholds, or the name of one of the paper's presets."""
    if isinstance(given, str):
        refuse_if(given not in PRESETS, "thresholds", given, ", ".join(PRESETS))
        return PRESETS[given]
    return check_is("thresholds", given, ActionThresholds)


def own_thresholds(evaluator: object = None) -> ActionThresholds | None:
    """Return the thresholds that an evaluator carries; None is the embedded evaluator."""
    own = trait(EMBEDDED_EVALUATOR if evaluator is None else evaluator, "thresholds", object)
    return None if own is None else check_is("evaluator.thresholds", own, ActionThresholds)


def grade(
    question: str, excerpts: Sequence[Excerpt], evaluate: EvaluatePort
) -> Flow[list[Excerpt]]:
    """Grade excerpts against a question in one ask; each grade becomes its excerpt's score."""
    check_text("question", question, blank=False)
    grades = yield from evaluate.ask([(question, excerpt.as_passage()) for excerpt in excerpts])
    return [
        replace(excerpt, score=check_grade("grade", value))
        for excerpt, value in zip(excerpts, grades, strict=True)
    ]


BLANK = -1.0
"""The grade of a passage without text, which no evaluator is asked about."""


@dataclass(frozen=True, slots=True)
class GradedList(Record):
    """Action for a list of passages, and what decided it.

    Args:
        action: The action.
        grades: One grade in [-1, 1] per passage, in their order. A blank passage has -1 and does
            not affect the action.
        thresholds: Thresholds that the grades were compared with.
        numbers: Where the whole list was judged, its probability, thresholds and inputs.
    """

    _nested: ClassVar = {"thresholds": ActionThresholds}

    action: Action
    grades: tuple[float, ...]
    thresholds: ActionThresholds
    numbers: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ActionJudge(Checked):
    """Grade passages against a question and decide on the action.

    Without passages, or where all are blank, the action is incorrect.

    Args:
        evaluator: An object with ``evaluate(pairs)``, a bi-label scorer, or a callable; None is the
            bundled one.
        thresholds: None are the evaluator's own; a text names a preset of the paper.
        allow_other_model: Accept thresholds that were fitted for another evaluator.
        verdict: "embedded" or a folder of `fitrag calibrate verdict`: the action is decided by all
            grades, both labels and the reader's answers. None is the paper's rule.
    """

    evaluator: object = None
    _: KW_ONLY
    thresholds: ActionThresholds | str | None = None
    allow_other_model: bool = False
    verdict: object = None

    def __post_init__(self) -> None:
        super().__post_init__()
        evaluate_port(self.evaluator)
        _ = self._list_judge
        if self.evaluator is not None:  # the embedded one is not loaded for this
            self._thresholds()
        elif self.thresholds is not None:
            check_thresholds(self.thresholds)

    def __call__(self, question: str, passages: Sequence[Passage]) -> Flow[GradedList]:
        """Return the flow that ends in the action; all passages are graded in one ask."""
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
        numbers: dict[str, object] = {}
        if self._list_judge is not None:
            pairs = [(question, given[at]) for at in asked]
            own = EMBEDDED_EVALUATOR if self.evaluator is None else self.evaluator
            action, numbers = yield from self._list_judge(pairs, [e.score for e in graded], own)
        return GradedList(action, tuple(grades), thresholds, numbers)

    @cached_property
    def _list_judge(self) -> ListJudge | None:
        if self.verdict is None:
            return None
        return judge_of(self.verdict, allow_other_model=self.allow_other_model)

    def _thresholds(self) -> ActionThresholds:
        return thresholds_of(
            self.evaluator, self.thresholds, allow_other_model=self.allow_other_model
        )
