"""Retrieve from a FAISS index of this package."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle

from fitrag_integrations import retrieval
from fitrag_integrations.core.checks import can, check_many, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.llama_index.base.convert import scored_nodes, stored_passage
from fitrag_integrations.llama_index.base.retriever import FlowRetriever
from fitrag_integrations.retrieval.index import described, searched
from fitrag_integrations.types import Context, Passage
from fitrag_integrations.values.search_results import made_id

_loading = Lock()


class FaissRetriever(FlowRetriever):
    """Retriever of the nodes of a ``FaissIndex``, in memory or in a folder.

    Nodes keep their ids and metadata; their score is the inner product.

    Args:
        index: ``FaissIndex``, another object with ``search(queries, k)``, or a folder, loaded at
            the first query.
        similarity_top_k: Maximum number of nodes.

    Example:
        >>> FaissRetriever.from_texts(["The Danube ends in the Black Sea."]).retrieve("Where?")
    """

    def __init__(
        self,
        index: Any,
        *,
        similarity_top_k: int = DEFAULTS.k,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        is_folder = isinstance(index, str | Path)
        if not is_folder and not can(index, "search"):
            raise InputError.of("index", given=index, allowed="a FaissIndex or the folder of one")
        self._folder = str(index) if is_folder else None
        self._index = None if is_folder else index
        self.similarity_top_k = similarity_top_k
        super().__init__(
            callback_manager=callback_manager,
            object_map=object_map,
            objects=objects,
            verbose=verbose,
        )

    def _prepare(self) -> None:
        check_whole("similarity_top_k", self.similarity_top_k, low=1)

    @classmethod
    def load(cls, folder: str | Path, *, encoder: Any = None, **settings: Any) -> FaissRetriever:
        """Load a saved index now.

        Args:
            folder: Folder that `FaissIndex.save` wrote.
            encoder: Encoder of the queries; None is the one that the index names.
            **settings: Further arguments of the retriever, such as `similarity_top_k`.
        """
        return cls(retrieval.FaissIndex.load(folder, encoder=encoder), **settings)

    @classmethod
    def from_nodes(
        cls, nodes: Sequence[BaseNode], *, encoder: Any = None, **settings: Any
    ) -> FaissRetriever:
        """Index nodes, which are returned with class, relationships and offsets.

        Args:
            nodes: The nodes.
            encoder: Encoder of nodes and queries; None is the embedded one.
            **settings: Further arguments of the retriever, such as `similarity_top_k`.
        """
        given = check_many("nodes", nodes, BaseNode)  # type: ignore[type-abstract]
        passages = [stored_passage(node) for node in given]
        return cls(retrieval.FaissIndex.build(passages, encoder=encoder), **settings)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        *,
        metadatas: Sequence[Row] | None = None,
        ids: Sequence[str] | None = None,
        encoder: Any = None,
        **settings: Any,
    ) -> FaissRetriever:
        """Index texts.

        Args:
            texts: The texts.
            metadatas: Metadata of each text; `title` and `source` are used.
            ids: Id of each text; without one it is made from the text.
            encoder: Encoder of texts and queries; None is the embedded one.
            **settings: Further arguments of the retriever, such as `similarity_top_k`.
        """
        passages = [_passage(*each) for each in described(texts, metadatas, ids)]
        return cls(retrieval.FaissIndex.build(passages, encoder=encoder), **settings)

    @property
    def index(self) -> Any:
        """The index, read from its folder where that was not done yet."""
        with _loading:
            if self._index is None and self._folder is not None:
                self._index = retrieval.FaissIndex.load(self._folder)
            return self._index

    def __repr__(self) -> str:
        shown = self._index if self._folder is None else self._folder
        return f"{type(self).__name__}({shown!r}, similarity_top_k={self.similarity_top_k})"

    def __getstate__(self) -> dict[str, Any]:
        state = {**vars(self), "_last": None}
        if self._folder is not None:
            state["_index"] = None  # the folder says it all
        return state

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Context]]:
        """Return one flow per query of ``bundles``; the search of one call is one."""
        port = Port.of("search", self._search, self._asearch)
        return [searched(bundle.query_str, port) for bundle in bundles]

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Return the nodes as they were indexed, with their scores."""
        return scored_nodes(excerpt.passage for excerpt in context.excerpts)

    def _search(self, queries: Sequence[str]) -> Any:
        return self.index.search(queries, self.similarity_top_k)

    async def _asearch(self, queries: Sequence[str]) -> Any:
        index: Any = self._index
        if not can(index, "asearch"):  # not read yet, or an index without an async side
            return await asyncio.to_thread(self._search, queries)
        return await index.asearch(queries, self.similarity_top_k)


def _passage(text: str, metadata: dict[str, Any], name: str) -> Passage:
    """Make the passage of a text; without an id it gets one made from the text."""
    title, source = (str(metadata.get(key) or "") for key in ("title", "source"))
    return Passage(name or made_id(text), text, title, source, metadata)
