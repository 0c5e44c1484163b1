"""The answer to a row: its flow, the fields written for it, and its explanation on a terminal."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import typer

from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.core.record import Row, plain
from fitrag_integrations.core.show import visible
from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.methods.answering import Answered, Answering
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.ports import Generator, Ports, Retriever
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.prompt import Shot

ADDS = ("context", "prompt", "answer", "trace")
Generates: TypeAlias = Callable[[Sequence[str]], Sequence[str | Exception]] | Generator | None
PLACE = "fitrag_place"  # metadata: where in its row's list a passage stands
DROPPED = "dropped"  # how many of its passages a row has lost on purpose


@dataclass(frozen=True)
class Answers:
    """Start the flow of a row: over its own passages where it has some, else over the index.

    `generate` is a callable, or an object with `generate`; `shots` are its examples. `web`
    searches where a method does.
    """

    answering: Answering
    index: Retriever | None
    generate: Generates
    shots: tuple[Shot, ...] = ()
    web: Any = None

    def __call__(self, row: Row) -> Flow[Answered]:
        question, retrieve = question_of(row), cast(Any, self.index)
        if self.index is None or "passages" in row:
            passages = list[Passage]()
            if not row.get(DROPPED) or row["passages"]:  # else --drop-right took the last one
                passages = list(map(_placed, passages_of(row), row["passages"], itertools.count()))
            retrieve = lambda queries: [passages for _ in queries]  # noqa: E731
        ports = Ports(retrieve, self.web, self.generate, shots=self.shots)
        return (yield from self.answering(question, ports))


def _placed(passage: Passage, given: object, place: int) -> Passage:
    """Return a passage with the id that its row has for it, and its place there."""
    found = given.get("id") if isinstance(given, dict) else None
    has_id = found is not None and not isinstance(found, bool | dict | list) and str(found)
    return replace(passage, id=str(found) if has_id else passage.id, metadata={PLACE: place})


def answer_fields(traced: Traced[Answered], *, explain: bool = False) -> Row:
    """Return the fields of a row whose flow has ended, or raise what the flow ended with.

    The prompt is the last one sent to the language model, or else what one would be sent. With
    `explain` the trace has a row for everything that was kept or dropped.
    """
    answered = traced.value
    context = answered.context
    sent = [step.items[-1] for step in traced.steps if step.port == "generate" and step.items]
    return {
        "context": [_excerpt(excerpt) for excerpt in context.excerpts],
        "prompt": sent[-1] if sent else answered.prompt,
        "answer": answered.text,
        "trace": {
            "method": context.method,
            "steps": [step.to_dict() for step in traced.steps],
            "action": plain(context.action),
            "answerable": context.answerable,
            "queries": plain(context.queries),
            "draft": context.draft,
            "decision": plain(context.decision),
            "notes": plain(context.notes),
            "details": plain(context.details),
            **({"selection": plain(context.selection)} if explain else {}),
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


SHOWN = 3  # excerpts
MARKS = "\x1b[30;43m", "\x1b[0m"  # black on yellow
PLAIN_MARKS = "**", "**"


def show_answer(traced: Traced[Answered], *, explain: bool = False) -> None:
    """Print the answer, what was kept to read it from, and with `explain` what was dropped.

    First comes the excerpt that the answer was read from; the answer is marked in all. The tokens
    are estimates, of all that was retrieved and of what the prompt shows.
    """
    marks = MARKS if sys.stdout.isatty() else PLAIN_MARKS
    answered, context, source = traced.value, traced.value.context, traced.value.source
    excerpts = list(context.excerpts)
    if source is not None:
        excerpts.sort(
            key=lambda one: (
                one.passage != source.passage or one.start > source.start or one.end < source.end
            )
        )
    lines = [visible(answered.text) or "(no answer)", ""]
    for one in excerpts[:SHOWN]:
        lines.append(f"  {shown(one.text, answered.text, marks)}")
        lines.append(f"    {visible(one.passage.title or one.passage.id)}")
    steps = (step for step in traced.steps if step.port == "retrieve")
    found = {one.id: one for step in steps for each in step.answers for one in each}
    whole = list(map(Excerpt.whole, found.values()))
    before, after = (
        approximate_tokens(render_excerpts(some)) for some in (whole, context.excerpts)
    )
    cost = f"{before} -> {after} tokens, of {len(found)} passages"
    lines.append(cost if found else "nothing was retrieved")
    if explain:
        lines += ["", Traced(context, traced.steps).explain(dropped=True)]
    else:
        lines += [f"note: {note}" for note in context.notes]
        lines.append("--explain lists what was dropped, and why")
    typer.echo("\n".join(lines))


def shown(text: str, answer: str, marks: tuple[str, str]) -> str:
    """Return a text on one line with the answer marked, wherever it occurs as a whole word."""
    line = visible(" ".join(text.split()))
    if not answer.strip():
        return line
    words = r"\s+".join(map(re.escape, visible(answer).split()))
    before, after = marks
    return re.sub(rf"(?<!\w){words}(?!\w)", lambda m: f"{before}{m[0]}{after}", line, flags=re.I)
