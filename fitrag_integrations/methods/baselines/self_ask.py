"""Self-Ask (Press et al., 2022, arXiv:2210.03350): ask follow-up questions, look each up.

The language model asks, a retriever finds, and the language model reads the intermediate answer
out of the passages, as SlimPLM has it (appendix B, Table 10); the paper asks a web search engine
for a short answer. Two worked examples stand for the paper's four. Left out: having the model go
on inside one generation, since a port takes no stop texts; what it writes behind its first
follow-up question is dropped.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, field

from fitrag_integrations.core.checks import Count, check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines._prompts import READ, READ_BRIEFLY, SELF_ASK
from fitrag_integrations.methods.writing import Generating, final_answer, update
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.selected import Selection

_FOLLOW_UP = re.compile(r"follow[ -]?up(?: question)?:[ \t]*(\S[^\n]*)", re.IGNORECASE)
_INVENTED = re.compile(r"intermediate answer:", re.IGNORECASE)
FINAL = "So the final answer is:"
NOT_FOUND = "This could not be found."
OTHER_FORM = "the language model asked no follow-up question: the question itself was looked up"


@dataclass
class _Work:
    """Keep what one question has come to."""

    passages: list[Passage] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)  # follow-ups and their answers
    notes: list[str] = field(default_factory=list)
    selection: Selection = field(default_factory=Selection)

    @property
    def written(self) -> str:
        """Write the steps in the form of the prompt's examples."""
        lines = [f"Follow up: {one}\nIntermediate answer: {other}\n" for one, other in self.steps]
        return " Yes.\n" + "".join(lines) if lines else ""

    @property
    def excerpts(self) -> tuple[Excerpt, ...]:
        return tuple(map(Excerpt.whole, self.passages))


@dataclass(frozen=True)
class SelfAsk(Generating):
    """Self-Ask: at most `rounds` follow-up questions, each answered from its first `k` passages.

    A question the model asks again, and the last round, end in asking for the final answer. A reply
    in another form, or none, ends in an answer from what was found so far, or from a retrieval with
    the question itself. `details["follow_ups"]` has questions and answers.
    """

    _: KW_ONLY
    rounds: Count = 3
    k: Count = 3

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question, its answer in `draft`.

        The excerpts are all passages found, whole, in the order of the follow-up questions. The
        flow raises `InputError` for a blank question.
        """
        check_text("question", question, blank=False)
        work = _Work()
        answer = yield from self._asked(question, ports, work)
        follow_ups = [{"question": one, "answer": other} for one, other in work.steps]
        context = Context(
            question,
            work.excerpts,
            queries=tuple(one for one, _ in work.steps),
            method="selfask",
            details={"follow_ups": follow_ups},
            selection=work.selection.rows(work.excerpts),
        )
        return self.answered(context, answer, work.notes)

    def _asked(self, question: str, ports: Ports, work: _Work) -> Flow[str]:
        """Ask follow-up questions until there is a final answer."""
        for _ in range(self.rounds):
            prompt = Context(question, draft=work.written).prompt(SELF_ASK)
            reply = yield from self.write(prompt, ports, "follow-up question")
            work.notes.extend(reply.notes)
            follow_up, answer = read_step(reply.text)
            if answer:
                return answer
            if not follow_up:
                return (yield from self._plainly(question, ports, work))
            if follow_up in (one for one, _ in work.steps):
                work.notes.append("the language model asked the same again")
                break
            yield from self._followed(follow_up, ports, work)
        prompt = Context(question, draft=work.written + FINAL).prompt(SELF_ASK)
        reply = yield from self.write(prompt, ports, "answer")
        work.notes.extend(reply.notes)
        return final_answer(reply.text) or first_line(reply.text)

    def _followed(self, follow_up: str, ports: Ports, work: _Work) -> Flow[None]:
        """Look a follow-up question up, and read its answer."""
        best, notes = yield from self.look_up(follow_up, ports, k=self.k, selection=work.selection)
        answer = ""
        work.notes.extend(f"{follow_up!r}: {note}" for note in notes)
        work.passages.extend(update(best, work.passages))
        if best:
            shown = Context(follow_up, tuple(map(Excerpt.whole, best)))
            reply = yield from self.write(shown.prompt(READ_BRIEFLY), ports, "intermediate answer")
            work.notes.extend(reply.notes)
            answer = first_line(reply.text)
        work.steps.append((follow_up, answer or NOT_FOUND))

    def _plainly(self, question: str, ports: Ports, work: _Work) -> Flow[str]:
        """Answer from what was found, or from what the question itself finds."""
        if not work.passages:
            work.notes.append(OTHER_FORM)
            passages, notes = yield from self.look_up(
                question, ports, first=True, k=self.k, selection=work.selection
            )
            work.passages.extend(passages)
            work.notes.extend(notes)
        prompt = Context(question, work.excerpts).prompt(READ)
        reply = yield from self.write(prompt, ports, "answer")
        work.notes.extend(reply.notes)
        return reply.text


def read_step(text: str) -> tuple[str, str]:
    """Read a follow-up question, or a final answer, whichever comes first; both blank if neither.

    What stands behind an "Intermediate answer:" was made up and is not read.
    """
    invented = _INVENTED.search(text)
    own = text[: invented.start()] if invented else text
    found = _FOLLOW_UP.search(own)
    answer = final_answer(own[: found.start()] if found else own)
    if answer or found is None:
        return "", answer
    return found[1].strip(), ""


def first_line(text: str) -> str:
    """Return the first line of a text; blank for a blank one."""
    lines = text.strip().splitlines()
    return lines[0].strip() if lines else ""
