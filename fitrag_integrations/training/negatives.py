"""Find hard negatives: passages that BM25 ranks high for a question and that hold no answer.

BM25 and its stemmer come from `bm25s` and `PyStemmer` (extra `train`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.training.rows import ReadingRow
from fitrag_integrations.types import Passage


def mine_negatives(
    rows: Sequence[ReadingRow], pool: Sequence[Passage], *, depth: int = 40, keep: int = 8
) -> list[ReadingRow]:
    """Add to each row the best passages of a pool that contain no answer.

    A row's own negatives come first. Passages whose title or text contains an answer as whole
    tokens are left out, because they may be positives.

    Args:
        rows: Reading rows.
        pool: Passages to search by BM25.
        depth: Passages to retrieve per question.
        keep: Negatives to add per question.
    """
    found = searching(pool, depth=depth)([row.question for row in rows])
    mined = []
    for row, ranked in zip(rows, found, strict=True):
        wrong = (p for p in ranked if not contains_answer(f"{p.title} {p.text}", row.answers))
        mined.append(replace(row, negatives=(*row.negatives, *islice(wrong, keep))))
    return mined


def searching(
    pool: Sequence[Passage], *, depth: int
) -> Callable[[Sequence[str]], list[list[Passage]]]:
    """Index a pool once and return the function that ranks it for questions, best first.

    Args:
        pool: Passages to search by BM25 (k1 0.9, b 0.4).
        depth: Maximum number of passages per question.
    """
    bm25s = require_extra("bm25s", extra="train", feature="mining negatives")
    stemmer = require_extra("Stemmer", extra="train", feature="mining negatives").Stemmer("english")

    def words(texts: Sequence[str]) -> Any:
        return bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25(k1=0.9, b=0.4)
    index.index(words([f"{passage.title} {passage.text}" for passage in pool]), show_progress=False)

    def search(questions: Sequence[str]) -> list[list[Passage]]:
        asked, most = words(questions), min(depth, len(pool))
        found, _ = index.retrieve(asked, k=most, show_progress=False)
        return [[pool[int(i)] for i in ids] for ids in found]

    return search
