"""No retrieval: the bare question, and what the language model makes of it.

What every paper here compares with first. Left out: demonstrations, for which there is `template`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines._prompts import PLAIN
from fitrag_integrations.methods.writing import Generating, Prompt
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, RetrievalDecision

NEVER = RetrievalDecision(False, why="this method never retrieves")


@dataclass(frozen=True)
class Vanilla(Generating):
    """The language model answers the question without passages, in one call.

    The papers' baseline without retrieval (FIT-RAG, section 5.1). `template` renders the prompt.
    """

    _: KW_ONLY
    template: Prompt = PLAIN

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        check_text("question", question, blank=False)
        context = Context(question, decision=NEVER, method="vanilla")
        reply = yield from self.write(context.prompt(self.template), ports, "answer")
        return self.answered(context, reply.text, reply.notes)
