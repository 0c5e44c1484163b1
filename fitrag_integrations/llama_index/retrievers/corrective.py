"""Correct what a retriever finds: CRAG as a retriever (CRAG, section 4)."""

from __future__ import annotations

from fitrag_integrations.llama_index.base.options import CragOptions


class CorrectiveRetriever(CragOptions):
    """Retriever that grades what ``base`` returns, refines it, and searches the web if it is not
    good (CRAG).

    Nodes from the web have ``web``, ``url`` and ``trust`` ("untrusted") in their metadata.

    Args:
        base: Retriever of candidates.
        search: Search provider, tool, retriever, or function of a query; without one the web is not
            searched.
        llm: Language model that writes the keywords; None takes them from the question.

    The other options are those of ``fitrag_integrations.methods.Crag``.

    Example:
        >>> retriever = CorrectiveRetriever(index.as_retriever(), search=my_search_tool)
        >>> nodes = retriever.retrieve("How often does the night bus leave?")
        >>> retriever.last_run.value.action
    """
