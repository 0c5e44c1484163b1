"""Retrieve as CRAG does: judge, refine, and search the web where needed (CRAG, section 4)."""

from __future__ import annotations

from fitrag_integrations.langchain.base.options import CragOptions
from fitrag_integrations.langchain.base.retriever import DerivedRetriever, Searching
from fitrag_integrations.methods.compose.fitted import FromFitted


class CorrectiveRetriever(FromFitted, CragOptions, DerivedRetriever, Searching):
    """Retriever that grades what ``base`` returns, refines it, and searches the web if it is not
    good (CRAG).

    Strips of the documents come first, then those of the web, each in the order of its documents.
    Those of the web carry ``url``, ``web`` and ``trust``. The ``context`` of the result has the
    action, the thresholds, the notes, and ``web_error`` if the search failed.

    Args:
        base: Retriever of candidates: any Runnable or callable.
        search: Search tool, provider, Runnable or callable; without one the web is not searched.
        llm: Language model that writes the keywords; None takes them from the question.
        k: Maximum number of documents; None is no limit.
        ids: "pieces" for ids of their own, "source" for those of the documents.

    The other options are those of ``fitrag_integrations.methods.Crag``.

    Example:
        >>> retriever = CorrectiveRetriever(base=store.as_retriever(), search=my_search_tool)
        >>> retriever.invoke("How often does the night bus leave?").context.action
    """
