"""Retrieve as ITRG does: in rounds, each with what the last one had written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from pydantic import Field

from fitrag_integrations.langchain.base.fields import Count
from fitrag_integrations.langchain.base.options import ITRGOptions
from fitrag_integrations.langchain.base.ports import Offer
from fitrag_integrations.langchain.base.retriever import DerivedRetriever, Writing
from fitrag_integrations.methods.defaults import EMBEDDED_GENERATOR

K = 5  # documents of a round, as in the paper


class ITRGRetriever(ITRGOptions, DerivedRetriever, Writing):
    """Retriever that alternates retrieval and generation, and returns the last round's documents
    (ITRG).

    Use it for questions whose second fact can only be found with the first. The ``context`` of the
    result has the query, documents and text of every round, and the last text as
    ``details["document"]``.

    Args:
        base: Retriever of every round: any Runnable or callable.
        llm: Language model that writes between rounds; None is the bundled one, a stand-in only.
        k: Documents per round, and returned; None is 5. As an argument of ``invoke``: returned.
        ids: "pieces" for ids of their own, "source" for those of the documents.

    The other options are those of ``fitrag_integrations.methods.ITRG``.

    Example:
        >>> retriever = ITRGRetriever(base=store.as_retriever(), llm=llm, rounds=3)
        >>> found = retriever.invoke("Where was the director of Amarcord born?")
    """

    k: Count | None = Field(
        default=K,
        description=(
            "Documents of a round, and maximum returned; an argument of `invoke` sets "
            "the latter. None is 5."
        ),
    )

    def settings(self, **given: object) -> dict[str, Any]:
        """Return ITRG's options as they are now."""
        return super().settings(**{"k": K if self.k is None else self.k, **given})

    def offer(self) -> Offer:
        """Return the I/O ITRG asks for."""
        offer = super().offer()
        return replace(offer, llm=cast(Any, EMBEDDED_GENERATOR)) if self.llm is None else offer
