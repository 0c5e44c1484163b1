"""Choose the probability at which the sub-document filter stops adding (FIT-RAG, section 4.4.2).

The paper's detector says yes or no. A calibrated probability can be cut where the answers that
stopping loses are still few enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Protocol, TypeVar

from fitrag_integrations.errors import InputError


class Judged(Protocol):
    """A list of excerpts, and what came of it: see `training.eligibility.rows`."""

    @property
    def kinds(self) -> Sequence[str]: ...
    @property
    def scores(self) -> Sequence[object]: ...
    @property
    def eligible(self) -> bool: ...
    @property
    def has_answer(self) -> bool: ...
    @property
    def share(self) -> float: ...


One = TypeVar("One", bound=Judged, covariant=True)


class Combinations(Protocol[One]):
    """A question's lists of excerpts."""

    @property
    def combinations(self) -> Sequence[One]: ...


def choose_stop(
    rows: Sequence[Combinations[Judged]],
    chances: Sequence[Sequence[float]],
    *,
    keep: float,
    max_share: float | None = None,
) -> dict[str, float]:
    """Choose the lowest probability at which to stop, over the prefixes of held-out questions.

    Stopping there must leave at least `keep` of the answers that the longest prefix within
    `max_share` holds, and an accuracy of at least `keep` times that one's. Gives the threshold, and
    what stopping there leaves; 1.0 where no lower one is good enough. `chances` go with each row's
    combinations.
    """
    lists = [_prefixes(row, own, max_share) for row, own in zip(rows, chances, strict=True)]
    lists = [one for one in lists if one]
    if not lists:
        allowed = "rows with prefixes: label them with --combinations prefixes or both"
        raise InputError.of("rows", given=len(rows), allowed=allowed)
    held = fmean(one[-1][1].has_answer for one in lists)
    right = fmean(one[-1][1].eligible for one in lists)
    for threshold in [i / 1000 for i in range(1, 1000)]:
        stops = [_stop(one, threshold) for one in lists]
        answers = fmean(stop.has_answer for stop in stops)
        accuracy = fmean(stop.eligible for stop in stops)
        if answers >= keep * held and accuracy >= keep * right:
            break
    else:
        threshold, stops = 1.0, [one[-1][1] for one in lists]
    return {
        "threshold": threshold,
        "share_kept": fmean(stop.share for stop in stops),
        "answers_kept": fmean(stop.has_answer for stop in stops) / held if held else 1.0,
        "accuracy": fmean(stop.eligible for stop in stops),
        "accuracy_of_all": right,
    }


def _prefixes(
    row: Combinations[Judged], chances: Sequence[float], max_share: float | None
) -> list[tuple[float, Judged]]:
    """Give the prefixes inference may stop at, with their probabilities, shortest first."""
    pairs = zip(chances, row.combinations, strict=True)
    own = sorted((p for p in pairs if "prefixes" in p[1].kinds), key=lambda p: len(p[1].scores))
    return [p for i, p in enumerate(own) if not i or max_share is None or p[1].share <= max_share]


def _stop(prefixes: Sequence[tuple[float, Judged]], threshold: float) -> Judged:
    return next((one for chance, one in prefixes if chance >= threshold), prefixes[-1][1])
