"""Grade what was retrieved, and decide from the grades on the action (CRAG, 4.2 and 4.3).

An evaluator is an object with ``evaluate(pairs)``, or a callable that does the same, and may carry
``thresholds`` and ``name``. A bi-label scorer is seen through as one: ``2 * has_answer - 1``.
`Crag` judges and acts; ``ActionJudge`` is its first half, for callers with branches of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeAlias

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
from fitrag_integrations.flow.ask import ask_able
from fitrag_integrations.methods.defaults import EMBEDDED_EVALUATOR
from fitrag_integrations.ports import Pair, model_name, port_of, scorer_as_evaluator, scorer_of
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.types import Action, Excerpt, Passage
from fitrag_integrations.values.selected import Selection
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


PRESETS: Mapping[str, ActionThresholds] = MappingProxyType(
    {
        name: ActionThresholds(upper, lower, PAPERS_STRIP, PAPERS_EVALUATOR)
        for name, upper, lower in (
            ("popqa", 0.59, -0.99),
            ("pubhealth", 0.5, -0.91),
            ("arc", 0.5, -0.91),
            ("biography", 0.95, -0.91),
        )
    }
)
"""What the paper set for its own evaluator, by the data it was set on (appendix B.3)."""


STEPS = ("refine", "rewrite", "select")
"""What can be left out besides actions (Table 3)."""


def check_without(field: str, without: Any) -> frozenset[str]:
    """Return the actions and steps to leave out; at least one action must remain.

    Args:
        field: Name of the field in errors.
        without: One or several names of `Action` and `STEPS`.

    Raises:
        InputError: For another name, or if no action remains.
    """
    names = ", ".join(repr(str(name)) for name in (*Action, *STEPS))
    allowed = f"some of {names}, but not all three actions"
    refuse_if(not isinstance(without, Iterable), field, without, allowed)
    removed = frozenset(map(str, [without] if isinstance(without, str) else without))
    refuse_if(removed - {*Action, *STEPS} or removed >= {*Action}, field, without, allowed)
    return removed


def merged_action(action: Action, without: Iterable[str]) -> Action:
    """Replace an action that is left out (section 5.4).

    Correct and Incorrect merge with Ambiguous. Without Ambiguous, its cases become Incorrect, so
    that ``upper`` is the only threshold; the paper does not report which one it kept. If one action
    is left, it is always the result.

    Args:
        action: Action.
        without: Actions to leave out.
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
    """Return the thresholds for an evaluator's grades.

    Args:
        evaluator: Evaluator. Defaults to the embedded one.
        given: Thresholds, or the name of one of the paper's presets. Defaults to the evaluator's
            own.
        allow_other_model: Accept thresholds that were fitted for another evaluator.

    Raises:
        ThresholdMismatchError: If the thresholds were fitted for another evaluator.
        InputError: If there are no thresholds.
    """
    thresholds = (
        own_thresholds(evaluator) if given is None else check_thresholds("thresholds", given)
    )
    if thresholds is None:
        raise InputError.of(
            "thresholds",
            given=None,
            allowed="ActionThresholds, or an evaluator with its own: `fitrag calibrate evaluator`",
        )
    if thresholds.model:
        name = model_name(EMBEDDED_EVALUATOR if evaluator is None else evaluator)
        name = name or getattr(own_thresholds(evaluator), "model", "")
        thresholds.check(name, allow_other=allow_other_model)
    return thresholds


def check_thresholds(field: str, given: ActionThresholds | str) -> ActionThresholds:
    """Return thresholds, or the preset of the paper with a name.

    Args:
        field: Name of the field in errors.
        given: Thresholds or name.

    Raises:
        InputError: If there is no such preset.
    """
    if isinstance(given, str):
        refuse_if(given not in PRESETS, field, given, ", ".join(PRESETS))
        return PRESETS[given]
    return check_is(field, given, ActionThresholds)


def own_thresholds(evaluator: object = None) -> ActionThresholds | None:
    """Return the thresholds that an evaluator carries; None is the embedded evaluator."""
    own = trait(EMBEDDED_EVALUATOR if evaluator is None else evaluator, "thresholds", object)
    return None if own is None else check_is("evaluator.thresholds", own, ActionThresholds)


def grade(
    question: str,
    excerpts: Sequence[Excerpt],
    evaluate: EvaluatePort,
    selection: Selection | None = None,
) -> Flow[list[Excerpt]]:
    """Grade excerpts against a question in one call; each grade becomes its excerpt's score.

    Args:
        question: Question; not blank.
        excerpts: Excerpts.
        evaluate: Port of the evaluator.
        selection: Records the reason why an excerpt that the evaluator refuses is left out.
    """
    check_text("question", question, blank=False)
    items = [(question, excerpt.as_passage()) for excerpt in excerpts]
    able, grades, refused = yield from ask_able(evaluate, items, excerpts)
    for excerpt, error in refused:
        (selection or Selection()).drop([excerpt], "refused", str(error))
    return [
        replace(excerpt, score=check_grade("grade", value))
        for excerpt, value in zip(able, grades, strict=True)
    ]


BLANK = -1.0
"""The grade of a passage without text, or that the evaluator refused."""


@dataclass(frozen=True, slots=True)
class GradedList(Record):
    """Action for a list of passages, and what decided it.

    Args:
        action: The action.
        grades: One grade in [-1, 1] per passage, in their order. A passage that is blank or refused
            has -1 and does not affect the action.
        thresholds: Thresholds that the grades were compared with.
        refused: Per passage why the evaluator refused it, blank if it did not.
    """

    _nested: ClassVar = {"thresholds": ActionThresholds}

    action: Action
    grades: tuple[float, ...]
    thresholds: ActionThresholds
    refused: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Return one note per passage that was refused."""
        return tuple(
            f"passage {at} of {len(self.refused)} left out: the evaluator refused it ({why})"
            for at, why in enumerate(self.refused, start=1)
            if why
        )


@dataclass(frozen=True)
class ActionJudge(Checked):
    """Grade passages against a question and decide on the action.

    Without passages, or where all are blank, the action is incorrect.

    Args:
        evaluator: An object with ``evaluate(pairs)``, a bi-label scorer, or a callable; None is the
            bundled one.
        thresholds: None are the evaluator's own; a text names a preset of the paper.
        allow_other_model: Accept thresholds that were fitted for another evaluator.
    """

    evaluator: object = None
    _: KW_ONLY
    thresholds: Annotated[ActionThresholds | str, check_thresholds] | None = None
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        evaluate_port(self.evaluator)
        if self.evaluator is not None:  # the embedded one is not loaded for this
            self._thresholds()

    def __call__(self, question: str, passages: Sequence[Passage]) -> Flow[GradedList]:
        """Return the flow that ends in the action; all passages are graded in one ask."""
        check_text("question", question, blank=False)
        given = check_many("passages", passages, Passage)
        texts = [passage for passage in given if has_text(passage.text)]
        pairs = [(question, Excerpt.whole(passage).as_passage()) for passage in texts]
        able, graded, refused = yield from ask_able(evaluate_port(self.evaluator), pairs, texts)
        grades = {
            id(passage): check_grade("grade", value)
            for passage, value in zip(able, graded, strict=True)
        }
        thresholds, why = self._thresholds(), {id(one): str(error) for one, error in refused}
        return GradedList(
            thresholds.action(grades.values()),
            tuple(grades.get(id(passage), BLANK) for passage in given),
            thresholds,
            tuple(why.get(id(passage), "") for passage in given) if why else (),
        )

    def _thresholds(self) -> ActionThresholds:
        return thresholds_of(
            self.evaluator, self.thresholds, allow_other_model=self.allow_other_model
        )
