"""Retrieve as CRAG does: judge, refine, and search the web where needed (CRAG, section 4)."""

from __future__ import annotations

from fitrag_integrations.langchain.base.options import CragOptions
from fitrag_integrations.langchain.base.retriever import DerivedRetriever, Searching
from fitrag_integrations.methods.compose.fitted import FromFitted


class CorrectiveRetriever(FromFitted, CragOptions, DerivedRetriever, Searching):
    """Retriever that grades what ``base`` returns, refines it, and searches the web if it is not
    good.

    ::

        CorrectiveRetriever(base=store.as_retriever(), search=my_search_tool)

    Strips of what was retrieved come first, then those of the web, which carry ``url``, ``web`` and
    ``trust``; each in the order of its documents. An ``llm`` writes the keywords to search for;
    without one they are taken from the question. The ``context`` of what comes back has the action,
    the thresholds, what there is to note, and ``web_error`` where the search failed.
    """
