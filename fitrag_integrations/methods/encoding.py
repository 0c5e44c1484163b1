"""Find the encoder that is meant, for the adapters: they import no model themselves."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from typing import Any

from fitrag_integrations.errors import InputError


class EncoderVectors:
    """Vectors of texts as lists, by an `Encoder`, a checkpoint's name, or the bundled encoder.

    An encoder is any object with `encode(texts)`. Its `encode_query`, `encode_document` and their
    async versions are used where it has them.
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

    @property
    def name(self) -> str:
        """The name of the encoder's checkpoint, or of its class."""
        own = getattr(self.encoder, "name", None)
        return own if isinstance(own, str) else type(self.encoder).__name__

    def of(self, texts: Sequence[str], *, role: str = "document") -> list[list[float]]:
        """Encode texts, in their order, with the prompt of a role ("query" or "document")."""
        encode = getattr(self.encoder, f"encode_{role}", self.encoder.encode)
        return _plain(encode(list(texts))) if texts else []

    async def aof(self, texts: Sequence[str], *, role: str = "document") -> list[list[float]]:
        """Async version of `of`."""
        own = hasattr(self.encoder, f"encode_{role}")
        aencode = getattr(self.encoder, f"aencode_{role}" if own else "aencode", None)
        if not callable(aencode) or not texts:
            return await asyncio.to_thread(self.of, texts, role=role)
        return _plain(await aencode(list(texts)))


def _plain(vectors: Any) -> list[list[float]]:
    return [[float(number) for number in vector] for vector in vectors]
