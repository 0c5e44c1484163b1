"""Which encoder an index came from, and the proof that the one in use is the same.

A name proves little: a folder moves, a checkpoint is trained further, pooling is set by hand. So
the encoder in use writes some of the stored passages again, and its vectors must be the stored
ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.retrieval._store import Store
from fitrag_integrations.retrieval._vectors import (
    TextEncoder,
    checked_vectors,
    encode_as,
    passage_text,
)
from fitrag_integrations.retrieval.encoder import Encoder

SAMPLE = 4
TOLERANCE = 0.1
"""How far, relative to its length, a vector may lie from the stored one. bfloat16 moves a vector
by about 0.01; another encoder, pooling or normalisation by several times the tolerance."""


@dataclass
class Origin:
    """Encoder in use, and what is known of the one that computed the stored vectors.

    `settings` are those of an `Encoder`, None for any other object.
    """

    encoder: TextEncoder = field(repr=False)
    name: str
    width: int
    settings: dict[str, Any] | None
    proven: bool = False

    @classmethod
    def of(cls, encoder: object) -> Origin:
        """Describe the encoder of a new index."""
        usable = _usable(encoder)
        settings = usable.settings if isinstance(usable, Encoder) else None
        return cls(usable, usable.name, usable.width, settings, proven=True)

    @classmethod
    def read(cls, described: dict[str, Any], encoder: object = None) -> Origin:
        """Read what `describe` gave; without an encoder the described one is used."""
        name, width, settings = described["name"], described["width"], described["settings"]
        if encoder is not None:
            return cls(_usable(encoder), name, width, settings)
        if settings is None:
            allowed = f"the encoder this index was built with, {name!r}"
            raise InputError.of("encoder", given=None, allowed=allowed)
        try:
            # an index of before prompts were read has vectors without them
            return cls(Encoder(name, **{"prompts": {}, **settings}), name, width, settings)
        except (TypeError, InputError) as error:
            raise ModelLoadError(f"encoder {name!r} of the manifest: {error}") from error

    def describe(self) -> dict[str, Any]:
        """Return name, width and settings, for the manifest."""
        return {"name": self.name, "width": self.width, "settings": self.settings}

    def prove(self, store: Store, *, role: str = "document") -> None:
        """Encode some stored passages, once; raises `InputError` where the vectors are others."""
        if self.proven:
            return
        if self.encoder.width != self.width:
            self._refuse(f"width {self.encoder.width}, not {self.width}")
        passages, stored = store.first(SAMPLE)
        texts = [passage_text(passage) for passage in passages]
        given = encode_as(self.encoder, role, texts) if texts else stored
        found = checked_vectors(given, count=len(texts), width=self.width, encoder=self.encoder)
        lengths = np.linalg.norm(stored, axis=1).clip(min=1e-12)
        drift = np.linalg.norm(found - stored, axis=1) / lengths
        if drift.max(initial=0.0) > TOLERANCE:
            self._refuse("it gives the stored passages other vectors")
        self.proven = True

    def _refuse(self, why: str) -> None:
        allowed = f"the encoder this index was built with, {self.name!r} ({why})"
        raise InputError.of("encoder", given=self.encoder.name, allowed=allowed)


def _usable(encoder: object) -> TextEncoder:
    if isinstance(encoder, type) or not isinstance(encoder, TextEncoder):
        allowed = "an Encoder, or an object with name, width and encode"
        raise InputError.of("encoder", given=encoder, allowed=allowed)
    return encoder
