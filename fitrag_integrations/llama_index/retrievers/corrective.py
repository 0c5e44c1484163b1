"""Correct what a retriever finds: CRAG as a retriever (CRAG, section 4)."""

from __future__ import annotations

from fitrag_integrations.llama_index.base.options import CragOptions


class CorrectiveRetriever(CragOptions):
    """Grade what a retriever finds, search the web where that is not enough, keep what matters.

    ``search`` is a provider, a tool, a retriever, or a function from a query to results; without
    one nothing is searched. ``llm`` rewrites the question into keywords; without it they are taken
    from the question. ``evaluator`` None is the embedded one. The other options are those of
    ``fitrag_integrations.methods.Crag``. Nodes from the web say so in their metadata: ``web``,
    ``url``, and ``trust``, which is ``"untrusted"``.
    """
