"""Collect the two labels of FIT-RAG's scorer (section 4.2.1) for the passages of a question.

`has_answer`: a gold answer stands in title and text as whole tokens. `llm_prefer`: whoever reads
the passage (here, an extractive reader) then answers correctly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fitrag_integrations.evaluation.answers import contains_answer, exact_match
from fitrag_integrations.ports import Reader
from fitrag_integrations.training.mining import candidates
from fitrag_integrations.training.rows import Labelled
from fitrag_integrations.types import Passage


def is_correct(answer: str, gold: Sequence[str]) -> bool:
    """Say whether an answer holds or equals a gold answer, articles left out."""
    return contains_answer(answer, gold) or exact_match(answer, gold)


def label_passages(
    questions: Sequence[tuple[str, Sequence[str]]],
    pool: Sequence[Passage],
    reader: Reader,
    *,
    depth: int = 20,
    at_once: int = 32,
) -> Iterator[Labelled]:
    """Label the BM25 top `depth` of a pool for each (question, gold answers), in order.

    `at_once` questions share a batch of the reader.
    """
    found = candidates([question for question, _ in questions], pool, depth=depth)
    for at in range(0, len(questions), at_once):
        asked, lists = questions[at : at + at_once], found[at : at + at_once]
        pairs = [(q, p) for (q, _), passages in zip(asked, lists, strict=True) for p in passages]
        answers = iter(reader.read(pairs))
        for (question, gold), passages in zip(asked, lists, strict=True):
            texts = [f"{passage.title} {passage.text}" for passage in passages]
            mine = [next(answers) for _ in passages]
            yield Labelled(
                question,
                tuple(passages),
                tuple(int(contains_answer(text, gold)) for text in texts),
                tuple(int(is_correct(answer.text, gold)) for answer in mine),
                tuple(round(answer.score, 6) for answer in mine),
            )


def fit_abstention(rows: Sequence[Labelled]) -> tuple[float, float]:
    """Choose the score under which a reader had better not answer. Gives it and its accuracy.

    The reader answers each question from the passage it scores highest. Right is a correct answer
    at or above the threshold, and none below it where no passage holds the answer.
    """
    best = [max(zip(row.reader_scores, row.llm_prefer, strict=True)) for row in rows]
    empty = [not any(row.has_answer) for row in rows]
    grid = [i / 100 for i in range(100)]
    accuracy = {
        t: sum(
            right if score >= t else none for (score, right), none in zip(best, empty, strict=True)
        )
        / len(rows)
        for t in grid
    }
    chosen = max(grid, key=accuracy.__getitem__)
    return chosen, accuracy[chosen]
