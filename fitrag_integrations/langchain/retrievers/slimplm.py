"""Retrieve as SlimPLM does: for what a slim proxy model's answer shows to be missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from fitrag_integrations.langchain.base.options import SlimPLMOptions
from fitrag_integrations.langchain.base.ports import Backend, text_of
from fitrag_integrations.langchain.base.retriever import DerivedRetriever, Writing
from fitrag_integrations.methods.slimplm.method import SlimPLM
from fitrag_integrations.ports import Method

ROLES = {"proxy": "draft", "judge": "judge", "rewriter": "rewrite"}  # and their ports' names


class SlimPLMRetriever(SlimPLMOptions, DerivedRetriever, Writing):
    """Retriever for the claims and questions that a small proxy model could not answer.

    ::

        SlimPLMRetriever(base=store.as_retriever(), llm=llm)

    It gives nothing where the judge finds that the question is known. ``proxy``, ``judge`` and
    ``rewriter`` may be Runnables, such as chat models; ``llm`` stands in for a ``rewriter``. The
    ``context`` of what comes back has the decision, the claims with their verdicts, and what there
    is to note.
    """

    def methods(self, configs: Sequence[RunnableConfig], **options: object) -> list[Method]:
        """Return the method of each question, whose Runnables are called under its config.

        They are equal but for the configs, so that the calls of all questions join.
        """
        backends = self._backends()
        return [
            SlimPLM(
                **self.settings(
                    **{name: each.port(config, ROLES[name]) for name, each in backends.items()}
                )
            )
            for config in configs
        ]

    def settings(self, **given: object) -> dict[str, Any]:
        """Return SlimPLM's options as they are now, with ports for what is a Runnable."""
        ports = {
            name: each.port(RunnableConfig(), ROLES[name])
            for name, each in self._backends().items()
        }
        return super().settings(**{**ports, **given})

    def _backends(self) -> dict[str, Backend]:
        return {
            name: Backend(each, text_of)
            for name, each in self
            if name in ROLES and isinstance(each, Runnable)
        }
