"""No retrieval: the bare question, chain of thought, and a document that the model writes itself.

``Vanilla`` is what every paper here compares with first. ``CoT`` is chain of thought (Wei et al.,
2022, arXiv:2201.11903): its prompt has two worked examples, as the paper has eight, and the words
of the zero-shot form (Kojima et al., 2022, arXiv:2205.11916); left out are the second call for the
bare answer, which is read out of the reasoning instead, and voting over several chains. ``GenRead``
(Yu et al., ICLR 2023, arXiv:2209.10063) writes a background document and answers from it; left out
is the clustering of training questions by which the paper varies its prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitrag_integrations.core.checks import Count
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.prompts import PLAIN, READ, STEPS
from fitrag_integrations.methods.writing import Generating, Prompt, Rounds, reasoned
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Passage, RetrievalDecision
from fitrag_integrations.values.prompt import PromptTemplate

BACKGROUND = PromptTemplate(
    "background",
    "Write a background document with the facts that are needed to answer the question.\n"
    "Question: {question}\nDocument:",
    reply="document",
)
NEVER = RetrievalDecision(False, why="this method never retrieves")


@dataclass(frozen=True, kw_only=True)
class Vanilla(Generating):
    """Baseline in which the language model answers without passages, in one call.

    The papers' baseline without retrieval (FIT-RAG, section 5.1).

    Args:
        template: Renders the prompt.
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
    """

    template: Prompt = PLAIN

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        work = Rounds(self, question, ports, "vanilla")
        prompt = work.prompt(self.template)
        (reply,) = yield from self.write_all([prompt], ports, "answer")
        work.notes += reply.notes
        wrote_nothing = not (reply.text or reply.failed)  # a failed call is worth another one
        asked = {"asked": str(prompt)} if wrote_nothing else {}
        return work.ended(reply.text, asked, decision=NEVER)


@dataclass(frozen=True, kw_only=True)
class CoT(Generating):
    """Chain of thought: the language model reasons step by step, without passages, in one call.

    The answer is what follows "the answer is"; a reply without it is used as a whole, with a note.
    `details["reasoning"]` is all that was written.

    Args:
        template: Renders the prompt.
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
    """

    template: Prompt = STEPS

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        work = Rounds(self, question, ports, "cot")
        reasoning = yield from work.write(work.prompt(self.template))
        answer, notes = reasoned(reasoning)
        work.notes += notes
        return work.ended(answer, {"reasoning": reasoning}, decision=NEVER)


@dataclass(frozen=True, kw_only=True)
class GenRead(Generating):
    """GenRead: the language model writes a document, then answers from it: two calls, no retrieval.

    The document is the one excerpt of the context; its passage is marked by
    `metadata["generated"]`. If no document is written, the question is answered without one.

    Args:
        document_tokens: Maximum tokens of the document; a longer one is cut, with a note.
        answer_tokens: Maximum tokens of the answer; a longer one is cut, with a note.
        count_tokens: Counts the tokens of a text; None estimates them.
        on_error: "degrade" continues with a note if a call fails, "raise" raises the error.
    """

    document_tokens: Count = 256

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        work = Rounds(self, question, ports, "genread")
        document = yield from work.write(work.prompt(BACKGROUND), "document", self.document_tokens)
        if document:
            work.passages = [Passage("generated", document, metadata={"generated": True})]
        answer = yield from work.write(work.prompt(READ if document else PLAIN))
        return work.ended(answer, decision=NEVER)
