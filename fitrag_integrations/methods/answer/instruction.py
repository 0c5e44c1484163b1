"""One instruction for all methods: what is compared is then what they found, not how they ask.

How briefly an answer is wanted decides accuracy by inclusion more than most methods do.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitrag_integrations.methods.baselines._prompts import PLAIN, READ
from fitrag_integrations.methods.prompts import template_named
from fitrag_integrations.types import Context, Excerpt, Passage, Template

EQUAL, OWN = "equal", "own"


@dataclass(frozen=True)
class OneInstruction:
    """Template with a short instruction, and a plain question if nothing was kept.

    The plain prompt is the one by which closed-book answers are labelled, so that a question judged
    known is asked as it was when it was found to be. What a method wrote to be read, as ITRG its
    document, stands in the place of the passages.
    """

    read: Template = READ
    plain: Template = PLAIN

    def render(self, context: Context) -> str:
        """Write the prompt."""
        shown = context
        if "template" in context.details and context.draft:
            document = Excerpt.whole(Passage("document", context.draft))
            shown = Context(context.question, (document,))
        return (self.read if shown.excerpts else self.plain).render(shown)


def instruction_named(name: str) -> Template | None:
    """Find the instruction for all methods: ``equal``, or the name of a template for what was kept.

    ``own`` gives None, which leaves the prompt to each context.
    """
    if name == OWN:
        return None
    return OneInstruction() if name == EQUAL else OneInstruction(template_named(name))
