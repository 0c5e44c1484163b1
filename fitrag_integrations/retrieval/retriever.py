"""An index as a retriever: what `Ports(retrieve=...)` and both frameworks' drop-ins take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fitrag_integrations._checks import check_whole
from fitrag_integrations.types import Passage

if TYPE_CHECKING:
    from fitrag_integrations.retrieval.index import FaissIndex


@dataclass(frozen=True)
class IndexRetriever:
    """Find the best k passages of one index for each query; equal for equal index and k."""

    index: FaissIndex
    k: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_whole("k", self.k, low=1))

    def retrieve(self, queries: Sequence[str], /) -> list[list[Passage]]:
        """Search for all queries at once, best first."""
        return self.index.search(queries, self.k)

    async def aretrieve(self, queries: Sequence[str], /) -> list[list[Passage]]:
        """Search for all queries at once; the event loop stays free."""
        return await self.index.asearch(queries, self.k)
