"""Self-Ask (Press et al., 2022, arXiv:2210.03350): ask follow-up questions, look each up.

The language model asks, a retriever finds, and the language model reads the intermediate answer
out of the passages, as SlimPLM has it (appendix B, Table 10); the paper asks a web search engine
for a short answer. Two worked examples stand for the paper's four. Left out: having the model go
on inside one generation, since a port takes no stop texts; what it writes behind its first
follow-up question is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fitrag_integrations.core.checks import Count
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.prompts import READ
from fitrag_integrations.methods.writing import Generating, Rounds, final_answer, update
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context
from fitrag_integrations.values.prompt import PromptTemplate

SELF_ASK = PromptTemplate(
    "self_ask",
    "Answer the last question by way of follow-up questions and intermediate answers. Where none "
    "is needed, give the final answer at once.\n"
    "Question: Which of the towns Arlow and Besk was founded first?\n"
    "Are follow up questions needed here: Yes.\n"
    "Follow up: When was Arlow founded?\n"
    "Intermediate answer: Arlow was founded in 1712.\n"
    "Follow up: When was Besk founded?\n"
    "Intermediate answer: Besk was founded in 1694.\n"
    "So the final answer is: Besk\n"
    "Question: In which country was the architect of the Tirva bridge born?\n"
    "Are follow up questions needed here: Yes.\n"
    "Follow up: Who was the architect of the Tirva bridge?\n"
    "Intermediate answer: The architect of the Tirva bridge was Ilse Marbach.\n"
    "Follow up: In which country was Ilse Marbach born?\n"
    "Intermediate answer: Ilse Marbach was born in Norland.\n"
    "So the final answer is: Norland\n"
    "Question: {question}\n"
    "Are follow up questions needed here:{draft}",
    reply="",
)
READ_BRIEFLY = PromptTemplate(
    "read_briefly",
    "Answer the last question in one short sentence, from the passages below and from nothing "
    "else.\n"
    "Passages:\n{passages}\nQuestion: When was Arlow founded?\nAnswer: Arlow was founded in 1712.\n"
    "Question: Who was the architect of the Tirva bridge?\n"
    "Answer: The architect of the Tirva bridge was Ilse Marbach.\n"
    "Question: {question}\nAnswer:",
    one_line=True,
    reply="",
)
_FOLLOW_UP = re.compile(r"follow[ -]?up(?: question)?:[ \t]*(\S[^\n]*)", re.IGNORECASE)
_INVENTED = re.compile(r"intermediate answer:", re.IGNORECASE)
Step: TypeAlias = tuple[str, str]  # a follow-up question and its answer


@dataclass(frozen=True, kw_only=True)
class SelfAsk(Generating):
    """Self-Ask: the language model asks follow-up questions, each answered from passages.

    The final answer is requested after the last round, or when the model repeats a question. If a
    reply is missing or has another form, the answer comes from the passages found so far, or from a
    retrieval with the question itself. `details["follow_ups"]` has questions and answers.

    Args:
        rounds: Maximum number of follow-up questions.
        k: Passages per follow-up question.
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
    """

    rounds: Count = 3
    k: Count = 3

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question, its answer in `draft`.

        The excerpts are all passages found, whole, in the order of the follow-up questions. The
        flow raises `InputError` for a blank question.
        """
        work, steps, answer = Rounds(self, question, ports, "selfask"), list[Step](), ""
        for _ in range(self.rounds):
            # the language model asks a follow-up question, or gives the final answer
            text = yield from work.write(
                work.prompt(SELF_ASK, (), written(steps)), "follow-up question"
            )
            follow_up, answer = read_step(text)
            if answer or not follow_up:
                break
            if follow_up in (one for one, _ in steps):
                work.notes.append("the language model asked the same again")
                break

            # retrieve for it, and read its answer
            own = Rounds(self, follow_up, ports, work.name, selection=work.selection)
            own.passages = yield from own.retrieve(follow_up, self.k)
            work.notes += [f"{follow_up!r}: {note}" for note in own.notes]
            work.passages += update(own.passages, work.passages)
            found = ""
            if own.passages:
                found = yield from work.write(own.prompt(READ_BRIEFLY), "intermediate answer")
            steps.append((follow_up, (found.splitlines() or ["This could not be found."])[0]))
        if not answer and follow_up:  # asked again, or the last round
            asked = f"{written(steps)}So the final answer is:"
            text = yield from work.write(work.prompt(SELF_ASK, (), asked))
            answer = final_answer(text) or "".join(text.splitlines()[:1])
        elif not answer:  # from what was found, or from what the question finds
            if not work.passages:
                work.notes.append(
                    "the language model asked no follow-up question: the question itself was "
                    "looked up"
                )
                work.passages = yield from work.retrieve(question, self.k, first=True)
            answer = yield from work.write(work.prompt(READ))
        work.queries = [one for one, _ in steps]
        follow_ups = [{"question": one, "answer": other} for one, other in steps]
        return work.ended(answer, {"follow_ups": follow_ups})


def written(steps: Sequence[Step]) -> str:
    """Format the steps as in the prompt's examples."""
    lines = [f"Follow up: {one}\nIntermediate answer: {other}\n" for one, other in steps]
    return " Yes.\n" + "".join(lines) if lines else ""


def read_step(text: str) -> tuple[str, str]:
    """Return the next follow-up question or the final answer, whichever comes first; blank if none.

    Text after an "Intermediate answer:" was made up by the model and is ignored.
    """
    invented = _INVENTED.search(text)
    own = text[: invented.start()] if invented else text
    found = _FOLLOW_UP.search(own)
    answer = final_answer(own[: found.start()] if found else own)
    return ("", answer) if answer or found is None else (found[1].strip(), "")
