"""What an index asks of an encoder, and the checks of what it gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.errors import PortError
from fitrag_integrations.types import Passage

Vectors = NDArray[np.float32]


@runtime_checkable
class TextEncoder(Protocol):
    """Turn texts into vectors of `width` numbers, whose inner product ranks.

    An object may add `aencode`, a coroutine function of the same shape, and `encode_query`,
    `encode_document`, `aencode_query` where questions and passages are encoded differently.
    """

    @property
    def name(self) -> str:
        """The encoder's name, to be told from another."""
        ...

    @property
    def width(self) -> int:
        """Return how many numbers a vector has."""
        ...

    def encode(self, texts: Sequence[str], /) -> Any:
        """Return an array of shape (texts, width), in the order of `texts`."""
        ...


def encode_as(encoder: TextEncoder, role: str, texts: Sequence[str]) -> Any:
    """Encode texts by `encode_query` or `encode_document`, or by `encode` without such a method.

    Args:
        encoder: The encoder.
        role: "query" or "document".
        texts: The texts.
    """
    return getattr(encoder, f"encode_{role}", encoder.encode)(texts)


def async_query(encoder: TextEncoder) -> Any:
    """Return the coroutine function that encodes questions; None if the encoder has none."""
    name = "aencode_query" if hasattr(encoder, "encode_query") else "aencode"
    return getattr(encoder, name, None)


def passage_text(passage: Passage) -> str:
    """Write a passage as it is encoded: title, blank, text (as Contriever's own index does)."""
    return f"{passage.title} {passage.text}" if passage.title else passage.text


def checked_vectors(found: Any, *, count: int, width: int, encoder: TextEncoder) -> Vectors:
    """Require finite vectors of shape (count, width); anything else raises `PortError`."""
    vectors = np.ascontiguousarray(found, dtype=np.float32)
    if vectors.shape != (count, width):
        raise PortError(
            f"encoder {encoder.name!r} gave shape {vectors.shape}, not ({count}, {width})"
        )
    if not np.isfinite(vectors).all():
        raise PortError(f"encoder {encoder.name!r} gave numbers that are not finite")
    return vectors
