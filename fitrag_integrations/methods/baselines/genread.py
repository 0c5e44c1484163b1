"""GenRead (Yu et al., ICLR 2023, arXiv:2209.10063): generate a document rather than retrieve one.

The language model writes a background document, and answers from it. Left out: the clustering of
training questions by which the paper varies its prompt and gets several different documents; with
one prompt and greedy decoding they would all be the same one.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

from fitrag_integrations.core.checks import Count, check_text
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines._prompts import BACKGROUND, PLAIN, READ
from fitrag_integrations.methods.baselines.vanilla import NEVER
from fitrag_integrations.methods.writing import Generating
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt, Passage


@dataclass(frozen=True)
class GenRead(Generating):
    """GenRead: the language model writes a document, then answers from it: two calls, no retrieval.

    The document is the one excerpt of the context; its passage is marked by
    `metadata["generated"]`. One of more than `document_tokens` is cut. Where none is written, the
    question is answered without.
    """

    _: KW_ONLY
    document_tokens: Count = 256

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        check_text("question", question, blank=False)
        context = Context(question, decision=NEVER, method="genread")
        prompt = context.prompt(BACKGROUND)
        document = yield from self.write(prompt, ports, "document", self.document_tokens)
        context = replace(context, notes=document.notes)
        if document.text:
            made = Passage("generated", document.text, metadata={"generated": True})
            context = replace(context, excerpts=(Excerpt.whole(made),))
        template = READ if document.text else PLAIN
        reply = yield from self.write(context.prompt(template), ports, "answer")
        return self.answered(context, reply.text, reply.notes)
