"""Retrieve for what a slim proxy model's answer shows to be missing: SlimPLM as a retriever."""

from __future__ import annotations

from fitrag_integrations.llama_index.base.options import SlimPLMOptions


class SlimPLMRetriever(SlimPLMOptions):
    """Retrieve for the claims and questions a proxy model left open, or not at all.

    ``proxy`` writes the heuristic answer and ``judge`` says whether it is known; None are the
    embedded ones. ``rewriter`` turns it into claims and queries; None is ``llm``, and without
    either the question itself is retrieved for. All three may be LlamaIndex LLMs. The other options
    are those of ``fitrag_integrations.methods.SlimPLM``. An empty list means that the question is
    known.
    """
