"""Retrieve from this package's own FAISS index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from pydantic import field_validator

from fitrag_integrations import retrieval
from fitrag_integrations.core.checks import can, check_many
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.langchain.base.convert import passage_document, to_passage
from fitrag_integrations.langchain.base.fields import Kept
from fitrag_integrations.langchain.base.retriever import FlowRetriever
from fitrag_integrations.retrieval.index import described, searched
from fitrag_integrations.types import Context


class FaissRetriever(FlowRetriever):
    """Retriever of the documents of a ``FaissIndex``, in memory or in a folder.

    Example:
        >>> retriever = FaissRetriever.from_texts(["The Danube ends in the Black Sea."])
        >>> retriever.invoke("Where does the Danube end?")
    """

    index: Kept[Any]
    """`FaissIndex`, another object with `search(queries, k)`, or a folder to load."""
    k: int = DEFAULTS.k
    """Maximum number of documents returned; also an argument of `invoke`."""

    @field_validator("index")
    @classmethod
    def _load(cls, index: object) -> object:
        if isinstance(index, str | PathLike):
            return retrieval.FaissIndex.load(index)
        refuse_if(not can(index, "search"), "index", index, "a FaissIndex or a folder")
        return index

    @classmethod
    def load(cls, folder: str | PathLike[str], encoder: Any = None, **fields: Any) -> Self:
        """Load an index that `FaissIndex.save` wrote.

        Args:
            folder: Folder of the index.
            encoder: Encoder of the queries; None is the one that the index names.
            **fields: Further fields of the retriever, such as `k`.
        """
        return cls(index=retrieval.FaissIndex.load(folder, encoder=encoder), **fields)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        encoder: Any = None,
        metadatas: Iterable[dict[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
        **fields: Any,
    ) -> Self:
        """Index texts; repeated texts count once.

        Args:
            texts: The texts.
            encoder: Encoder of texts and queries; None is the embedded one.
            metadatas: Metadata of each text.
            ids: Id of each text.
            **fields: Further fields of the retriever, such as `k`.
        """
        documents = [
            Document(page_content=text, metadata=metadata, id=name or None)
            for text, metadata, name in described(texts, metadatas, ids)
        ]
        return cls.from_documents(documents, encoder, **fields)

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], encoder: Any = None, **fields: Any
    ) -> Self:
        """Index documents.

        Args:
            documents: The documents.
            encoder: Encoder of documents and queries; None is the embedded one.
            **fields: Further fields of the retriever, such as `k`.
        """
        passages = map(to_passage, check_many("documents", documents, Document))
        return cls(index=retrieval.FaissIndex.build(passages, encoder=encoder), **fields)

    def documents(self, context: Context) -> list[Document]:
        """Return the documents as they were indexed, with their scores."""
        return [passage_document(excerpt.passage) for excerpt in context.excerpts]

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[Context]]:
        """Return one flow per question; the search of one call is one.

        Args:
            inputs: The questions.
            configs: The config of each call, in the same order.
            **options: `k`, the maximum number of documents returned.
        """
        index, most = self.index, self.most(**options)

        async def found(queries: Sequence[str]) -> Any:
            return await index.asearch(queries, most)

        acall = found if can(index, "asearch") else None
        port = Port.of("search", lambda queries: index.search(queries, most), acall, owner=index)
        return [searched(query, port) for query in inputs]
