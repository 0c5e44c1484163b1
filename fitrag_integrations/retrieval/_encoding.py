"""The interface of encoders, and the check that two encoders are the same.

A name proves little: folders move, checkpoints are trained further, pooling is set by hand. So the
encoder in use encodes some of the stored passages again, and its vectors must equal the stored
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.errors import InputError, ModelLoadError, PortError, refuse_if
from fitrag_integrations.retrieval.encoder import Encoder
from fitrag_integrations.types import Passage

Vectors: TypeAlias = NDArray[np.float32]
First: TypeAlias = Callable[[int], tuple[list[Passage], Vectors]]
SAMPLE = 4
TOLERANCE = 0.1
"""How far, relative to its length, a vector may lie from the stored one. bfloat16 moves a vector
by about 0.01; another encoder, pooling or normalisation by several times the tolerance."""


@runtime_checkable
class TextEncoder(Protocol):
    """Encoder of texts as vectors of `width` numbers, compared by their inner product.

    An encoder may add `aencode`, an async version of `encode`, and `encode_query`,
    `encode_document` and `aencode_query` if questions and passages are encoded differently.
    """

    @property
    def name(self) -> str:
        """The encoder's name, which identifies it."""
        ...

    @property
    def width(self) -> int:
        """The number of dimensions of a vector."""
        ...

    def encode(self, texts: Sequence[str], /) -> Any:
        """Return an array of shape (texts, width), in the order of `texts`."""
        ...


def encode_as(encoder: TextEncoder, role: str, texts: Sequence[str]) -> Any:
    """Encode texts with `encode_query` or `encode_document`, or else with `encode`.

    Args:
        encoder: The encoder.
        role: "query" or "document".
        texts: The texts.
    """
    return getattr(encoder, f"encode_{role}", encoder.encode)(texts)


def async_query(encoder: TextEncoder) -> Any:
    """Return the coroutine function that encodes questions, or None."""
    name = "aencode_query" if hasattr(encoder, "encode_query") else "aencode"
    return getattr(encoder, name, None)


def passage_text(passage: Passage) -> str:
    """Return a passage's text as it is encoded: title, blank, text, as in Contriever's index."""
    return f"{passage.title} {passage.text}" if passage.title else passage.text


def checked_texts(field: str, texts: object) -> tuple[str, ...]:
    """Require texts that are not blank; raises `InputError` naming the first that is."""
    found = check_many(field, texts, str)
    for i, text in enumerate(found):
        check_text(f"{field}[{i}]", text, blank=False)
    return found


@dataclass
class Origin:
    """Encoder in use, and a description of the encoder that computed the stored vectors.

    `settings` are the settings of an `Encoder`; None for any other object.
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
        """Read the output of `describe`; without an encoder the described one is loaded."""
        name, width, settings = described["name"], described["width"], described["settings"]
        if encoder is not None:
            return cls(_usable(encoder), name, width, settings)
        allowed = f"the encoder this index was built with, {name!r}"
        refuse_if(settings is None, "encoder", None, allowed)
        try:
            # an index of before prompts were read has vectors without them
            return cls(Encoder(name, **{"prompts": {}, **settings}), name, width, settings)
        except (TypeError, InputError) as error:
            raise ModelLoadError(f"encoder {name!r} of the manifest: {error}") from error

    def describe(self) -> dict[str, Any]:
        """Return the name, width and settings of the encoder, for the manifest."""
        return {"name": self.name, "width": self.width, "settings": self.settings}

    def encode(self, role: str, texts: Sequence[str]) -> Vectors:
        """Encode texts in a role, as `encode_as` does; raises as `checked` does."""
        return self.checked(encode_as(self.encoder, role, texts), len(texts))

    def checked(self, found: Any, count: int) -> Vectors:
        """Require finite vectors of shape (count, width); anything else raises `PortError`."""
        vectors, shape = np.ascontiguousarray(found, dtype=np.float32), (count, self.width)
        if vectors.shape != shape:
            problem = f"shape {vectors.shape}, not {shape}"
        elif not np.isfinite(vectors).all():
            problem = "numbers that are not finite"
        else:
            return vectors
        raise PortError(f"encoder {self.encoder.name!r} gave {problem}")

    def prove(self, first: First, *, role: str = "document") -> None:
        """Encode some stored passages, once; raises `InputError` if the vectors differ."""
        if self.proven:
            return
        if self.encoder.width != self.width:
            self._refuse(f"width {self.encoder.width}, not {self.width}")
        passages, stored = first(SAMPLE)
        texts = [passage_text(passage) for passage in passages]
        found = self.encode(role, texts) if texts else stored
        lengths = np.linalg.norm(stored, axis=1).clip(min=1e-12)
        drift = np.linalg.norm(found - stored, axis=1) / lengths
        if not drift.max(initial=0.0) <= TOLERANCE:  # NaN is no match either
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
