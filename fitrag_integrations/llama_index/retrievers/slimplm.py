"""Retrieve for what a slim proxy model's answer shows to be missing: SlimPLM as a retriever."""

from __future__ import annotations

from fitrag_integrations.llama_index.base.options import SlimPLMOptions


class SlimPLMRetriever(SlimPLMOptions):
    """Retriever for the claims and questions that a small proxy model could not answer (SlimPLM).

    It returns an empty list if the judge finds that the question is known. ``proxy``, ``judge`` and
    ``rewriter`` may be LlamaIndex LLMs.

    Args:
        base: Retriever to query.
        proxy: Model that writes the heuristic answer; None is the bundled one.
        judge: Model that decides whether that answer shows knowledge; None is the bundled one.
        rewriter: Model that turns the answer into claims and queries; None is ``llm``.
        llm: Language model in place of a ``rewriter``; without either, the question is the query.

    The other options are those of ``fitrag_integrations.methods.SlimPLM``.

    Example:
        >>> retriever = SlimPLMRetriever(index.as_retriever(), llm=llm)
        >>> nodes = retriever.retrieve("Who scored Amarcord?")
    """
