"""LangChain embeddings over this package's encoders."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings

from fitrag_integrations.errors import raise_if
from fitrag_integrations.retrieval.encoder import EncoderVectors


class EncoderEmbeddings(Embeddings):
    """Embeddings of the bundled encoder, a checkpoint, or any object with ``encode(texts)``.

    Args:
        encoder: Object with ``encode(texts)``, or the name of a checkpoint. Defaults to the bundled
            encoder.

    Example:
        >>> InMemoryVectorStore(EncoderEmbeddings())
    """

    def __init__(self, encoder: object = None) -> None:
        self._vectors = EncoderVectors(encoder)

    def __setattr__(self, name: str, value: object) -> None:
        raise_if(
            type(self) is EncoderEmbeddings and not name.startswith("_"),
            AttributeError,
            f"no option {name!r}: the encoder is given at construction",
        )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._vectors.name!r})"

    @property
    def encoder(self) -> object:
        """Return the encoder."""
        return self._vectors.encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed ``texts`` in one call; returns vectors in order, numbers in [-1, 1]."""
        return self._vectors.of(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed the question ``text``; returns numbers in [-1, 1], a vector of length 1."""
        return self._vectors.of([text], role="query")[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Async version of ``embed_documents``, in [-1, 1], for ``texts``."""
        return await self._vectors.aof(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Async version of ``embed_query``, in [-1, 1], for ``text``."""
        return (await self._vectors.aof([text], role="query"))[0]
