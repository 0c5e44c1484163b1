"""Set two results over the same questions side by side, whenever they were measured.

Questions are paired by their content. A figure that is a mean, or an area under the ROC curve, is
computed again over the pairs, so that the bootstrap draws the same questions for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fitrag_integrations.core.record import Row, plain
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figure import Figure
from fitrag_integrations.evaluation.figures.decisions import gate_statistics
from fitrag_integrations.evaluation.figures.summaries import (
    Draws,
    Question,
    Statistic,
    area_of,
    difference,
    statistic_change,
)
from fitrag_integrations.evaluation.result import Result


@dataclass(frozen=True, slots=True)
class Pairs:
    """Paired questions of two results by system, and notes about questions without a partner."""

    kind: str
    systems: dict[str, tuple[list[Question], list[Question]]]
    notes: tuple[str, ...] = ()


def paired(first: Result, second: Result, *, common: bool = False) -> Pairs:
    """Find each question's partner by its `id`, system by system.

    Where both hold one system only, its name does not matter.

    Args:
        first: Result of a run.
        second: Result of another run.
        common: Whether to leave out questions that only one of them holds.

    Raises:
        InputError: For results of different kinds, and, unless `common`, where one holds a question
            that the other does not.
    """
    if first.kind != second.kind or first.kind == "compare":
        allowed = "two results of one kind, and not comparisons"
        raise InputError.of("kind", given=f"{first.kind} and {second.kind}", allowed=allowed)
    one, other = _by_system(first.per_question), _by_system(second.per_question)
    if len(one) == len(other) == 1:
        one = dict(zip(other, one.values(), strict=True))
    shared = [system for system in one if system in other]
    if not shared:
        given = f"systems {', '.join(one) or '-'} and {', '.join(other) or '-'}"
        raise InputError.of("per_question", given=given, allowed="a system that is in both")
    lonely = [system for system in {**one, **other} if system not in shared]
    notes = [f"{system} is in one result only and left out" for system in lonely]
    found = {}
    for system in shared:
        a, b = one[system], other[system]
        both = [each for each in a if each in b]
        lost = len(a) - len(both), len(b) - len(both)
        if (any(lost) and not common) or not both:
            given = f"{lost[0]} questions that only the first holds, {lost[1]} only the second"
            allowed = "the same questions, or --common for those in both"
            if not both:
                allowed = "questions in common, and there are none"
            raise InputError.of("per_question", given=given, allowed=allowed)
        if any(lost):
            left = f"{lost[0]} of the first and {lost[1]} of the second are left out"
            notes.append(f"{len(both)} questions are in both; {left}")
        found[system] = [a[each] for each in both], [b[each] for each in both]
    return Pairs(first.kind, found, tuple(dict.fromkeys(notes)))


def compared(pairs: Pairs, draws: Draws) -> list[Figure]:
    """Compute each figure of both results, with the difference and McNemar's p.

    A question without a value, such as an undecided one, is left out of that figure only.
    """
    found = []
    for system, (first, second) in pairs.systems.items():
        of, size = {"system": system} if system else {}, len(first)
        for name in dict.fromkeys(name for q in first for name in q["values"]):
            columns = ([q["values"].get(name) for q in each] for each in (first, second))
            both = [pair for pair in zip(*columns, strict=True) if None not in pair]
            if both:
                one, other = ([*map(float, each)] for each in zip(*both, strict=True))
                change = difference(one, other, draws, name=name)
                ends = float(np.mean(one)), float(np.mean(other))
                found.append(Figure(name, ends[1], None, len(both), change, of, ends))
        ours, theirs = (_statistics(part, pairs.kind) for part in (first, second))
        for name in (name for name in ours if name in theirs):
            change = statistic_change(ours[name], theirs[name], size, draws)
            a, b = (each[name](np.arange(size)) for each in (ours, theirs))
            found.append(Figure(name, b, None, size, change, of, (a, b)))
    return found


def _statistics(questions: Sequence[Question], kind: str) -> dict[str, Statistic]:
    """Return the areas under ROC curves, and a gate's other figures that are no means."""
    names = dict.fromkeys(name for question in questions for name in question.get("pairs", {}))
    areas = {name: area_of(questions, name) for name in names}
    found = {name: area for name, area in areas.items() if area is not None}
    return found | (gate_statistics(questions) if kind == "gate" else {})


def setting_differences(first: Result, second: Result) -> list[Row]:
    """Return the settings that differ: `setting`, a dotted path, and both values."""
    one, other = dict(_flat(first.settings)), dict(_flat(second.settings))
    return [
        {"setting": name, "first": one.get(name), "second": other.get(name)}
        for name in {**one, **other}
        if name != "made" and one.get(name) != other.get(name)
    ]


def _by_system(questions: Sequence[Question]) -> dict[str, dict[str, Question]]:
    found: dict[str, dict[str, Question]] = {}
    for question in questions:
        found.setdefault(str(question.get("system") or ""), {})[question["id"]] = question
    return found


def _flat(settings: Row, before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in plain(settings).items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
