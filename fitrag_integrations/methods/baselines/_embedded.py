"""The embedded generator, loaded when it is first asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitrag_integrations._continuation import Continuation
from fitrag_integrations.methods._defaults import (
    EmbeddedGenerator,
    adefault_model,
    default_model,
)
from fitrag_integrations.types import Draft


class EmbeddedModel(EmbeddedGenerator):
    """Do what the baselines ask of a model that tells its probabilities."""

    def draft(self, questions: Sequence[str]) -> Sequence[Draft]:
        """Write the first words of an answer to each question."""
        written: Sequence[Draft] = default_model("generator").draft(questions)
        return written

    async def adraft(self, questions: Sequence[str]) -> Sequence[Draft]:
        """Do what `draft` does without blocking the event loop."""
        written: Sequence[Draft] = await (await adefault_model("generator")).adraft(questions)
        return written

    def rescore(self, questions: Sequence[str], drafts: Sequence[str]) -> Sequence[Draft]:
        """Measure drafts already written."""
        told: Sequence[Draft] = default_model("generator").rescore(questions, drafts)
        return told

    async def arescore(self, questions: Sequence[str], drafts: Sequence[str]) -> Sequence[Draft]:
        """Do what `rescore` does without blocking the event loop."""
        told: Sequence[Draft] = await (await adefault_model("generator")).arescore(
            questions, drafts
        )
        return told

    def continue_with_logprobs(
        self, prompts: Sequence[str], beginnings: Sequence[str]
    ) -> Sequence[Continuation]:
        """Go on with answers that were begun."""
        continuer = default_model("continuer")
        told: Sequence[Continuation] = continuer.continue_with_logprobs(prompts, beginnings)
        return told

    async def acontinue_with_logprobs(
        self, prompts: Sequence[str], beginnings: Sequence[str]
    ) -> Sequence[Continuation]:
        """Do what `continue_with_logprobs` does without blocking the event loop."""
        continuer = await adefault_model("continuer")
        told: Sequence[Continuation] = await continuer.acontinue_with_logprobs(prompts, beginnings)
        return told

    def ensemble(self, items: Sequence[Any]) -> Sequence[str]:
        """Continue weighted prompts, as `models.ReplugGenerator` does."""
        texts: Sequence[str] = default_model("replug").ensemble(items)
        return texts

    async def aensemble(self, items: Sequence[Any]) -> Sequence[str]:
        """Do what `ensemble` does without blocking the event loop."""
        texts: Sequence[str] = await (await adefault_model("replug")).aensemble(items)
        return texts


EMBEDDED_MODEL = EmbeddedModel()
