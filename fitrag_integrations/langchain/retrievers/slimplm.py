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

    def method_now(self, **options: object) -> Method:
        """Return SlimPLM with the fields as they are at this call."""
        return self.methods([RunnableConfig()])[0]

    def methods(self, configs: Sequence[RunnableConfig], **options: object) -> list[Method]:
        """Return the method of each question: Runnables are asked under its config, in joined
        calls.

        Those of all questions are equal but for that.
        """
        backends = {
            name: Backend(each, text_of)
            for name, each in self
            if name in ROLES and isinstance(each, Runnable)
        }
        return [self._method(backends, config) for config in configs]

    def settings(self, **given: object) -> dict[str, Any]:
        """Return SlimPLM's options as they are now, with ports for what is a Runnable."""
        runnables = {
            name: Backend(each, text_of).port(RunnableConfig(), ROLES[name])
            for name, each in self
            if name in ROLES and isinstance(each, Runnable)
        }
        return super().settings(**{**runnables, **given})

    def _method(self, backends: dict[str, Backend], config: RunnableConfig) -> Method:
        ports = {name: each.port(config, ROLES[name]) for name, each in backends.items()}
        return SlimPLM(**self.settings(**ports))
