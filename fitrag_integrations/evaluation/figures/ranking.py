"""Compare the orders of passages over many questions (FIT-RAG, Figures 7 to 10).

Each order is set beside the retriever's over the same questions, with the bootstrap's bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import Table
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.figure import Figure
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
from fitrag_integrations.evaluation.result import Plot, grouped, question_id, with_ids


@dataclass(frozen=True)
class Ranking:
    """Compute figures over questions."""

    rows: Sequence[Candidates]
    draws: Draws = Draws()

    def __post_init__(self) -> None:
        refuse_if(not self.rows, "rows", 0, "at least one question")

    @cached_property
    def orders(self) -> tuple[str, ...]:
        """Names of the orders; those by `llm_prefer` and by the sum require its scores."""
        both = all(score.llm_prefer is not None for row in self.rows for score in row.scores)
        return ORDERS if both else ORDERS[:2]

    def figures(self, ks: Sequence[int], read_ks: Sequence[int] = ()) -> list[Figure]:
        """Compute the figures of every order, with the difference to the retriever's.

        Args:
            ks: Depths of R@k and share@k.
            read_ks: Numbers of passages of `accuracy@k`, over the questions of `answered(k)`.

        Returns:
            R@k, share@k, MRR, nDCG@10, AUC (over the pairs of all questions; the retriever's score
            of a passage is its rank), the calibration error of each probability, and accuracy@k.
        """
        found = list[Figure]()
        for name, measure in measures(ks).items():
            columns = {by: list(map(measure, lists)) for by, lists in self.ranked.items()}
            found += self._compared(name, columns)
        labels = [row.has_answer for row in self.rows]
        areas = {by: Area([row.values(by) for row in self.rows], labels) for by in self.orders}
        base = areas[RETRIEVER]
        for by, own in areas.items():
            change = None
            if by != RETRIEVER and base.of_all() is not None:
                change = statistic_change(base, own, len(self.rows), self.draws)
            found.append(Figure("AUC", own.of_all(), change=change, of={"order": by}))
        for by in (by for by in (HAS_ANSWER, LLM_PREFER) if by in self.orders):
            pairs = [
                (value, label)
                for row in self.rows
                for value, label in zip(row.values(by), row.known(by), strict=False)
                if label is not None
            ]
            if pairs:
                found.append(
                    Figure("ECE", calibration_error(*zip(*pairs, strict=True)), of={"order": by})
                )
        for k in read_ks:
            if rows := self.answered(k):
                right = {
                    by: [float(bool(row.answered(by, k))) for row in rows] for by in self.orders
                }
                found += self._compared(f"accuracy@{k}", right, test=True)
        return Table(found)

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

    def answered(self, k: int) -> list[Candidates]:
        """Return the questions whose answer from the first `k` passages is known in every order."""
        return [
            row for row in self.rows if all(row.answered(by, k) is not None for by in self.orders)
        ]

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
        groups = grouped((row.set, value) for row, value in zip(self.rows, values, strict=True))
        return math.fsum(math.fsum(g) / len(g) for g in groups.values()) / len(groups)

    def _compared(
        self, name: str, columns: Mapping[str, Sequence[float]], *, test: bool = False
    ) -> Iterator[Figure]:
        """Yield the mean of each order, compared with the retriever's question by question."""
        for by, values in columns.items():
            change = None
            if by != RETRIEVER:
                change = difference(columns[RETRIEVER], values, self.draws, test=test)
            yield Figure(name, float(np.mean(values)), change=change, of={"order": by})


def measures(ks: Sequence[int]) -> dict[str, Callable[[list[int]], float]]:
    """Return the measures of a ranked list of labels by name."""
    return {
        **{f"R@{k}": partial(recall_at, k=k) for k in ks},
        **{f"share@{k}": partial(share_at, k=k) for k in ks if k > 1},
        "MRR": reciprocal_rank,
        f"nDCG@{NDCG_AT}": ndcg,
    }


def ranking_plots(ranking: Ranking, figures: Sequence[Figure]) -> tuple[Plot, ...]:
    """Build the curves of R@k (FIT-RAG, Figures 7 to 9), and bars of accuracy@k (Figure 10)."""
    curves = {by: [[k, y] for k, y in enumerate(c, 1)] for by, c in ranking.curves().items()}
    found = [Plot("R@k", "k", "share of questions with an answer in the first k", curves)]
    depths = [(f, *f.name.partition("accuracy@")) for f in figures]
    if read := grouped((f.who, [k, f.value]) for f, _, known, k in depths if known):
        found.append(Plot("right answers", "passages read", "right answers", read, kind="bar"))
    return tuple(found)


def ranking_rows(
    rows: Sequence[Row],
    ranking: Ranking,
    ks: Sequence[int],
    read_ks: Sequence[int],
) -> list[Question]:
    """Build the `per_question` rows: the measures of each order of a question's passages.

    Args:
        rows: Rows as they were read.
        ranking: Ranking of their passages.
        ks: Depths of R@k and share@k.
        read_ks: Numbers of passages of `accuracy@k`.
    """
    made: list[Row] = []
    for row, one in zip(rows, ranking.rows, strict=True):
        answers = [each for each in row.get("answers") or () if isinstance(each, str)]
        shared = {
            "id": question_id(row["question"], answers),
            "question": row["question"],
            "set": one.set,
            "answers": answers,
        }
        for by in ranking.orders:
            right = {f"accuracy@{k}": one.answered(by, k) for k in read_ks}
            values = {name: measure(one.labels(by)) for name, measure in measures(ks).items()}
            values |= {name: float(each) for name, each in right.items() if each is not None}
            pairs = [[s, h] for s, h in zip(one.values(by), one.has_answer, strict=True)]
            made.append({**shared, "system": by, "values": values, "pairs": {"AUC": pairs}})
    return with_ids(made)
