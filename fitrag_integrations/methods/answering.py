"""Answer from the context of any method, and resolve the citations of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

from fitrag_integrations.core.checks import Checked, check_many
from fitrag_integrations.core.record import Record
from fitrag_integrations.core.show import Html, block, card, folded, lines_html, marked, shortened
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.ports import AnswerLike, Method, Pair, Ports, Reader, port_of
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.text.spans import merge_spans
from fitrag_integrations.types import Context, Excerpt, Template
from fitrag_integrations.values.context import explained_lines
from fitrag_integrations.values.excerpt import excerpts_html, place
from fitrag_integrations.values.passage import named, origin_of
from fitrag_integrations.values.prompt import cut_note


@dataclass(frozen=True, slots=True)
class Span(Record):
    """A cited place in a source.

    Args:
        passage_id: Id of the text that the offsets count in.
        start: First character.
        end: Character after the last.
        text: The characters [start, end).
        title: Title of the passage.
        source: File or address of the text, from its metadata; may be blank.
    """

    passage_id: str
    start: int
    end: int
    text: str
    title: str = ""
    source: str = ""

    @classmethod
    def of(cls, excerpt: Excerpt) -> Span:
        """Return the place of `excerpt` in the source of its passage."""
        passage = excerpt.passage
        name, begin = origin_of(passage)
        places = (begin + excerpt.start, begin + excerpt.end)
        return cls(name, *places, excerpt.text, passage.title, passage.source)

    def __str__(self) -> str:
        """Return the place and its first words in one line."""
        name = self.title or self.source or self.passage_id
        return f"{name} [{self.start}:{self.end}]: {shortened(self.text)}"


@dataclass(frozen=True, slots=True)
class Citation(Record):
    """A number that an answer cites, the excerpts it refers to, and its places in the answer.

    Args:
        number: The number.
        excerpts: Excerpts that the prompt showed under it, in the order of the passage; adjacent
            ones are joined.
        places: [start, end) of the marks in the answer.
    """

    _nested: ClassVar = {"excerpts": Excerpt}

    number: int
    excerpts: tuple[Excerpt, ...]
    places: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Convert lists, as JSON has them, to tuples."""
        object.__setattr__(self, "excerpts", tuple(self.excerpts))
        object.__setattr__(self, "places", tuple((start, end) for start, end in self.places))

    @property
    def spans(self) -> tuple[Span, ...]:
        """The places cited, as plain values."""
        return tuple(map(Span.of, self.excerpts))

    def __str__(self) -> str:
        """Return number and places in one line."""
        return f"[{self.number}] " + "; ".join(map(str, self.spans))

    def _repr_html_(self) -> str:
        """Show the source whole with the cited words marked; all of it is escaped."""
        return card(str(self), excerpts_html(self.excerpts))


@dataclass(frozen=True, slots=True)
class Cited(Record, Checked):
    """An answer with its citations, in the order of their first use.

    Args:
        answer: The answer.
        citations: The numbers it cites, with their excerpts.
        unknown: Cited numbers that the prompt did not show, in order and each once.
        shown: Number of numbers that the prompt showed.
        copied: Numbers in marks that the answer copied from a passage with the words before them;
            they are the passage's own and cite nothing.
    """

    _nested: ClassVar = {"citations": Citation}

    answer: str
    citations: Annotated[tuple[Citation, ...], partial(check_many, kind=Citation)]
    unknown: Annotated[tuple[int, ...], partial(check_many, kind=int)] = ()
    shown: int = 0
    copied: Annotated[tuple[int, ...], partial(check_many, kind=int)] = ()

    @property
    def uncited(self) -> tuple[int, ...]:
        """The numbers shown that the answer does not cite."""
        cited = {citation.number for citation in self.citations}
        return tuple(n for n in range(1, self.shown + 1) if n not in cited)

    def __str__(self) -> str:
        """Return in one line what is cited, and which numbers are unknown."""
        wrong = f", unknown {_listed(self.unknown)}" if self.unknown else ""
        numbers = _listed(citation.number for citation in self.citations) or "nothing"
        return f"{shortened(self.answer)} -> cites {numbers} of {self.shown}{wrong}"

    def explain(self) -> str:
        """Return answer, citations, unknown numbers and uncited passages, one per line."""
        cited = map(str, self.citations)
        return "\n".join([f"answer: {self.answer}", *cited, *self._unresolved()])

    def _unresolved(self) -> Iterator[str]:
        if self.unknown:
            yield f"unknown: {_listed(self.unknown)} of {self.shown} shown"
        if self.copied:
            yield f"copied from a passage: {_listed(self.copied)}"
        if self.uncited:
            yield f"not cited: {_listed(self.uncited)}"

    def _repr_html_(self) -> str:
        """Show the answer, its marks marked, over the sources it cites; all of it is escaped."""
        places = [place for citation in self.citations for place in citation.places]
        sources = [
            folded(f"[{one.number}] {named(one.excerpts[0].passage)}", excerpts_html(one.excerpts))
            for one in self.citations
        ]
        answer = block(marked(self.answer, merge_spans(self.answer, places)))
        return card(str(self), answer, *sources, lines_html(self._unresolved()))


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(f"[{number}]" for number in numbers)


NOTHING_TO_READ = "no answer: the reader was given nothing to read"
ABSTAINED = "no answer: the reader found none it trusts"
WROTE_NOTHING = "no answer: the language model wrote nothing after the prompt"


@dataclass(frozen=True, slots=True)
class Answered(Record):
    """Answer with the context and the prompt it was generated from.

    `source` is the place of an extracted answer in its passage and `score` its score by the reader;
    both are None for a generated answer. `text` is empty only if a note in the context gives the
    reason.
    """

    _nested: ClassVar = {"context": Context, "source": Excerpt}

    text: str
    context: Context
    prompt: str
    source: Excerpt | None = None
    score: float | None = None

    @property
    def question(self) -> str:
        """The question that is answered."""
        return self.context.question

    def __str__(self) -> str:
        """Return question and answer in one line."""
        return f"{shortened(self.question)} -> {shortened(self.text) or 'no answer'}"

    def explain(self, *, dropped: bool = False) -> str:
        """Return what was kept, the answer and its place, one per line.

        Args:
            dropped: List everything that was dropped, with the reason.
        """
        return "\n".join([f"question: {self.question}", *self.trace_lines(dropped=dropped)])

    def _repr_html_(self) -> str:
        """Show the answer, then the context with what was kept marked; all of it is escaped."""
        held = [lines_html([f"source: {place(self.source)}"])] if self.source is not None else []
        return card(self.text or "no answer", *held, Html(self.context._repr_html_()))

    def trace_lines(self, *, dropped: bool = False) -> Iterator[str]:
        """Return what was kept, the answer and its place, and with `dropped` all drops."""
        answer = [f"answer: {shortened(self.text) or 'none'}"]
        if self.source is not None:
            answer.append(f"source: {place(self.source)}")
        return explained_lines(self.context, *answer, dropped=dropped)


def read_port(reader: Reader) -> Port[Pair, AnswerLike]:
    """Build the port of a reader."""
    return port_of("read", reader, "read", argument="reader")


@dataclass(frozen=True)
class Answering:
    """Method that runs another method and then answers from its context.

    An answer that the method wrote itself is returned unchanged. Otherwise, with a `reader`, the
    answer is the best span over all excerpts; a reader may have `abstain_below`, a score below
    which it does not answer. Without a reader, or if the method decided not to retrieve and there
    is nothing to read, `ports.generate` continues the prompt. `template` None is the context's own
    choice of prompt.
    """

    method: Method
    _: KW_ONLY
    reader: Reader | None = None
    template: Template | None = None

    def __call__(self, question: str, ports: Ports) -> Flow[Answered]:
        """Return the flow that ends in the answer to one question."""
        context = yield from self.method(question, ports)
        prompt = context.prompt(self.template)
        if answer := own_answer(context):
            return Answered(answer, context, prompt)
        skipped = context.decision is not None and not context.decision.retrieve
        if self.reader is None or (ports.generate and skipped and not context.excerpts):
            (text,) = yield from ports.generate.ask([prompt])
            answer = strip_thoughts(text).strip()
            notes = (*cut_note(text, "answer"), *(() if answer else (WROTE_NOTHING,)))
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
