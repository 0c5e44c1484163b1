"""What the baselines that write their answer themselves have in common.

A reply may be blank, run on without end, ignore the form it was asked for, or not come at all. The
same is done about it everywhere: it is cut to a number of tokens, and what fails is noted, while
the method goes on with what it has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from fitrag_integrations.core.checks import check_text, check_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.itrg.writer import read_document, told
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.tokens import CountTokens, TokenCounter, counter_for, counter_or_none
from fitrag_integrations.types import Context, Passage
from fitrag_integrations.values.prompt import Asked, cut_note
from fitrag_integrations.values.windows import usable

OnError = Literal["degrade", "raise"]
_FINAL = re.compile(r"\banswer\s+is\b[:\s]*(?=\S)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reply:
    """Hold what a language model wrote, cleaned and cut; blank where a note says why."""

    text: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generating:
    """Ask the caller's language model, and put the answer into `Context.draft`.

    A reply of more than `answer_tokens`, as `count_tokens` counts (None estimates), is cut. With
    `on_error` "degrade" a call that fails counts as a blank reply; "raise" raises it. An answer
    that was written is marked by `details["answers"]`; where there is none, the draft is None and
    the caller's own prompt is left to answer.
    """

    _: KW_ONLY
    answer_tokens: int = 256
    count_tokens: CountTokens = None
    on_error: OnError = "degrade"

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        check_whole("answer_tokens", self.answer_tokens, low=1)
        object.__setattr__(self, "count_tokens", counter_or_none(self.count_tokens))
        if self.on_error not in ("degrade", "raise"):
            raise InputError.of("on_error", given=self.on_error, allowed="'degrade' or 'raise'")

    def write(self, prompt: str, ports: Ports, what: str, tokens: int = 0) -> Flow[Reply]:
        """Have one text written by `ports.generate`; `what` names it in the notes."""
        (reply,) = yield from self.write_all([prompt], ports, what, tokens)
        return reply

    def write_all(
        self, prompts: Sequence[str], ports: Ports, what: str, tokens: int = 0
    ) -> Flow[list[Reply]]:
        """Have several texts written by `ports.generate` in one ask; all blank where it fails.

        `what` and `tokens` are those of `read`.
        """
        wanted = [Asked(prompt, tokens=tokens or self.answer_tokens) for prompt in prompts]
        asked = ports.generate.ask(wanted)  # a missing port raises here, at any on_error
        try:
            texts = yield from asked
            given = [check_text("reply", text) for text in texts]
        except Exception as error:
            if self.on_error == "raise":
                raise
            return [Reply("", (f"the language model wrote no {what} ({told(error)})",))] * len(
                prompts
            )
        replies = []
        for prompt, text in zip(prompts, given, strict=True):
            reply = self.read(text.removeprefix(prompt), what, tokens)
            replies.append(reply if reply.notes else Reply(reply.text, cut_note(text, what)))
        return replies

    def read(self, text: str, what: str, tokens: int = 0) -> Reply:
        """Clean and cut a text; `tokens` 0 is `answer_tokens`, `what` names it in the notes."""
        most = tokens or self.answer_tokens
        kept, was_cut = read_document(text, most, self.counter)
        if not kept:
            return Reply("", (f"the language model wrote no {what}",))
        return Reply(kept, (f"the {what} was cut to {most} tokens",) if was_cut else ())

    def look_up(self, query: str, ports: Ports) -> Flow[tuple[list[Passage], tuple[str, ...]]]:
        """Ask `ports.retrieve` with `query`; what fails gives nothing, and a note."""
        asked = ports.retrieve.ask([query])  # a missing port raises here, at any on_error
        try:
            (found,) = yield from asked
        except Exception as error:
            if self.on_error == "raise":
                raise
            return [], (f"a retrieval failed ({told(error)})",)
        return usable(found)

    def answered(self, context: Context, answer: str, notes: Sequence[str] = ()) -> Context:
        """Put the final answer and `notes` into a context; a blank one leaves it to the caller."""
        details = {**context.details, "answers": True} if answer else context.details
        notes = (*context.notes, *notes)
        return replace(context, draft=answer or None, notes=notes, details=details)

    @property
    def counter(self) -> TokenCounter:
        """Give the counter in use."""
        return counter_for(self.count_tokens)


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


def check_template(field: str, template: Any) -> None:
    """Require an object that renders a context."""
    if isinstance(template, type) or not callable(getattr(template, "render", None)):
        raise InputError.of(field, given=template, allowed="an object with a 'render' method")
