"""Fuse ranked lists by reciprocal rank (Cormack et al., 2009, SIGIR, "Reciprocal Rank Fusion")."""

from __future__ import annotations

from collections.abc import Sequence

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import apart, same_text, usable, with_text

RRF_K = 60  # the paper's


def fuse(
    rankings: Sequence[Sequence[Passage]], *, rrf_k: float = RRF_K, deduplicate: bool = True
) -> list[Excerpt]:
    """Fuse lists of passages, each best first, into one of whole excerpts, best first.

    A passage scores the sum of `1 / (rrf_k + rank)` over the lists it is in, ranks from 1. Equal
    texts, but for blanks, are the same passage (without ``deduplicate`` only where titles and texts
    are equal): the first one met is kept, and counts once in each list, at its best rank.
    Blank passages hold a rank and are left out. Equals keep the order of their best rank, then that
    of the lists.
    """
    smoothing = check_number("rrf_k", rrf_k, low=0.0)
    scores: dict[tuple[str, str], float] = {}
    first: dict[tuple[str, str], tuple[int, int, Passage]] = {}
    for place, ranking in enumerate(rankings):
        for key, (rank, passage) in _ranked(ranking, deduplicate).items():
            scores[key] = scores.get(key, 0.0) + 1.0 / (smoothing + rank)
            _, _, kept = first.get(key, (0, 0, passage))
            best = min(first.get(key, (rank, place))[:2], (rank, place))
            first[key] = (*best, kept)
    order = sorted(scores, key=lambda key: (-scores[key], first[key][:2]))
    return [Excerpt.whole(first[key][2], score=scores[key]) for key in order]


def usable_fused(
    rankings: Sequence[Sequence[Passage]],
    *,
    rrf_k: float = RRF_K,
    deduplicate: bool = True,
    selection: Selection | None = None,
) -> tuple[list[Excerpt], tuple[str, ...]]:
    """Fuse lists, and note how many blank passages were left out, or that nothing is left.

    Chunks of one source that overlap are trimmed to what a better one does not show;
    ``selection`` records what is dropped.
    """
    selection = Selection() if selection is None else selection
    every = [passage for ranking in rankings for passage in ranking]
    usable(every, deduplicate=deduplicate, selection=selection)
    fused = fuse(rankings, rrf_k=rrf_k, deduplicate=deduplicate)
    if deduplicate:
        fused = apart(fused, selection=selection)
    count = sum(map(len, rankings))
    blank = count - sum(len(with_text(ranking)) for ranking in rankings)
    notes = [f"{blank} of {count} passages left out: no text"] if blank else []
    if not fused:
        notes.append("nothing to refer to: no passage with text was retrieved")
    return fused, tuple(notes)


def _ranked(
    ranking: Sequence[Passage], deduplicate: bool
) -> dict[tuple[str, str], tuple[int, Passage]]:
    """Return the best rank of each passage with text."""
    readable = set(map(id, with_text(ranking)))
    ranks: dict[tuple[str, str], tuple[int, Passage]] = {}
    for rank, passage in enumerate(ranking, start=1):
        if id(passage) in readable:
            key = ("", same_text(passage.text)) if deduplicate else (passage.title, passage.text)
            ranks.setdefault(key, (rank, passage))
    return ranks
