"""Combinations of sub-documents, which the eligible augmentation detector learns from (FIT-RAG,
section 4.4.2).
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
    """A combination of sub-documents (FIT-RAG, section 4.4.2): its members' scores, and its label.

    Of the questions that need retrieval, the paper combines sub-documents at random, drops similar
    combinations, keeps those on the skyline of the two scores, and labels by the answer of the
    language model. At inference the detector sees prefixes of the list sorted by score, never such
    combinations: "prefixes" are those, labeled alike, and a threshold is chosen on them.

    Args:
        kinds: How the combination was drawn.
        scores: Scores of its members.
        left: Scores of the representatives left out.
        eligible: Whether the answer from it was right.
        has_answer: Whether it contains a gold answer.
        share: Its fraction of the passages' tokens, in [0, 1].
    """

    kinds: tuple[str, ...]
    scores: tuple[BiLabelScore, ...]
    left: tuple[BiLabelScore, ...]
    eligible: bool
    has_answer: bool
    share: float


def drawn(count: int, *, draws: int, overlap: float, chance: random.Random) -> list[Places]:
    """Draw combinations of `count` members at random, each sorted, without similar ones.

    A draw that overlaps an earlier one by more than `overlap` is dropped. The paper gives no number
    of draws and no measure of overlap: here a draw takes a size at random and then as many
    representatives, the best window of each passage, as inference does, and the overlap is the
    fraction of members that two combinations share (Jaccard).

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

    Args:
        rows: Rows. Those with an error, questions known without retrieval, and combinations without
            an answer are skipped.

    Raises:
        InputError: If a field is invalid, which it names, or if no row is left.
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
        raise InputError.of(
            place,
            given=given,
            allowed=f"kinds, scores, left, eligible, has_answer and share ({error})",
        ) from None
