"""Turn the orders of each question's passages into the parts of a `Result`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.figures.answers import with_ids
from fitrag_integrations.evaluation.figures.ranking import Figure, Ranking
from fitrag_integrations.evaluation.figures.summaries import Question
from fitrag_integrations.evaluation.questions import question_id
from fitrag_integrations.evaluation.ranking import (
    NDCG_AT,
    Candidates,
    ndcg,
    recall_at,
    reciprocal_rank,
    share_at,
)
from fitrag_integrations.evaluation.result import Plot


def ranking_rows(
    rows: Sequence[Row],
    ranking: Ranking,
    ks: Sequence[int],
    read_ks: Sequence[int],
) -> list[Question]:
    """Give the `per_question` rows: what each order of a question's passages is worth."""
    made = []
    for row, one in zip(rows, ranking.rows, strict=True):
        answers = [each for each in row.get("answers") or () if isinstance(each, str)]
        told = {
            "id": question_id(row["question"], answers),
            "question": row["question"],
            "set": one.set,
            "answers": answers,
        }
        made += [{**told, "system": by, **_order(one, by, ks, read_ks)} for by in ranking.orders]
    return with_ids(made)


def ranking_figures(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Give the figures as rows of a `Result`, where `low` and `high` bound a value."""
    rows = []
    for figure in figures:
        told = figure.to_dict()
        ends = {"difference_low": told.pop("low"), "difference_high": told.pop("high")}
        rows.append({**told, **ends})
    return rows


def ranking_plots(ranking: Ranking) -> tuple[Plot, ...]:
    """Draw R@k over k for each order (FIT-RAG, Figures 7 to 9)."""
    series = {
        name: [[k, value] for k, value in enumerate(curve, start=1)]
        for name, curve in ranking.curves().items()
    }
    return (Plot("R@k", "k", "share of questions with an answer in the first k", series),)


def _order(one: Candidates, by: str, ks: Sequence[int], read_ks: Sequence[int]) -> dict[str, Any]:
    labels, answered = one.labels(by), {k: one.answered(by, k) for k in read_ks}
    values = {
        **{f"R@{k}": recall_at(labels, k) for k in ks},
        **{f"share@{k}": share_at(labels, k) for k in ks if k > 1},
        "MRR": reciprocal_rank(labels),
        f"nDCG@{NDCG_AT}": ndcg(labels),
        **{f"accuracy@{k}": float(right) for k, right in answered.items() if right is not None},
    }
    pairs = [[s, h] for s, h in zip(one.values(by), one.has_answer, strict=True)]
    return {"values": values, "pairs": {"AUC": pairs}}
