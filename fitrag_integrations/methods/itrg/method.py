"""ITRG: retrieve with what was generated, generate with what was retrieved (ITRG, section 2).

Each round retrieves with the question and the last document, and the language model writes the next
document from the passages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Literal, cast

from fitrag_integrations.core.checks import Count, check_many, check_one
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.itrg.prompts import (
    answer_template,
    check_demonstrations,
    document_prompt,
)
from fitrag_integrations.methods.writing import (
    LOOK_UP,
    NO_ANSWER,
    Generated,
    Generating,
    Rounds,
    expanded_query,
    read_answer,
    reply_text,
    update,
)
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.prompt import LimitedPrompt, Shot
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import apart

_HEAD = r"(?:#{1,6}[ \t]\S[^\n]*|\*\*[^*\n]+\*\*:?|(?:={2,}|-{3,})[^\n]*)"
_HEADING = re.compile(rf"\s*(?:{_HEAD}\s*\n\s*)*")
_PARAGRAPH_END = re.compile(rf"\n(?:[ \t]*\n|{_HEAD}[ \t]*(?:\n|\Z))")
_ARTICLES = frozenset(("a", "an", "the"))


@dataclass(slots=True)
class Round:
    """One round: query, passages ``R_t``, the new ones of these, and the document ``y_t``."""

    query: str = ""
    passages: Sequence[Passage] = ()
    new: Sequence[Passage] = ()
    document: str = ""
    answer: str | None = None
    notes: list[str] = field(default_factory=list)
    failed: bool = False

    def details(self, number: int) -> dict[str, object]:
        """Return the round as plain values; passages by their ids."""
        new = set(map(id, self.new))
        return {
            "round": number,
            "query": self.query,
            "new": [passage.id for passage in self.new],
            "old": [passage.id for passage in self.passages if id(passage) not in new],
            "document": self.document,
            "answer": self.answer,
        }


def same_answer(one: str, other: str) -> bool:
    """Check whether answers are equal without case, punctuation, articles and extra blanks.

    Args:
        one: Answer.
        other: Answer to compare it with.
    """
    words = [re.findall(r"\w+", answer.casefold()) for answer in (one, other)]
    left, right = ([word for word in each if word not in _ARTICLES] for each in words)
    return left == right and bool(left)


def check_stops(field: str, given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of stopping conditions.

    Args:
        field: Name of the field in errors.
        given: One or several of "rounds", "empty" and "unchanged".

    Raises:
        InputError: For another name.
    """
    names = check_many(field, (given,) if isinstance(given, str) else given, str)
    return tuple(str(check_one(field, name, ("rounds", "empty", "unchanged"))) for name in names)


@dataclass(frozen=True)
class ITRG(Generating):
    """Iterative retrieval-generation synergy: retrieve and write in turn, for several rounds.

    Args:
        mode: "refine" improves the last document with the passages that are new in a round,
            "refresh" writes each from all passages of its round.
        rounds: Maximum number of rounds.
        k: Usable passages of each retrieval.
        stop: Further stopping conditions, one or several: "empty", a round that finds nothing new;
            "unchanged", an answer that repeats the last one. With "rounds" alone the rounds end
            early only if all later ones would repeat the last.
        answers: "caller" leaves the final answer to the caller, whose prompt reads the last
            document; "last" writes it here, "each" one for every round. "unchanged" needs one in
            every round.
        demonstrations: (question, document, answer) triples to show the language model, or a
            ``Shot`` each, which may have passages too.
        document_tokens: Maximum tokens of a document; a longer one is truncated.
        answer_tokens: Maximum tokens of an answer; a longer one is truncated.
        deduplicate: Count equal texts of a retrieval once.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" keeps the results so far, with a note, if the language model or a later
            retrieval fails; "raise" raises the error.

    Raises:
        InputError: If an option is out of range.

    Example:
        >>> ITRG("refresh", rounds=2).mode
        'refresh'
    """

    mode: Literal["refine", "refresh"] = "refine"
    _: KW_ONLY
    rounds: Count = 5
    k: Count = 5
    stop: Annotated[str | Iterable[str], check_stops] = "rounds"
    answers: Literal["caller", "last", "each"] = "caller"
    demonstrations: Annotated[Iterable[object], check_demonstrations] = ()
    document_tokens: Count = 200
    answer_tokens: Count = 15
    deduplicate: bool = True

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        Its excerpts are the passages of the last round, whole. Its draft is the last document, or
        the answer if the method generated one. An error of the first retrieval is raised.

        Args:
            question: Question.
            ports: Ports of the question.

        Raises:
            InputError: If the question is blank, or there is no language model.
        """
        work, done = Rounds(self, question, ports, "itrg"), list[Round]()
        refuse_if(
            not ports.generate, "ITRG writes between its rounds: pass `llm=` (`--llm`), who writes."
        )
        query, why = question, ""
        while not why:
            # retrieve with the question and the last document: R_t (section 2.2)
            earlier, selection = done[-1] if done else None, Selection()
            found, notes = yield from self.look_up(
                query,
                ports,
                first=not done,
                k=self.k,
                deduplicate=self.deduplicate,
                selection=selection,
            )
            last = replace(earlier or Round(), query=query, new=(), notes=[*notes])
            if found:
                last.new, last.passages = update(found, last.passages), found
            elif notes[0].startswith(LOOK_UP):
                last.failed = True
                last.notes = [f"{notes[0].removeprefix('a ')}: what was found before is kept"]
            else:
                last.notes[-1:] = ["nothing was retrieved"]
            if found or not (last.failed or last.passages):
                work.selection = selection

            # generate the next document, y_t, from what is new in R_t or all of it (section 2.3)
            settles = self.mode == "refine" or "empty" in self.stop
            if last.new or (found and not settles):
                yield from self._generated(last, work)
            done.append(last)

            # stop where all further rounds would repeat this one: in refine without new passages
            # the document stays, and so does the next query
            query = expanded_query(question, last.document)
            answers = [each.answer or "" for each in done[-2:]]
            if last.failed:
                why = "failed"
            elif earlier and not last.new and settles:
                why = "empty"
            elif earlier and "unchanged" in self.stop and same_answer(*answers):
                why = "unchanged"
            elif query == last.query:
                why = "settled"
            elif len(done) == self.rounds:
                why = "rounds"

        # answer from the documents, where that is not left to the caller (section 3.3)
        if self.answers != "caller" and "unchanged" not in self.stop:
            yield from self._answered(done if self.answers == "each" else [last], work)
        work.queries = [one.query for one in done[1:]]
        work.notes = [f"round {at}: {note}" for at, one in enumerate(done, 1) for note in one.notes]
        if not last.passages:
            work.notes.append("nothing to refer to: no passage with text was retrieved")
        details: dict[str, object] = {
            "mode": self.mode,
            "stopped": why,
            "rounds": [one.details(at) for at, one in enumerate(done, 1)],
            "document": last.document,
            "document_tokens": int(self.counter(last.document)),
        }
        if last.document and last.answer is None:
            details["template"] = asdict(answer_template(self._shots))
        kept = list(map(Excerpt.whole, last.passages))
        if self.deduplicate:
            kept = apart(kept, selection=work.selection)
        context = work.ended(last.answer or "", details, excerpts=kept)
        return context if last.answer else replace(context, draft=last.document or None)

    def read(self, text: str, what: str, tokens: int = 0) -> Generated:
        """Read a document as its first paragraph, with a heading over it.

        Args:
            text: Reply of the model.
            what: "document", or the name of another text, which is read as in `Generating.read`.
            tokens: Maximum number of tokens; 0 is `answer_tokens`.
        """
        body = text.rstrip()
        begun = _HEADING.match(body)
        ends = _PARAGRAPH_END.search(body, begun.end() if begun else 0)
        if what != "document" or ends is None:
            return super().read(text, what, tokens)
        reply = super().read(body[: ends.start()], what, tokens)
        note = "what was written behind the first paragraph of the document was left out"
        return replace(reply, notes=(*reply.notes, note))

    def _generated(self, made: Round, work: Rounds) -> Flow[None]:
        """Write ``M(y_{t-1}, q, R_update)`` in refine, ``M(q, R_t)`` in refresh."""
        refines = self.mode == "refine"
        prompt = document_prompt(
            work.question,
            made.new if refines else made.passages,
            document=made.document if refines else "",
            demonstrations=self._shots,
        )
        (reply,) = yield from self.write_all([prompt], work.ports, "document", self.document_tokens)
        if not reply.text:
            kept = "the last one is kept" if made.document else "there is none"
            made.notes.append(f"{reply.notes[0]}: {kept}")
            made.failed = reply.failed
            return
        is_new, made.document = reply.text != made.document, reply.text
        made.notes += reply.notes
        if "unchanged" in self.stop and is_new:
            yield from self._answered([made], work)

    def _answered(self, made: Sequence[Round], work: Rounds) -> Flow[None]:
        """Answer from the documents of rounds in one ask, each different document once."""
        template = answer_template(self._shots)
        documents = list(dict.fromkeys(one.document for one in made if one.document))
        prompts = [work.prompt(template, (), document) for document in documents]
        items = [LimitedPrompt(prompt, tokens=self.answer_tokens) for prompt in prompts]
        texts, failed = yield from self.asked(work.ports.generate, items, NO_ANSWER, reply_text)
        read = partial(read_answer, max_tokens=self.answer_tokens, count_tokens=self.counter)
        bare = map(str.removeprefix, texts, prompts)
        found = dict(zip(documents, map(read, bare), strict=not failed))
        for one in made:
            one.answer = found.get(one.document) or None
            if one.document and one.answer is None:
                one.notes += failed or (NO_ANSWER,)

    @property
    def _shots(self) -> tuple[Shot, ...]:
        return cast("tuple[Shot, ...]", self.demonstrations)
