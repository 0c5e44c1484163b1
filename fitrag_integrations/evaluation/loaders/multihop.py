"""Questions over several paragraphs: HotpotQA, 2WikiMultihopQA and MuSiQue.

Yang et al. (2018), Ho et al. (2020) and Trivedi et al. (2022). A passage says in `is_supporting`
whether the source counts it among the evidence; single sentences of evidence are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.loaders._fields import (
    Row,
    decoded,
    mapping,
    passage,
    question_row,
    readable,
    records,
    sequence,
    text,
    texts,
)

SENTENCES = ("sentences", "content")  # two copies of 2Wiki call them differently


def hotpotqa(row: Row) -> Row:
    """Read HotpotQA or 2Wiki: pairs of title and sentences, or the hub's object of two lists."""
    facts = _pairs("supporting_facts", row.get("supporting_facts") or [])
    supporting = {title for title, _ in facts}
    passages = [
        passage(title, sentences, is_supporting=title in supporting)
        for title, sentences in _pairs("context", row.get("context") or [])
    ]
    answers = texts("answer", row.get("answer"))
    ids = ("_id", "id")
    found = readable(passages)
    return question_row(
        row, text(row, "question"), answers, ids=ids, passages=found, type=row.get("type")
    )


def musique(row: Row) -> Row:
    """Read MuSiQue: `answer` and `answer_aliases`, twenty paragraphs."""
    aliases = sequence("answer_aliases", row.get("answer_aliases") or [])
    passages = [
        passage(each.get("title"), text(each, "paragraph_text"), is_supporting=_support(each))
        for each in records("paragraphs", row.get("paragraphs"))
    ]
    return question_row(
        row,
        text(row, "question"),
        texts("answer", [text(row, "answer"), *aliases]),
        passages=passages,
        answerable=row.get("answerable"),
    )


def _support(paragraph: Row) -> bool:
    return bool(paragraph.get("is_supporting", False))


def _pairs(name: str, value: object) -> Iterator[tuple[str, Any]]:
    """Give titles with what goes with each."""
    given = decoded(name, value)
    if isinstance(given, dict):
        yield from _columns(name, given)
        return
    for i, each in enumerate(sequence(name, given)):
        if isinstance(each, dict):
            yield from _columns(name, {key: [part] for key, part in each.items()})
            continue
        pair = sequence(f"{name}[{i}]", each)
        if len(pair) != 2 or not isinstance(pair[0], str):
            raise InputError.of(f"{name}[{i}]", given=pair, allowed="a title and what goes with it")
        yield pair[0], pair[1]


def _columns(name: str, given: Row) -> Iterator[tuple[str, Any]]:
    other = next((key for key in (*SENTENCES, "sent_id") if key in given), "sentences")
    columns = mapping(name, {"title": given.get("title"), other: given.get(other)})
    for each in records(name, columns):
        yield text(each, "title"), each[other]
