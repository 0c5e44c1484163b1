"""Tell an answer on a terminal: the sentences it was read from, what they cost, and the way."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

import typer

from fitrag_integrations.flow import Traced
from fitrag_integrations.methods.answer.answering import Answered
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import Excerpt, Passage

SHOWN = 3  # excerpts
MARKS = "\x1b[30;43m", "\x1b[0m"  # black on yellow
PLAIN_MARKS = "**", "**"


def tell(traced: Traced[Answered]) -> None:
    """Print the answer, what was kept to read it from, and how it was come by."""
    marks = MARKS if sys.stdout.isatty() else PLAIN_MARKS
    answered = traced.value
    typer.echo(answered.text or "(no answer)")
    typer.echo("")
    for line in kept_lines(kept(answered), answered.text, marks):
        typer.echo(line)
    typer.echo(saved(traced))
    typer.echo("")
    typer.echo(Traced(answered.context, traced.steps).explain())


def kept_lines(excerpts: Sequence[Excerpt], answer: str, marks: tuple[str, str]) -> Iterator[str]:
    """Return each excerpt with the answer marked, and under it the passage it is of."""
    for excerpt in excerpts:
        yield f"  {shown(excerpt.text, answer, marks)}"
        yield f"    {excerpt.passage.title or excerpt.passage.id}"


def kept(answered: Answered) -> list[Excerpt]:
    """Return the excerpts to show: the one the answer was read from first."""
    excerpts = list(answered.context.excerpts)
    if answered.source is not None:
        source = answered.source
        excerpts.sort(key=lambda each: not _within(source, each))
    return excerpts[:SHOWN]


def _within(source: Excerpt, whole: Excerpt) -> bool:
    same = source.passage == whole.passage
    return same and whole.start <= source.start and source.end <= whole.end


def shown(text: str, answer: str, marks: tuple[str, str]) -> str:
    """Return a text on one line with the answer marked, wherever it occurs as a whole word."""
    line = " ".join(text.split())
    if not answer.strip():
        return line
    words = r"\s+".join(map(re.escape, answer.split()))
    before, after = marks
    return re.sub(rf"(?<!\w){words}(?!\w)", lambda m: f"{before}{m[0]}{after}", line, flags=re.I)


def saved(traced: Traced[Answered]) -> str:
    """Return what the prompt's excerpts cost beside all that was retrieved, by estimate."""
    found = list({passage.id: passage for passage in _retrieved(traced)}.values())
    return cost(found, traced.value.context.excerpts) if found else "nothing was retrieved"


def cost(found: Sequence[Passage], kept: Sequence[Excerpt]) -> str:
    """Return how many tokens of the passages were left, by estimate."""
    before = approximate_tokens(render_excerpts([Excerpt.whole(each) for each in found]))
    after = approximate_tokens(render_excerpts(kept))
    return f"{before} -> {after} tokens, of {len(found)} passages"


def _retrieved(traced: Traced[Answered]) -> Iterator[Passage]:
    for step in traced.steps:
        for answers in step.answers if step.port == "retrieve" else ():
            yield from answers
