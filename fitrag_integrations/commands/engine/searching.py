"""Give rows without passages those of an index, before a verb looks at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import ModelOptions, Searching
from fitrag_integrations.commands.engine.rows import question_of
from fitrag_integrations.core.record import Row
from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.ports import port_of
from fitrag_integrations.types import Passage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Result of a verb for a row, and the passages that were retrieved for it."""

    value: T
    passages: list[Row] | None = None


def searched(verb: Verb[T], search: Searching) -> Verb[Any]:
    """Wrap a verb so that it retrieves for rows without passages, and keeps what it found."""
    if search.index is None:
        return verb
    retriever = models.load_retriever(search.index, ModelOptions(search.encoder), k=search.k)
    port = port_of("retrieve", retriever, "retrieve")

    def flow(row: Row) -> Flow[Found[T]]:
        if "passages" in row:
            return Found((yield from verb.flow(row)))
        (found,) = yield from port.ask([question_of(row)])
        passages = [passage_json(each) for each in found]
        return Found((yield from verb.flow({**row, "passages": passages})), passages)

    def fields(traced: Traced[Found[T]]) -> Row:
        found = traced.value
        own = {} if found.passages is None else {"passages": found.passages}
        return {**own, **verb.fields(Traced(found.value, traced.steps))}

    return Verb(flow, fields, ("passages", *verb.adds), verb.empty)


def passage_json(passage: Passage) -> Row:
    """Write a passage as rows hold it, with the retriever's score where it gives one."""
    fields = {"id": passage.id, "title": passage.title, "text": passage.text}
    score = passage.metadata.get("retrieval_score")
    return fields if score is None else {**fields, "score": float(score)}
