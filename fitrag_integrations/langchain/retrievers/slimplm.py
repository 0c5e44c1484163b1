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
    """Retriever for the claims and questions that a small proxy model could not answer (SlimPLM).

    It returns nothing if the judge finds that the question is known. The ``context`` of the result
    has the decision, the claims with their verdicts, and the notes.

    Args:
        base: Retriever to query: any Runnable or callable.
        proxy: Model that writes the heuristic answer, such as a chat model; None is the bundled
            one.
        judge: Model that decides whether that answer shows knowledge; None is the bundled one.
        rewriter: Model that turns the answer into claims and queries; None is ``llm``.
        llm: Language model in place of a ``rewriter``; without either, the question is the query.
        k: Maximum number of documents; None is no limit.
        ids: "pieces" for ids of their own, "source" for those of the documents.

    The other options are those of ``fitrag_integrations.methods.SlimPLM``.

    Example:
        >>> retriever = SlimPLMRetriever(base=store.as_retriever(), llm=llm)
        >>> found = retriever.invoke("Who scored Amarcord?")
    """

    def methods(self, configs: Sequence[RunnableConfig], **options: object) -> list[Method]:
        """Return the method of each question, whose Runnables are called under its config.

        They are equal but for the configs, so that the calls of all questions join.

        Args:
            configs: The config of each question.
            **options: Not used.
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
