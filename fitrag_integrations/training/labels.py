"""Collect the two labels of FIT-RAG's scorer (section 4.2.1) for the passages of a question.

`has_answer`: a gold answer stands in title and text as whole tokens. `llm_prefer`: whoever reads
the passage (here, an extractive reader) then answers correctly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer, exact_match
from fitrag_integrations.ports import AnswerLike, Reader
from fitrag_integrations.training.mining import candidates
from fitrag_integrations.training.rows import Labelled, ReadingRow
from fitrag_integrations.types import Passage


def is_correct(answer: str, gold: Sequence[str]) -> bool:
    """Say whether an answer holds or equals a gold answer, articles left out."""
    return contains_answer(answer, gold) or exact_match(answer, gold)


def label_passages(
    rows: Sequence[ReadingRow],
    pool: Sequence[Passage],
    reader: Reader,
    *,
    depth: int = 20,
    at_once: int = 32,
) -> Iterator[Labelled]:
    """Label the BM25 top `depth` of a pool for each row's question, in order.

    A row's own passage holds its answer, whatever the wording. A row without answers says no more
    than that: who reads a passage rightly is then not known, and its `llm_prefer` is None.
    `at_once` questions share a batch of the reader.
    """
    found = candidates([row.question for row in rows], pool, depth=depth)
    for at in range(0, len(rows), at_once):
        asked = list(zip(rows[at : at + at_once], found[at : at + at_once], strict=True))
        pairs = [(row.question, p) for row, passages in asked for p in passages]
        answers = iter(reader.read(pairs))
        for row, passages in asked:
            yield _labelled(row, passages, [next(answers) for _ in passages])


def _labelled(
    row: ReadingRow, passages: Sequence[Passage], answers: Sequence[AnswerLike]
) -> Labelled:
    return Labelled(
        row.question,
        tuple(passages),
        tuple(
            int(p.text == row.passage.text or contains_answer(f"{p.title} {p.text}", row.answers))
            for p in passages
        ),
        tuple(int(is_correct(a.text, row.answers)) if row.answers else None for a in answers),
        tuple(round(answer.score, 6) for answer in answers),
    )


def fit_abstention(rows: Sequence[Labelled], *, depth: int = 5) -> tuple[float, float]:
    """Choose the score under which a reader had better not answer. Gives it and its accuracy.

    The reader answers each question from that of its first `depth` passages which it scores
    highest: the more it reads, the higher the best score by chance, so let `depth` be what it will
    be given. Right is a correct answer at or above the threshold, and none below it where no such
    passage holds the answer.
    """
    known = [row for row in rows if row.reader_scores and None not in row.llm_prefer]
    if not known:
        raise InputError.of("rows", given=len(rows), allowed="rows with reader_score, llm_prefer")
    best = [
        max(zip(row.reader_scores[:depth], row.llm_prefer[:depth], strict=True)) for row in known
    ]
    empty = [not any(row.has_answer[:depth]) for row in known]
    grid = [i / 100 for i in range(100)]
    accuracy = {
        t: sum(
            bool(right) if score >= t else none
            for (score, right), none in zip(best, empty, strict=True)
        )
        / len(known)
        for t in grid
    }
    chosen = max(grid, key=accuracy.__getitem__)
    return chosen, accuracy[chosen]
