"""Combinations of sub-documents for the eligible augmentation detector (FIT-RAG, section 4.4.2).

The paper: of the questions that need retrieval, combine sub-documents at random, drop combinations
with high overlap, score each with the bi-label scorer, keep those on the skyline of the two scores,
and label by the answer of the language model. It gives no number of draws and no measure of
overlap. Here a draw takes a size at random and then as many representatives, the best window of
each passage, as inference does; the overlap of two combinations is the fraction of their members
that they share (Jaccard), and the later one is dropped.

At inference the detector sees prefixes of the list sorted by score, never such combinations.
"prefixes" are those, labelled alike, and what a threshold has to be chosen on.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.types import BiLabelScore

KINDS = ("random", "prefixes")
BOTH = "both"
Places = tuple[int, ...]  # members, by their place in the sorted list of representatives


@dataclass(frozen=True, slots=True)
class Combination:
    """A combination: the scores of its members, best first, and its label.

    `left` are the scores of the representatives left out, and `kinds` how the combination was
    drawn. `eligible` is whether the answer from it was right, `has_answer` whether it contains a
    gold answer, and `share` its fraction of the passages' tokens, in [0, 1].
    """

    kinds: tuple[str, ...]
    scores: tuple[BiLabelScore, ...]
    left: tuple[BiLabelScore, ...]
    eligible: bool
    has_answer: bool
    share: float


def drawn(count: int, *, draws: int, overlap: float, chance: random.Random) -> list[Places]:
    """Draw combinations of `count` members at random, each sorted, without similar ones.

    A draw that overlaps an earlier one by more than `overlap` is dropped.

    Args:
        count: Number of members to draw from.
        draws: Number of draws.
        overlap: Maximum Jaccard overlap of two combinations, in [0, 1].
        chance: Source of randomness.
    """
    kept: list[set[int]] = []
    for _ in range(draws):
        places = set(chance.sample(range(count), chance.randint(1, count)))
        alike = (len(places & other) / len(places | other) for other in kept)
        if places not in kept and all(share <= overlap for share in alike):
            kept.append(places)
    return [tuple(sorted(places)) for places in kept]


def skyline(scores: Sequence[tuple[float, float]]) -> list[int]:
    """Return the places of the pairs that no other pair exceeds (Pareto front), in order.

    A pair exceeds another if it is at least as good in both numbers and better in one.
    """
    return [
        i
        for i, (x, y) in enumerate(scores)
        if not any(a >= x and b >= y and (a > x or b > y) for a, b in scores)
    ]


def prefixes(count: int) -> list[Places]:
    """Return all prefixes of a list, shortest first."""
    return [tuple(range(length)) for length in range(1, count + 1)]


def eligibility_rows(rows: Iterable[Mapping[str, object]]) -> list[list[Combination]]:
    """Read the combinations of each question from rows of `fitrag label eligibility`.

    Rows with an error, questions known without retrieval, and combinations without an answer are
    skipped. Raises `InputError` naming an invalid field, or if no row is left.
    """
    found, count = [], 0
    for i, row in enumerate(rows):
        if row.get("error") is not None:
            continue
        count += 1
        given: Any = row.get("combinations")
        refuse_if(not isinstance(given, list), f"rows[{i}].combinations", given, "a list")
        own = [one for one in given if isinstance(one, dict) and one.get("eligible") is not None]
        if own:
            found.append([_judged(f"rows[{i}].combinations", one) for one in own])
    refuse_if(not found, "rows", count, "rows of `fitrag label eligibility` with combinations")
    return found


def _judged(place: str, given: dict[str, Any]) -> Combination:
    try:
        scores, left = (
            tuple(BiLabelScore(has, prefer) for has, prefer in given[name])
            for name in ("scores", "left")
        )
        labels = bool(given["eligible"]), bool(given["has_answer"]), float(given["share"])
        return Combination(tuple(given["kinds"]), scores, left, *labels)
    except (KeyError, TypeError, ValueError) as error:
        allowed = f"kinds, scores, left, eligible, has_answer and share ({error})"
        raise InputError.of(place, given=given, allowed=allowed) from None
