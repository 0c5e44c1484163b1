"""Use this package's encoders wherever LangChain wants embeddings."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from fitrag_integrations.retrieval.encoder import EncoderVectors


class EncoderEmbeddings(Embeddings):
    """Embeddings of the bundled encoder, or of any object with ``encode(texts)``.

    Args:
        encoder: Object with ``encode(texts)``; None is the bundled one.

    Example:
        >>> InMemoryVectorStore(EncoderEmbeddings())
    """

    def __init__(self, encoder: object = None) -> None:
        self._vectors = EncoderVectors(encoder)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._vectors.name!r})"

    @property
    def encoder(self) -> object:
        """The encoder."""
        return self._vectors.encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed ``texts`` in one call: vectors in their order, of any number in [-1, 1]."""
        return self._vectors.of(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a question, ``text``: numbers in [-1, 1], of length 1 all together."""
        return self._vectors.of([text], role="query")[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed ``texts`` as ``embed_documents`` does, in [-1, 1]; the event loop stays free."""
        return await self._vectors.aof(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Embed ``text`` as ``embed_query`` does, in [-1, 1]; the event loop stays free."""
        return (await self._vectors.aof([text], role="query"))[0]
