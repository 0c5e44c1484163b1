"""Chain of thought (Wei et al., 2022, arXiv:2201.11903): reason first, then answer.

The prompt has two worked examples, as the paper has eight, and the words of its zero-shot form
(Kojima et al., 2022, arXiv:2205.11916), so that models of both kinds know what is wanted. Left
out: the second call by which the zero-shot form asks for the bare answer, which is read out of the
reasoning instead, and sampling several chains to vote on (self-consistency).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines._prompts import STEPS
from fitrag_integrations.methods.baselines.vanilla import NEVER
from fitrag_integrations.methods.writing import Generating, Prompt, reasoned
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context


@dataclass(frozen=True)
class CoT(Generating):
    """Chain of thought: the language model reasons step by step, without passages, in one call.

    The answer is what stands behind "the answer is"; a reply without it stands as a whole, with a
    note. `details["reasoning"]` is all that was written. `template` renders the prompt.
    """

    _: KW_ONLY
    template: Prompt = STEPS

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        check_text("question", question, blank=False)
        context = Context(question, decision=NEVER, method="cot")
        reply = yield from self.write(context.prompt(self.template), ports, "answer")
        answer, more = reasoned(reply.text)
        context = replace(context, details={"reasoning": reply.text})
        return self.answered(context, answer, (*reply.notes, *more))
