"""Take a row to its answer, and write down what it came from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.core.record import Row, plain
from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.methods.answer.answering import Answered, Answering
from fitrag_integrations.ports import Generator, Ports, Retriever
from fitrag_integrations.types import Excerpt, Passage

ADDS = ("context", "prompt", "answer", "trace")
Generates: TypeAlias = Callable[[Sequence[str]], Sequence[str | Exception]] | Generator | None
PLACE = "fitrag_place"  # metadata: where in its row's list a passage stands
DROPPED = "dropped"  # how many of its passages a row has lost on purpose


@dataclass(frozen=True)
class Answers:
    """Start the flow of a row: over its own passages where it has some, else over the index.

    `generate` is a callable, or an object with `generate`.
    """

    answering: Answering
    index: Retriever | None
    generate: Generates

    def __call__(self, row: Row) -> Flow[Answered]:
        question = question_of(row)
        if self.index is not None and "passages" not in row:
            ports = Ports(retrieve=self.index, generate=self.generate)
        else:
            ports = Ports(retrieve=_Given(_own_passages(row)), generate=self.generate)
        return (yield from self.answering(question, ports))


@dataclass(frozen=True)
class _Given:
    """Retrieve the passages that are there already."""

    passages: Sequence[Passage]

    def __call__(self, queries: Sequence[str]) -> list[Sequence[Passage]]:
        return [self.passages for _ in queries]


def _own_passages(row: Row) -> list[Passage]:
    if row.get(DROPPED) and not row["passages"]:  # --drop-right took the last one
        return []
    return [
        replace(passage, id=_id(given) or passage.id, metadata={PLACE: place})
        for place, (passage, given) in enumerate(
            zip(passages_of(row), row["passages"], strict=True)
        )
    ]


def _id(given: Row) -> str:
    found = given.get("id")
    if found is None or isinstance(found, bool | dict | list):
        return ""
    return str(found)


def answer_fields(traced: Traced[Answered], *, explain: bool = False) -> Row:
    """Return the fields of a row whose flow has ended, or raise what the flow ended with.

    With `explain` the trace has a row for everything that was kept or dropped.
    """
    answered = traced.value
    context = answered.context
    why = {"selection": plain(context.selection)} if explain else {}
    return {
        "context": [_excerpt(excerpt) for excerpt in context.excerpts],
        "prompt": answered.prompt,
        "answer": answered.text,
        "trace": {
            "method": context.method,
            "steps": [step.to_dict() for step in traced.steps],
            "action": plain(context.action),
            "queries": plain(context.queries),
            "draft": context.draft,
            "decision": plain(context.decision),
            "notes": plain(context.notes),
            "details": plain(context.details),
            **why,
            "source": None if answered.source is None else _excerpt(answered.source),
        },
    }


def _excerpt(excerpt: Excerpt) -> Row:
    """Write an excerpt without its whole passage; `passage` is null for one of the index."""
    passage = excerpt.passage
    return {
        "passage": passage.metadata.get(PLACE),
        "id": passage.id,
        "title": passage.title,
        "start": excerpt.start,
        "end": excerpt.end,
        "score": excerpt.score,
        "text": excerpt.text,
    }
