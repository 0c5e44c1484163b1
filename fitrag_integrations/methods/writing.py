"""Shared base of the methods whose language model writes documents or answers.

A reply may be blank, run on without end, come with labels and thoughts, ignore the form it was
asked for, or not come at all. The same is done about it everywhere: it is cut to a number of
tokens, and what fails is noted, while the method goes on with what it has.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal, TypeAlias

from fitrag_integrations.core.checks import Checked, Count, check_able, check_text
from fitrag_integrations.core.generic import A, Q, R
from fitrag_integrations.core.show import error_line
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.methods.budget import Counting
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.text.tokens import CountTokens, TokenCounter
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision, Template
from fitrag_integrations.values.prompt import LimitedPrompt, cut_note
from fitrag_integrations.values.selected import Selection
from fitrag_integrations.values.windows import usable

Notes: TypeAlias = tuple[str, ...]
OnError = Literal["degrade", "raise"]
LOOK_UP = "a retrieval failed"
NO_ANSWER = "the language model wrote no answer"
_LABEL = re.compile(r"[\s*#]*(?:document|answer):[\s*]*", re.IGNORECASE)
_NEXT = re.compile(r"^[*#]*(?:passages?|question|earlier document):", re.MULTILINE | re.IGNORECASE)
_FINAL = re.compile(r"\banswer\s+is\b[:\s]*(?=\S)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Generated:
    """What a language model wrote, cleaned and shortened; blank if a note says why."""

    text: str = ""
    notes: Notes = ()
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class Generating(Counting, Checked):
    """Mixin that calls the caller's language model and stores the answer in `Context.draft`.

    An answer that was written is marked by `details["answers"]`; where there is none, the draft is
    None and the caller's own prompt is left to answer.

    Args:
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
    """

    answer_tokens: Count = 256
    count_tokens: CountTokens = None
    on_error: OnError = "degrade"

    @abstractmethod
    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question, its answer in `draft`.

        The flow raises `InputError` for a blank question.
        """

    def write_all(
        self, prompts: Sequence[str], ports: Ports, what: str, tokens: int = 0
    ) -> Flow[list[Generated]]:
        """Generate several texts in one call; all are blank if it fails.

        Args:
            prompts: Prompts of `ports.generate`.
            ports: Ports of the question.
            what: Name of the texts in the notes.
            tokens: Maximum number of tokens of each; 0 is `answer_tokens`.
        """
        wanted = [LimitedPrompt(prompt, tokens=tokens or self.answer_tokens) for prompt in prompts]
        failed = f"the language model wrote no {what}"
        texts, notes = yield from self.asked(ports.generate, wanted, failed, reply_text)
        if notes:
            return [Generated("", notes, True)] * len(prompts)
        replies = []
        for prompt, text in zip(prompts, texts, strict=True):
            reply = self.read(text.removeprefix(prompt), what, tokens)
            replies.append(reply if reply.notes else Generated(reply.text, cut_note(text, what)))
        return replies

    def asked(
        self, port: Port[Q, A], items: Sequence[Q], failed: str, read: Callable[[A], R]
    ) -> Flow[tuple[list[R], Notes]]:
        """Call a port and read its answers; a failure becomes a note unless `on_error` is "raise".

        Args:
            port: Port to call.
            items: Items to send.
            failed: Note for a failure.
            read: Function that converts an answer.

        Returns:
            The answers, none after a failure, and the notes.
        """
        asking = port.ask(items)  # a missing port raises here, at any on_error

        def answered() -> Flow[list[R]]:
            return [read(answer) for answer in (yield from asking)]

        made, error = yield from attempt(answered(), strict=self.on_error == "raise")
        return (made or [], ()) if error is None else ([], (f"{failed} ({error_line(error)})",))

    def read(self, text: str, what: str, tokens: int = 0) -> Generated:
        """Clean a generated text and shorten it.

        Args:
            text: Reply of the model.
            what: Name of the text in the notes.
            tokens: Maximum number of tokens; 0 is `answer_tokens`.
        """
        most = tokens or self.answer_tokens
        kept, was_cut = read_document(text, most, self.counter)
        if not kept:
            return Generated("", (f"the language model wrote no {what}",))
        return Generated(kept, (f"the {what} was cut to {most} tokens",) if was_cut else ())

    def look_up(
        self,
        query: str,
        ports: Ports,
        *,
        first: bool = False,
        k: int | None = None,
        deduplicate: bool = True,
        selection: Selection | None = None,
    ) -> Flow[tuple[list[Passage], Notes]]:
        """Retrieve usable passages; a failure becomes a note unless `on_error` is "raise".

        Args:
            query: Query.
            ports: Ports of the question.
            first: Whether this is the first retrieval, whose failure always raises.
            k: Maximum number of passages; None keeps all.
            deduplicate: As in `usable`.
            selection: As in `usable`.

        Returns:
            The passages and the notes.
        """
        if first:
            lists = yield from ports.retrieve.ask([query])
        else:
            lists, failed = yield from self.asked(ports.retrieve, [query], LOOK_UP, lambda one: one)
            if failed:
                return [], failed
        return usable(lists[0], deduplicate=deduplicate, k=k, selection=selection)


@dataclass
class Rounds:
    """What a method has retrieved, written and noted so far for one question.

    Args:
        method: The method, whose limits and `on_error` hold.
        question: The question; not blank.
        ports: What it retrieves and generates with.
        name: Name of the method in its context.
    """

    method: Generating
    question: str
    ports: Ports
    name: str
    passages: list[Passage] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        check_text("question", self.question, blank=False)

    def retrieve(self, query: str, k: int, *, first: bool = False) -> Flow[list[Passage]]:
        """Retrieve usable passages; a failure returns none unless `on_error` is "raise".

        Args:
            query: Query.
            k: Maximum number of passages.
            first: Whether this is the first retrieval, whose failure always raises.
        """
        found, notes = yield from self.method.look_up(
            query, self.ports, first=first, k=k, selection=self.selection
        )
        self.notes += notes
        return found

    def keep(self, found: object, k: int) -> list[Passage]:
        """Keep the first usable passages of a result, and return them.

        Args:
            found: Result of a retrieval.
            k: Maximum number of passages.
        """
        self.passages, notes = usable(found, k=k, selection=self.selection)
        self.notes += notes
        return self.passages

    def prompt(
        self,
        template: Template,
        passages: Sequence[Passage] | None = None,
        draft: str | None = None,
    ) -> str:
        """Render a prompt.

        Args:
            template: Template of the prompt.
            passages: Passages to show. Defaults to those kept so far.
            draft: Text that the template continues from, if it does.
        """
        excerpts = tuple(map(Excerpt.whole, self.passages if passages is None else passages))
        return Context(self.question, excerpts, draft=draft).prompt(template)

    def write(self, prompt: str, what: str = "answer", tokens: int = 0) -> Flow[str]:
        """Generate a text, as `Generating.write_all` does; if it is blank, a note has the reason.

        Args:
            prompt: Prompt.
            what: Name of the text in the notes.
            tokens: Maximum number of tokens; 0 is `answer_tokens`.
        """
        (reply,) = yield from self.method.write_all([prompt], self.ports, what, tokens)
        self.notes += reply.notes
        return reply.text

    def ended(
        self,
        answer: str,
        details: Mapping[str, object] | None = None,
        *,
        excerpts: Sequence[Excerpt] | None = None,
        decision: RetrievalDecision | None = None,
    ) -> Context:
        """Build the context of all rounds.

        Args:
            answer: Answer, stored as the context's draft.
            details: Details of the context.
            excerpts: Excerpts of the context. Defaults to the kept passages, whole.
            decision: Decision whether to retrieve, if there was one.
        """
        kept = tuple(map(Excerpt.whole, self.passages) if excerpts is None else excerpts)
        return Context(
            self.question,
            kept,
            queries=tuple(self.queries),
            decision=decision,
            draft=answer or None,
            notes=tuple(self.notes),
            method=self.name,
            details={**(details or {}), **({"answers": True} if answer else {})},
            selection=self.selection.rows(kept),
        )


reply_text = partial(check_text, "reply")


def expanded_query(question: str, document: str) -> str:
    """Return the query of a round, ``[q; y]`` (section 2.2).

    Args:
        question: Question; line breaks become blanks.
        document: Generated document; if it is blank, the query is the question.
    """
    return " ".join(f"{question} {document}".split()) if document else question


def update(found: Sequence[Passage], before: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return ``R_update``: what is found and was not before, in order (equation 1).

    Passages are equal if title and text are; scores in their metadata change with the query.

    Args:
        found: Passages of this round.
        before: Passages of the rounds before.
    """
    known = {(passage.title, passage.text) for passage in before}
    return tuple(passage for passage in found if (passage.title, passage.text) not in known)


def read_document(text: str, max_tokens: int, count_tokens: TokenCounter) -> tuple[str, bool]:
    """Read a generated document from a reply.

    Thoughts in tags, a leading label, and a next passage or question that the model makes up are
    removed.

    Args:
        text: Reply of the model.
        max_tokens: Maximum number of tokens.
        count_tokens: Counter of tokens.

    Returns:
        The document, and whether it was shortened.
    """
    whole = bare_reply(text)
    kept = cut(whole, max_tokens, count_tokens)
    return kept, kept != whole


def bare_reply(text: str) -> str:
    """Return a reply without thoughts, a label, and what it makes up as the next question."""
    body = _bare(text)
    following = _NEXT.search(body, 1)
    return body[: following.start()].strip() if following else body


def read_answer(text: str, max_tokens: int, count_tokens: TokenCounter) -> str:
    """Return the first line of an answer, shortened to a number of tokens.

    Args:
        text: Reply of the model.
        max_tokens: Maximum number of tokens.
        count_tokens: Counter of tokens.
    """
    lines = _bare(text).splitlines()
    return cut(lines[0].strip(), max_tokens, count_tokens) if lines else ""


def cut(text: str, max_tokens: int, count_tokens: TokenCounter) -> str:
    """Return the longest beginning of a text within a number of tokens.

    It ends at the end of a word unless the first word alone is too long.

    Args:
        text: Text.
        max_tokens: Maximum number of tokens.
        count_tokens: Counter of tokens.
    """
    if count_tokens(text) <= max_tokens:
        return text
    ends = range(1, len(text) + 1)
    end = bisect_right(ends, max_tokens, key=lambda length: count_tokens(text[:length]))
    kept = text[:end]
    inside = not (text[end].isspace() or kept[-1:].isspace())
    return (kept.rsplit(maxsplit=1)[0] if inside and len(kept.split()) > 1 else kept).strip()


def _bare(text: str) -> str:
    body = strip_thoughts(text).strip()
    label = _LABEL.match(body)
    return body[label.end() :] if label else body


def final_answer(text: str) -> str:
    """Find what stands behind the last "the answer is", up to the end of its line; else blank."""
    ends = [found.end() for found in _FINAL.finditer(text)]
    return text[ends[-1] :].splitlines()[0].strip().removesuffix(".") if ends else ""


def reasoned(text: str) -> tuple[str, tuple[str, ...]]:
    """Read the answer out of a reasoning; one that ignores the form stands as a whole."""
    answer = final_answer(text)
    if answer or not text:
        return answer, ()
    return text, ("the reasoning does not say what the answer is: the whole of it stands",)


Prompt: TypeAlias = Annotated[Template, partial(check_able, verb="render")]
