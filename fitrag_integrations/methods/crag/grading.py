"""Ask a retrieval evaluator for grades, and find the thresholds that belong to it (CRAG, 4.2).

An evaluator is an object with ``evaluate(pairs)``, or a callable that does the same, and may carry
``thresholds`` and ``name``. A bi-label scorer is seen through as one: ``2 * has_answer - 1``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from fitrag_integrations.core.checks import check_is, check_text
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.adapting import scorer_of
from fitrag_integrations.methods.crag.actions import (
    PAPERS_STRIP,
    SENTENCES,
    ActionThresholds,
    check_grade,
    thresholds_named,
)
from fitrag_integrations.methods.defaults import EMBEDDED_EVALUATOR
from fitrag_integrations.ports import Pair, port_of
from fitrag_integrations.types import Excerpt
from fitrag_integrations.values.score import labels_of

EvaluatePort: TypeAlias = Port[Pair, float]


def evaluate_port(evaluator: Any = None) -> EvaluatePort:
    """Build the port of an evaluator; without one, of the embedded evaluator."""
    given = EMBEDDED_EVALUATOR if evaluator is None else scorer_of(evaluator)
    if not isinstance(given, type | Port) and not callable(getattr(given, "evaluate", None)):
        score = getattr(given, "score", None)
        if callable(score):
            twin = getattr(given, "ascore", None)
            return Port.of("evaluate", _Seen(score), _SeenAsync(twin) if callable(twin) else None)
    return port_of("evaluate", given, "evaluate", argument="evaluator")


def thresholds_of(
    evaluator: Any = None,
    given: ActionThresholds | str | None = None,
    *,
    allow_other_model: bool = False,
) -> ActionThresholds:
    """Find the thresholds for an evaluator's grades: those given, else its own.

    A text names one of the paper's presets. Raises ``ThresholdMismatchError`` for thresholds of
    another evaluator unless ``allow_other_model``, ``InputError`` where there are none.
    """
    thresholds = _own_thresholds(evaluator) if given is None else check_thresholds(given)
    if thresholds is None:
        allowed = "ActionThresholds, or an evaluator with its own: `fitrag calibrate evaluator`"
        raise InputError.of("thresholds", given=None, allowed=allowed)
    name = _name(evaluator) if thresholds.model else ""
    if given is not None or name:
        thresholds.check(name, allow_other=allow_other_model)
    return thresholds


def check_thresholds(given: ActionThresholds | str) -> ActionThresholds:
    """Require thresholds, or the name of one of the paper's presets."""
    found = thresholds_named(given) if isinstance(given, str) else given
    return check_is("thresholds", found, ActionThresholds)


def strip_threshold_of(evaluator: Any = None) -> float:
    """Give the threshold an evaluator carries for strips, else the paper's."""
    own = _own_thresholds(evaluator)
    return PAPERS_STRIP if own is None else own.strip


def strip_length_of(evaluator: Any = None) -> int:
    """Give the sentences of the strips an evaluator's threshold was fitted on, else three."""
    own = _own_thresholds(evaluator)
    return SENTENCES if own is None else own.sentences


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


def _own_thresholds(evaluator: Any) -> ActionThresholds | None:
    own = getattr(EMBEDDED_EVALUATOR if evaluator is None else evaluator, "thresholds", None)
    return None if own is None else check_is("evaluator.thresholds", own, ActionThresholds)


def _name(evaluator: Any) -> str:
    """Name an evaluator as it does itself, else as its own thresholds do."""
    name = getattr(EMBEDDED_EVALUATOR if evaluator is None else evaluator, "name", "")
    if isinstance(name, str) and name and not isinstance(evaluator, Port):
        return name
    own = _own_thresholds(evaluator)
    return "" if own is None else own.model


@dataclass(frozen=True)
class _Seen:
    """Turn the scores of a call into grades; equal, and hashed, by that call."""

    score: Callable[[Sequence[Pair]], Any]

    def __call__(self, pairs: Sequence[Pair]) -> Any:
        return _grades(self.score(pairs))


@dataclass(frozen=True)
class _SeenAsync:
    score: Callable[[Sequence[Pair]], Any]

    async def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        return _grades(await self.score(pairs))


def _grades(scores: object) -> list[float]:
    return [2.0 * label.has_answer - 1.0 for label in labels_of(scores)]
