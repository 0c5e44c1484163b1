"""ITRG: retrieve with what was generated, generate with what was retrieved (ITRG, section 2).

Each round asks the retriever with the question and the last document, and has the language model
write the next document. The prompts are in ``itrg_prompts``, what is written with them in
``itrg_writing``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, Literal

from fitrag_integrations.core.checks import check_many, check_text, check_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.itrg.prompts import (
    Demonstration,
    answer_template,
    demonstrations_of,
)
from fitrag_integrations.methods.itrg.rounds import (
    START,
    Round,
    expanded_query,
    same_answer,
    update,
)
from fitrag_integrations.methods.itrg.writer import Writer, told
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.tokens import CountTokens, TokenCounter, counter_for, counter_or_none
from fitrag_integrations.types import Context, Excerpt
from fitrag_integrations.values.windows import usable

MODES = ("refine", "refresh")
STOPS = ("rounds", "empty", "unchanged")
ANSWERS = ("caller", "last", "each")
ON_ERROR = ("degrade", "raise")


@dataclass(frozen=True)
class ITRG:
    """Run iterative retrieval-generation synergy for a question.

    ``mode`` "refine" improves the last document with the passages that are new in a round,
    "refresh" writes each from all passages of its round. At most ``rounds`` rounds use the first
    ``k`` usable passages each. ``stop`` names, alone or several, what else ends them: "empty", a
    round that finds nothing new, and "unchanged", an answer that repeats the last one. With
    "rounds" alone they end early only where all further ones would repeat the last.

    ``answers`` "caller" leaves the final answer to the caller, whose prompt reads the last
    document; "last" and "each" have it, or one for every round, written here. "unchanged" needs
    one in every round. ``demonstrations`` are (question, document, answer) triples.

    A document of more than ``document_tokens`` or an answer of more than ``answer_tokens`` is cut;
    ``count_tokens`` counts them, None estimates.
    With ``on_error`` "degrade" a language model or a later retrieval that fails leaves a question
    with what it has, and a note; "raise" raises it.
    """

    mode: Literal["refine", "refresh"] = "refine"
    _: KW_ONLY
    rounds: int = 5
    k: int = 5
    stop: str | Iterable[str] = "rounds"
    answers: Literal["caller", "last", "each"] = "caller"
    demonstrations: Iterable[Any] = ()
    document_tokens: int = 200
    answer_tokens: int = 15
    count_tokens: CountTokens = None
    on_error: Literal["degrade", "raise"] = "degrade"

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        for name, allowed in (("mode", MODES), ("answers", ANSWERS), ("on_error", ON_ERROR)):
            _check_name(name, getattr(self, name), allowed)
        for name in ("rounds", "k", "document_tokens", "answer_tokens"):
            check_whole(name, getattr(self, name), low=1)
        object.__setattr__(self, "count_tokens", counter_or_none(self.count_tokens))
        stop = check_many("stop", (self.stop,) if isinstance(self.stop, str) else self.stop, str)
        for name in stop:
            _check_name("stop", name, STOPS)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "demonstrations", demonstrations_of(self.demonstrations))

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Give the flow that ends in the context for one question.

        Its excerpts are the passages of the last round, whole; its draft is the last document, or
        the answer where one was written here. Raises ``InputError`` for a blank question,
        ``PortError`` without a language model, and what the first retrieval raises.
        """
        check_text("question", question, blank=False)
        if not ports.generate:
            yield from ports.generate.ask([question])  # raises: rather now than after a retrieval
        writer = self._writer(question, ports)
        done: list[Round] = []
        why, query, last = "", question, START
        while not why:
            last = yield from self._round(query, last, writer)
            done.append(last)
            query = expanded_query(question, last.document)
            why = self._ended(done, query)
        if self.answers != "caller" and "unchanged" not in self.stop:
            first = 0 if self.answers == "each" else len(done) - 1
            done[first:] = yield from writer.answers(done[first:])
        return self._context(question, done, why)

    def _round(self, query: str, last: Round, writer: Writer) -> Flow[Round]:
        """Retrieve, and write the document where there is something to write it from."""
        try:
            (found,) = yield from writer.ports.retrieve.ask([query])
            readable, notes = usable(found)
        except Exception as error:
            if self.on_error == "raise" or last is START:
                raise
            kept = f"retrieval failed ({told(error)}): what was found before is kept"
            return replace(last, query=query, new=(), notes=(kept,), failed=True)
        if not readable:
            return replace(last, query=query, new=(), notes=(*notes[:-1], "nothing was retrieved"))
        passages = tuple(readable[: self.k])
        new = update(passages, last.passages)
        made = replace(last, query=query, passages=passages, new=new, notes=notes)
        if new or (self.mode == "refresh" and "empty" not in self.stop):
            made = yield from writer.document(made, refine=self.mode == "refine")
        if "unchanged" in self.stop and made.document != last.document:
            (made,) = yield from writer.answers([made])
        return made

    def _ended(self, done: Sequence[Round], following: str) -> str:
        """Name what ends the rounds, or nothing.

        In refine a round without new passages keeps its document, so the query of the next one
        would be its own again, and so would all that follows.
        """
        last, earlier = done[-1], done[-2] if len(done) > 1 else START
        settles = self.mode == "refine" or "empty" in self.stop
        if last.failed:
            return "failed"
        if earlier is not START and not last.new and settles:
            return "empty"
        if "unchanged" in self.stop and same_answer(last.answer or "", earlier.answer or ""):
            return "unchanged"
        if following == last.query:
            return "settled"
        return "rounds" if len(done) == self.rounds else ""

    def _context(self, question: str, done: Sequence[Round], why: str) -> Context:
        last = done[-1]
        notes = [f"round {at}: {note}" for at, one in enumerate(done, 1) for note in one.notes]
        if not last.passages:
            notes.append("nothing to refer to: no passage with text was retrieved")
        details: dict[str, Any] = {
            "mode": self.mode,
            "stopped": why,
            "rounds": [one.told(at) for at, one in enumerate(done, 1)],
            "document": last.document,
            "document_tokens": int(self._counter(last.document)),
        }
        if last.answer is not None:
            details["answers"] = True
        elif last.document:
            template = answer_template(self._shots)
            details["template"] = asdict(template)
        return Context(
            question,
            tuple(map(Excerpt.whole, last.passages)),
            queries=tuple(one.query for one in done[1:]),
            draft=last.answer if last.answer is not None else last.document or None,
            notes=tuple(notes),
            method="itrg",
            details=details,
        )

    def _writer(self, question: str, ports: Ports) -> Writer:
        return Writer(
            question,
            ports,
            self._shots,
            document_tokens=self.document_tokens,
            answer_tokens=self.answer_tokens,
            count_tokens=self._counter,
            degrade=self.on_error == "degrade",
        )

    @property
    def _counter(self) -> TokenCounter:
        return counter_for(self.count_tokens)

    @property
    def _shots(self) -> tuple[Demonstration, ...]:
        return demonstrations_of(self.demonstrations)


def _check_name(field: str, given: Any, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise InputError.of(field, given=given, allowed=" or ".join(map(repr, allowed)))
