"""Find the encoder that is meant, for the adapters: they import no model themselves."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from typing import Any

from fitrag_integrations.errors import InputError


class EncoderVectors:
    """Vectors of texts as lists, by an `Encoder`, a checkpoint's name, or the bundled encoder.

    An encoder is any object with `encode(texts)`; where it has `aencode`, that is awaited.
    """

    def __init__(self, encoder: Any = None) -> None:
        if encoder is None or isinstance(encoder, str):
            # by name, so that a page of pure Python loads no torch before it must
            kind = importlib.import_module("fitrag_integrations.retrieval").Encoder
            encoder = kind() if encoder is None else kind(encoder)
        if isinstance(encoder, type) or not callable(getattr(encoder, "encode", None)):
            allowed = "an object with an 'encode' method, or the name of a checkpoint"
            raise InputError.of("encoder", given=encoder, allowed=allowed)
        self.encoder = encoder
        self._asynchronous = callable(getattr(encoder, "aencode", None))

    @property
    def name(self) -> str:
        """The name of the encoder's checkpoint, or of its class."""
        own = getattr(self.encoder, "name", None)
        return own if isinstance(own, str) else type(self.encoder).__name__

    def of(self, texts: Sequence[str]) -> list[list[float]]:
        """Encode texts, in their order."""
        return _plain(self.encoder.encode(list(texts))) if texts else []

    async def aof(self, texts: Sequence[str]) -> list[list[float]]:
        """Encode texts without blocking the event loop."""
        if not self._asynchronous or not texts:
            return await asyncio.to_thread(self.of, texts)
        return _plain(await self.encoder.aencode(list(texts)))


def _plain(vectors: Any) -> list[list[float]]:
    return [[float(number) for number in vector] for vector in vectors]
