"""How well a span head stands in for reading every window: figures on held-out questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from torch import Tensor

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.training.one_pass.rows import Spans


def figures(logits: Sequence[Tensor], rows: Sequence[Spans]) -> dict[str, float]:
    """Compare the head's windows with the teacher's.

    Rank correlation (Spearman) of a question's windows; how often the best window of a passage is
    the teacher's, of passages with several; and, of questions where some window holds the answer,
    how often the best windows still do, by either, and how many words they have together.
    """
    head = [each.sigmoid().sum(1) for each in logits]
    teacher = [each.teacher.sigmoid().sum(1) for each in rows]
    same = [
        float(mine.argmax() == theirs.argmax())
        for one, other, row in zip(head, teacher, rows, strict=True)
        for mine, theirs in zip(_passages(one, row), _passages(other, row), strict=True)
        if len(mine) > 1
    ]
    found = {
        "rank correlation": fmean([*_correlations(head, teacher, rows)] or [math.nan]),
        "same best window": fmean(same or [math.nan]),
    }
    for name, scores in (("one-pass", head), ("windows", teacher)):
        kept, words = _kept(scores, rows)
        found |= {f"answer kept by {name}": kept, f"words kept by {name}": words}
    return {name: round(value, 4) for name, value in found.items()}


def _correlations(
    head: Sequence[Tensor], teacher: Sequence[Tensor], rows: Sequence[Spans]
) -> Iterator[float]:
    stats = require_extra("scipy.stats", extra="train", feature="the figures of a one-pass scorer")
    for one, other, row in zip(head, teacher, rows, strict=True):
        both = one[row.cut].tolist(), other[row.cut].tolist()
        if all(len(set(each)) > 1 for each in both):  # of equals there is no order
            yield float(stats.spearmanr(*both).statistic)


def _passages(values: Tensor, row: Spans) -> list[Tensor]:
    """Split what is known of a question's windows by passage; other spans are left out."""
    return [values[row.cut & (row.passage == i)] for i in row.passage.unique()]


def _kept(scores: Sequence[Tensor], rows: Sequence[Spans]) -> tuple[float, float]:
    """Return the rate of answers kept and the mean number of words, the best of each passage
    kept.
    """
    kept, words = list[float](), list[float]()
    for score, row in zip(scores, rows, strict=True):
        if (row.gold[row.cut] == 1).any():
            parts = [_passages(each, row) for each in (score, row.gold, row.words)]
            best = [int(own.argmax()) for own in parts[0]]
            kept.append(max(float(gold[i]) for i, gold in zip(best, parts[1], strict=True)))
            words.append(sum(float(count[i]) for i, count in zip(best, parts[2], strict=True)))
    return (fmean(kept), fmean(words)) if kept else (math.nan, math.nan)
