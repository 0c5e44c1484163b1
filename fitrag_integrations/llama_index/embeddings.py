"""LlamaIndex embedding model over this package's encoders."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr

from fitrag_integrations.retrieval.encoder import EncoderVectors


class EncoderEmbedding(BaseEmbedding):
    """Embedding model of the bundled encoder, a checkpoint, or any object with ``encode(texts)``.

    Args:
        encoder: Object with ``encode(texts)``, or the name of a checkpoint. Defaults to the bundled
            encoder.
        options: Options of LlamaIndex's ``BaseEmbedding``.

    Example:
        >>> VectorStoreIndex.from_documents(documents, embed_model=EncoderEmbedding())
    """

    _vectors: EncoderVectors = PrivateAttr()
    _given: Any = PrivateAttr(default=None)

    def __init__(self, encoder: Any = None, **options: Any) -> None:
        vectors = EncoderVectors(encoder)
        super().__init__(**{"model_name": vectors.name, **options})
        self._vectors = vectors
        self._given = encoder

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the component in serialized form."""
        return "EncoderEmbedding"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the options in plain values; `from_dict` rejects those of an encoder object.

        This method never raises, because pipelines hash its result for their caches.
        """
        own = self._given if isinstance(self._given, str | None) else [self._vectors.name]
        return {**super().to_dict(**kwargs), "encoder": own}

    @property
    def encoder(self) -> Any:
        """Return the encoder."""
        return self._vectors.encoder

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vectors.of([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._vectors.of(texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vectors.of([query], role="query")[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._vectors.aof([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._vectors.aof(texts)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return (await self._vectors.aof([query], role="query"))[0]
