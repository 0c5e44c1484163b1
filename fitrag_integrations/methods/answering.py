"""Answer from the context of any method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

from fitrag_integrations.core.checks import trait
from fitrag_integrations.core.record import Record
from fitrag_integrations.core.show import Html, card, lines_html, shortened
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.prompts import OneInstruction
from fitrag_integrations.methods.writing import bare_reply
from fitrag_integrations.ports import AnswerLike, Method, Pair, Ports, Reader, port_of
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.types import Context, Excerpt, Template
from fitrag_integrations.values.context import Explains
from fitrag_integrations.values.excerpt import place
from fitrag_integrations.values.prompt import (
    cut_note,
    default_template,
    unshown_note,
    with_shots,
)

NOTHING_TO_READ = "no answer: the reader was given nothing to read"
ABSTAINED = "no answer: the reader found none it trusts"
WROTE_NOTHING = "no answer: the language model wrote nothing after the prompt"


@dataclass(frozen=True, slots=True)
class Answered(Explains, Record):
    """Answer with the context and the prompt it was generated from.

    Args:
        text: Answer; empty only if a note in the context gives the reason.
        context: Context that the method found.
        prompt: Prompt that the answer continues.
        source: Place of an extracted answer in its passage; None for a generated one.
        score: Score of an extracted answer by the reader; None for a generated one.
    """

    _nested: ClassVar = {"context": Context, "source": Excerpt}

    text: str
    context: Context
    prompt: str
    source: Excerpt | None = None
    score: float | None = None

    @property
    def question(self) -> str:
        """Return the question that is answered."""
        return self.context.question

    def __str__(self) -> str:
        """Return question and answer in one line."""
        return f"{shortened(self.question)} -> {shortened(self.text) or 'no answer'}"

    def _repr_html_(self) -> str:
        """Show the answer, then the context with what was kept marked; all of it is escaped."""
        held = [lines_html([f"source: {place(self.source)}"])] if self.source is not None else []
        return card(self.text or "no answer", *held, Html(self.context._repr_html_()))

    def trace_lines(self, *, dropped: bool = False) -> Iterator[str]:
        """Return what was kept, the answer and its place; with `dropped` also what was dropped."""
        answer = [f"answer: {shortened(self.text) or 'none'}"]
        if self.source is not None:
            answer.append(f"source: {place(self.source)}")
        return self.context.trace_lines(*answer, dropped=dropped)


def read_port(reader: Reader) -> Port[Pair, AnswerLike]:
    """Build the port of a reader."""
    return port_of("read", reader, "read", argument="reader")


@dataclass(frozen=True)
class Answering:
    """Method that runs another method and then answers from its context.

    An answer that the method wrote itself is returned unchanged. Without a reader, or if the method
    decided not to retrieve and there is nothing to read, `ports.generate` continues the prompt. A
    model without a chat template follows no instruction and runs on: its prompt is one line that
    ends with "Answer:", and its answer ends where it begins to make up another question or passage.

    Args:
        method: Method that finds the context.
        reader: Reader, which answers with the best span over all excerpts. It may have
            `abstain_below`, a score below which it does not answer.
        template: Prompt. Defaults to the context's choice.
    """

    method: Method
    _: KW_ONLY
    reader: Reader | None = None
    template: Template | None = None

    def __call__(self, question: str, ports: Ports) -> Flow[Answered]:
        """Return the flow that ends in the answer to one question."""
        context = yield from self.method(question, ports)
        template, runs_on = self.template, trait(ports.generate.owner, "is_chat", bool) is False
        if template is None and runs_on:
            own = default_template(context)  # of which many are instructions
            template = own if own.one_line else OneInstruction()
        plain = context.prompt(template)
        shots = trait(ports.generate, "shots", tuple) or (
            trait(ports.generate.owner, "shots", tuple) or ()
        )
        prompt = with_shots(plain, shots)
        answer = own_answer(context)
        if answer or plain == context.details.get("asked"):  # which the method's notes tell of
            return Answered(answer, context, prompt)
        skipped = context.decision is not None and not context.decision.retrieve
        if self.reader is None or (ports.generate and skipped and not context.excerpts):
            (text,) = yield from ports.generate.ask([prompt])
            answer = bare_reply(text) if runs_on else strip_thoughts(text).strip()
            notes = (
                *unshown_note(plain, shots),
                *cut_note(text, "answer"),
                *(() if answer else (WROTE_NOTHING,)),
            )
            return Answered(answer, _noted(context, *notes), prompt)
        pairs = [(question, excerpt.as_passage()) for excerpt in context.excerpts]
        answers = yield from read_port(self.reader).ask(pairs)
        if not answers:
            return Answered("", _noted(context, NOTHING_TO_READ), prompt)

        # the best-scored answer, the first of equals, and its place in its source
        at = max(range(len(answers)), key=lambda i: answers[i].score)
        best, excerpt = answers[at], context.excerpts[at]
        least = getattr(self.reader, "abstain_below", None)
        if not best.text or (least is not None and best.score < float(least)):
            return Answered("", _noted(context, ABSTAINED), prompt, score=float(best.score))
        place = excerpt.located(best.start, best.start + len(best.text))
        source = Excerpt(excerpt.passage, *place, float(best.score))
        return Answered(best.text, context, prompt, source, float(best.score))


def own_answer(context: Context) -> str:
    """Return the answer that the method itself wrote; blank if the caller is to answer."""
    return (context.draft or "").strip() if context.details.get("answers") else ""


def _noted(context: Context, *notes: str) -> Context:
    return replace(context, notes=(*context.notes, *notes))
