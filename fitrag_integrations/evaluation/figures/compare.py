"""Set two results over the same questions side by side, whenever they were measured.

Questions are paired by their content. A figure that is a mean, or an area under the ROC curve, is
computed again over the pairs, so that the bootstrap draws the same questions for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitrag_integrations.core.record import Row, plain
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.decisions import gate_statistics
from fitrag_integrations.evaluation.figures.figure import Figure
from fitrag_integrations.evaluation.figures.summaries import (
    Draws,
    Question,
    Statistic,
    area_of,
    difference,
    statistic_change,
)
from fitrag_integrations.evaluation.result import Result

IGNORED = ("made",)  # settings that always differ


@dataclass(frozen=True, slots=True)
class Pairs:
    """Paired questions of two results by system, and notes about questions without a partner."""

    kind: str
    systems: dict[str, tuple[list[Question], list[Question]]]
    notes: tuple[str, ...] = ()


def paired(first: Result, second: Result, *, common: bool = False) -> Pairs:
    """Find each question's partner by its `id`, system by system.

    Where both hold one system only, its name does not matter. Raises `InputError` for results of
    different kinds, and, unless `common`, where one holds a question that the other does not.
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
        found[system], lost = _matched(one[system], other[system], common=common)
        notes += lost
    return Pairs(first.kind, found, tuple(dict.fromkeys(notes)))


def compared(pairs: Pairs, draws: Draws) -> list[Figure]:
    """Compute each figure of both results, with the difference and McNemar's p.

    A question without a value, such as an undecided one, is left out of that figure only.
    """
    found = []
    for system, (first, second) in pairs.systems.items():
        one, other = _areas(first), _areas(second)
        if pairs.kind == "gate":
            one, other = one | gate_statistics(first), other | gate_statistics(second)
        figures = [*_means(first, second, draws), *_statistics(one, other, len(first), draws)]
        found += [replace(figure, of={"system": system} if system else {}) for figure in figures]
    return found


def setting_differences(first: Result, second: Result) -> list[Row]:
    """Return the settings that differ: `setting`, a dotted path, and both values."""
    one, other = dict(_flat(first.settings)), dict(_flat(second.settings))
    names = [name for name in {**one, **other} if name not in IGNORED]
    return [
        {"setting": name, "first": one.get(name), "second": other.get(name)}
        for name in names
        if one.get(name) != other.get(name)
    ]


def _by_system(questions: Sequence[Question]) -> dict[str, dict[str, Question]]:
    found: dict[str, dict[str, Question]] = {}
    for question in questions:
        found.setdefault(str(question.get("system") or ""), {})[question["id"]] = question
    return found


def _matched(
    one: Mapping[str, Question], other: Mapping[str, Question], *, common: bool
) -> tuple[tuple[list[Question], list[Question]], list[str]]:
    shared = [each for each in one if each in other]
    lost = len(one) - len(shared), len(other) - len(shared)
    if (any(lost) and not common) or not shared:
        given = f"{lost[0]} questions that only the first holds, {lost[1]} only the second"
        allowed = "the same questions" if shared else "questions in common, and there are none"
        extra = ", or --common for those in both" if shared else ""
        raise InputError.of("per_question", given=given, allowed=f"{allowed}{extra}")
    counts = (
        f"{len(shared)} questions are in both; {lost[0]} of the first and {lost[1]} of the second"
    )
    notes = [f"{counts} are left out"] if any(lost) else []
    return ([one[each] for each in shared], [other[each] for each in shared]), notes


def _means(first: list[Question], second: list[Question], draws: Draws) -> Iterator[Figure]:
    for name in dict.fromkeys(name for q in first for name in q["values"]):
        values = [
            (float(a["values"][name]), float(b["values"][name]))
            for a, b in zip(first, second, strict=True)
            if a["values"].get(name) is not None and b["values"].get(name) is not None
        ]
        if values:
            one, other = (list(each) for each in zip(*values, strict=True))
            change = difference(one, other, draws, name=name)
            ends = float(np.mean(one)), float(np.mean(other))
            yield Figure(name, ends[1], questions=len(values), change=change, ends=ends)


def _areas(questions: Sequence[Question]) -> dict[str, Statistic]:
    names = dict.fromkeys(name for q in questions for name in q.get("pairs", {}))
    found = {name: area_of(questions, name) for name in names}
    return {name: area for name, area in found.items() if area is not None}


def _statistics(
    one: Mapping[str, Statistic], other: Mapping[str, Statistic], rows: int, draws: Draws
) -> Iterator[Figure]:
    places = np.arange(rows)
    for name in (name for name in one if name in other):
        change = statistic_change(one[name], other[name], rows, draws)
        ends = one[name](places), other[name](places)
        yield Figure(name, ends[1], questions=rows, change=change, ends=ends)


def _flat(settings: Row, before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in plain(settings).items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
