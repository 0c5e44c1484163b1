"""Questions over one Wikipedia: KILT's tasks, DPR's training rows, and biographies of FActScore.

Petroni et al. (2021), Karpukhin et al. (2020) and Min et al. (2023), the last as Self-RAG and CRAG
have it. The passages of KILT's and DPR's Wikipedias are read by `retrieval.read_corpus`.
"""

from __future__ import annotations

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.loaders._fields import (
    Row,
    passage,
    question_row,
    readable,
    records,
    text,
    texts,
)

CONTEXTS = ("positive_ctxs", "hard_negative_ctxs", "negative_ctxs")


def kilt(row: Row) -> Row:
    """Read a task of KILT: `output[{answer, provenance[{title, ...}]}]`.

    The titles of the pages that hold the answer are `title`, by which an evaluator is labelled.
    Verdicts of FEVER are answers; a row of the test set, which has none, is refused.
    """
    told = records("output", row.get("output"))
    answers = [each["answer"] for each in told if each.get("answer")]
    if not answers:
        raise InputError.of(
            "output", given=told, allowed="at least one answer, as dev and train have"
        )
    pages = [page for each in told for page in records("provenance", each.get("provenance") or [])]
    titles = list(dict.fromkeys(str(page["title"]) for page in pages if page.get("title")))
    return question_row(row, text(row, "input"), texts("output.answer", answers), title=titles)


def dpr(row: Row) -> Row:
    """Read a row that a bi-encoder is trained on: gold passages first, then those that are not.

    A passage says in `is_supporting` whether it is a gold one.
    """
    found = [
        passage(each.get("title"), each.get("text"), is_supporting=name == CONTEXTS[0])
        for name in CONTEXTS
        for each in records(name, row.get(name) or [])
    ]
    answers = texts("answers", row.get("answers"))
    return question_row(row, text(row, "question"), answers, passages=readable(found))


def biography(row: Row) -> Row:
    """Read FActScore's `topic`, and what Self-RAG adds: `input`, `ctxs`, `output` (the text).

    There are no gold answers: `fitrag evaluate facts` has each fact of the text judged.
    """
    topic = text(row, "topic")
    asked = row.get("input") or f"Tell me a bio of {topic}."
    found = [
        passage(each.get("title"), each.get("text"))
        for each in records("ctxs", row.get("ctxs") or [])
    ]
    said = check_text("output", row.get("output") or "")
    made = question_row(
        row, asked, [], topic=topic, passages=readable(found), facts=row.get("facts")
    )
    return {**made, "prediction": said} if "output" in row else made
