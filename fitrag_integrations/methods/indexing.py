"""What the drop-ins over a `FaissIndex` need, without loading what it is made with."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.types import Context, Excerpt, Passage


def faiss_index() -> Any:
    """Find the class by name: pure Python loads neither torch nor faiss before it must."""
    return importlib.import_module("fitrag_integrations.retrieval").FaissIndex


def searches(index: object) -> bool:
    """Check whether an object is an index: it, not its class, has `search(queries, k)`."""
    return not isinstance(index, type) and callable(getattr(index, "search", None))


def described(
    texts: Iterable[str],
    metadatas: Iterable[Mapping[str, Any]] | None,
    ids: Iterable[str] | None,
) -> list[tuple[str, dict[str, Any], str]]:
    """Pair each text with its metadata and its id, blank if there is none."""
    kept = check_many("texts", texts, str)
    metadata = [{} for _ in kept] if metadatas is None else [dict(each) for each in metadatas]
    named = [""] * len(kept) if ids is None else list(ids)
    if not len(kept) == len(metadata) == len(named):
        given = (len(kept), len(metadata), len(named))
        raise InputError.of("texts, metadatas, ids", given=given, allowed="equal lengths")
    return list(zip(kept, metadata, named, strict=True))


def searched(query: str, port: Port[str, list[Passage]]) -> Flow[Context]:
    """Return the flow to what an index has on a query."""
    (passages,) = yield from port.ask([check_text("query", query, blank=False)])
    return Context(query, tuple(map(Excerpt.whole, passages)), method="faiss")
