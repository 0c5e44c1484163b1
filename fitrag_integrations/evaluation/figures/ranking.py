"""Compare the orders of passages over many questions (FIT-RAG, Figures 7 to 10).

Each order is set beside the retriever's over the same questions, with the bootstrap's bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import Table
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.figures.figure import Change, Figure
from fitrag_integrations.evaluation.figures.summaries import (
    Draws,
    Question,
    difference,
    statistic_change,
)
from fitrag_integrations.evaluation.outcomes import calibration_error
from fitrag_integrations.evaluation.ranking import (
    HAS_ANSWER,
    LLM_PREFER,
    NDCG_AT,
    ORDERS,
    RETRIEVER,
    Area,
    Candidates,
    ndcg,
    recall_at,
    reciprocal_rank,
    share_at,
)
from fitrag_integrations.evaluation.result import Plot, question_id, with_ids


@dataclass(frozen=True)
class Ranking:
    """Compute figures over questions."""

    rows: Sequence[Candidates]
    draws: Draws = Draws()

    def __post_init__(self) -> None:
        if not self.rows:
            raise InputError.of("rows", given=0, allowed="at least one question")

    @cached_property
    def orders(self) -> tuple[str, ...]:
        """Names of the orders; those by `llm_prefer` and by the sum require its scores."""
        both = all(score.llm_prefer is not None for row in self.rows for score in row.scores)
        return ORDERS if both else ORDERS[:2]

    def figures(self, ks: Sequence[int], read_ks: Sequence[int] = ()) -> list[Figure]:
        """Compute R@k, share@k, MRR, nDCG@10, AUC, calibration error, and accuracy at `read_ks`."""
        return Table(
            [
                *(figure for k in ks for figure in self.means(f"R@{k}", _recall(k))),
                *(figure for k in ks if k > 1 for figure in self.means(f"share@{k}", _share(k))),
                *self.means("MRR", reciprocal_rank),
                *self.means(f"nDCG@{NDCG_AT}", ndcg),
                *self.areas(),
                *self.calibration(),
                *(figure for k in read_ks for figure in self.accuracies(k)),
            ]
        )

    @cached_property
    def ranked(self) -> dict[str, list[list[int]]]:
        """Labels of `has_answer` of each question, in every order."""
        return {by: [row.labels(by) for row in self.rows] for by in self.orders}

    @property
    def depth(self) -> int:
        """Largest number of passages of a question."""
        return max(len(row.has_answer) for row in self.rows)

    def curves(self) -> dict[str, list[float]]:
        """Return R@1, R@2 and so on up to the depth, for every order."""
        return {
            by: [
                float(np.mean([recall_at(labels, k) for labels in lists]))
                for k in range(1, self.depth + 1)
            ]
            for by, lists in self.ranked.items()
        }

    def means(self, name: str, figure: Callable[[list[int]], float]) -> list[Figure]:
        """Average a figure of the ranked labels in every order."""
        columns = {by: list(map(figure, lists)) for by, lists in self.ranked.items()}
        return self._paired(name, columns)

    def answered(self, k: int) -> list[Candidates]:
        """Return the questions whose answer from the first `k` passages is known in every order."""
        known = (all(row.answered(by, k) is not None for by in self.orders) for row in self.rows)
        return [row for row, is_known in zip(self.rows, known, strict=True) if is_known]

    def accuracies(self, k: int) -> list[Figure]:
        """Compute how often the first `k` passages lead to a right answer, over `answered(k)`."""
        rows = self.answered(k)
        if not rows:
            return []
        columns = {by: [float(bool(row.answered(by, k))) for row in rows] for by in self.orders}
        return self._paired(f"accuracy@{k}", columns, test=True)

    def areas(self) -> list[Figure]:
        """Compute the area under the ROC curve of the scores against `has_answer`.

        Over the pairs of all questions; the retriever's score of a passage is its rank.
        """
        labels = [row.has_answer for row in self.rows]
        area = {by: Area([row.values(by) for row in self.rows], labels) for by in self.orders}
        base = area[RETRIEVER]
        found = []
        for by, own in area.items():
            change = None
            if by != RETRIEVER and base.of_all() is not None:
                change = statistic_change(base, own, len(self.rows), self.draws)
            found.append(_figure(by, "AUC", own.of_all(), change))
        return found

    def calibration(self) -> list[Figure]:
        """Compute the calibration error of each probability; the sum is not one."""
        found = []
        for by in (HAS_ANSWER, LLM_PREFER):
            if by in self.orders and (pairs := list(self._judged(by))):
                scores, labels = zip(*pairs, strict=True)
                found.append(_figure(by, "ECE", calibration_error(scores, labels)))
        return found

    def _judged(self, by: str) -> Iterator[tuple[float, int]]:
        """Yield each probability with its label, where the label is known."""
        for row in self.rows:
            values, labels = (
                row.values(by),
                (row.has_answer if by == HAS_ANSWER else row.llm_prefer) or (),
            )
            pairs = zip(values, labels, strict=False)
            yield from ((value, label) for value, label in pairs if label is not None)

    def gap_closed(self) -> dict[str, float | None]:
        """Return the fraction of the possible gain in MRR that each order achieves.

        `(own - retriever's) / (ceiling - retriever's)`, averaged over the sets; the ceiling is the
        fraction of questions with an answer among their passages. None if no gain is possible.
        """
        ceiling = self._over_sets([float(any(row.has_answer)) for row in self.rows])
        rank = {
            by: self._over_sets(list(map(reciprocal_rank, self.ranked[by]))) for by in self.orders
        }
        base = rank.pop(RETRIEVER)
        room = ceiling - base
        return {by: (own - base) / room if room > 1e-9 else None for by, own in rank.items()}

    def _over_sets(self, values: Sequence[float]) -> float:
        groups: dict[str, list[float]] = {}
        for row, value in zip(self.rows, values, strict=True):
            groups.setdefault(row.set, []).append(value)
        return math.fsum(math.fsum(g) / len(g) for g in groups.values()) / len(groups)

    def _paired(
        self, name: str, columns: Mapping[str, Sequence[float]], *, test: bool = False
    ) -> list[Figure]:
        """Compare each order's values with the retriever's, question by question."""
        found = []
        for by, values in columns.items():
            change = None
            if by != RETRIEVER:
                change = difference(columns[RETRIEVER], values, self.draws, test=test)
            found.append(_figure(by, name, float(np.mean(values)), change))
        return found


def _figure(by: str, name: str, value: float | None, change: Change | None = None) -> Figure:
    return Figure(name, value, change=change, of={"order": by})


def _recall(k: int) -> Callable[[list[int]], float]:
    return lambda labels: recall_at(labels, k)


def _share(k: int) -> Callable[[list[int]], float]:
    return lambda labels: share_at(labels, k)


def ranking_rows(
    rows: Sequence[Row],
    ranking: Ranking,
    ks: Sequence[int],
    read_ks: Sequence[int],
) -> list[Question]:
    """Build the `per_question` rows: the measures of each order of a question's passages."""
    made: list[Row] = []
    for row, one in zip(rows, ranking.rows, strict=True):
        answers = [each for each in row.get("answers") or () if isinstance(each, str)]
        shared = {
            "id": question_id(row["question"], answers),
            "question": row["question"],
            "set": one.set,
            "answers": answers,
        }
        made += [{**shared, "system": by, **_order(one, by, ks, read_ks)} for by in ranking.orders]
    return with_ids(made)


def ranking_figures(figures: Sequence[Figure]) -> list[Row]:
    """Return the figures as rows of a `Result`, all with the fields of a change."""
    bare = dict.fromkeys(("difference", "difference_low", "difference_high", "p"))
    return [{**bare, **figure.to_dict()} for figure in figures]


def ranking_plots(ranking: Ranking) -> tuple[Plot, ...]:
    """Build the plot of R@k over k for each order (FIT-RAG, Figures 7 to 9)."""
    series = {
        name: [[k, value] for k, value in enumerate(curve, start=1)]
        for name, curve in ranking.curves().items()
    }
    return (Plot("R@k", "k", "share of questions with an answer in the first k", series),)


def _order(one: Candidates, by: str, ks: Sequence[int], read_ks: Sequence[int]) -> Row:
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
