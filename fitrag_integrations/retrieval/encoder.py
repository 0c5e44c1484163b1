"""A dense text encoder over any Hugging Face encoder, by name or folder.

all-MiniLM-L6-v2 is the embedded one; `facebook/contriever` is FIT-RAG's retriever (Izacard et al.,
2022). Left out: instructions put before queries or passages, as E5 wants; whoever needs them gives
the index an object of their own with `name`, `width` and `encode`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from fitrag_integrations.core.checks import check_is, check_many, check_text, check_whole
from fitrag_integrations.core.extras import torch_needed
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.runtime.backends import checked_backend
from fitrag_integrations.models.runtime.sources import MINILM
from fitrag_integrations.models.runtime.worker import Steps, Worker

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fitrag_integrations.retrieval._dense import Dense

_DTYPES = ("float32", "bfloat16", "float16")


class EncoderOptions(TypedDict, total=False):
    """Keyword arguments of `Encoder`."""

    device: object
    dtype: object
    pooling: str | None
    normalize: bool | None
    max_tokens: int | None
    batch_tokens: int | None
    backend: str | None


class Encoder:
    """Turn texts into vectors, from any number of threads.

    `name_or_dir` is a hub name or a folder; MiniLM also comes with the extra `offline`.
    Weights load at the first use. A text longer than the encoder's input is cut: split long
    documents first, as `read_corpus` does. Pickles as its name and options, without weights.
    A checkpoint published as a pickle only is refused until it is converted to safetensors.

    `device` is "cuda" where there is one, else "cpu"; `dtype` bfloat16 on CUDA, else float32.
    `pooling` ("mean" or "first"), `normalize` and `max_tokens` are read from the checkpoint where
    they are not given; `batch_tokens` bounds one padded batch. `backend` is "torch", "onnx" or
    "openvino".
    """

    def __init__(
        self,
        name_or_dir: str = MINILM,
        *,
        device: object = None,
        dtype: object = None,
        pooling: str | None = None,
        normalize: bool | None = None,
        max_tokens: int | None = None,
        batch_tokens: int | None = None,
        backend: str | None = None,
    ) -> None:
        name = check_text("name_or_dir", name_or_dir, blank=False)
        self.name = MINILM if name == MINILM.rpartition("/")[2] else name
        self._options = {
            "device": None if device is None else str(device),
            "dtype": _dtype(dtype),
            "batch_tokens": _positive("batch_tokens", batch_tokens),
            "backend": checked_backend(backend),
        }
        self._given = {
            "pooling": pooling,
            "normalize": None if normalize is None else check_is("normalize", normalize, bool),
            "max_tokens": _positive("max_tokens", max_tokens),
        }
        self._dense = _Lazy(self.name, self._options, self._given)
        self._worker = Worker("encoder")

    @classmethod
    def from_pretrained(
        cls, name_or_dir: str = MINILM, **options: Unpack[EncoderOptions]
    ) -> Encoder:
        """Load an encoder at once; options as for `Encoder`.

        Raises `ModelLoadError` naming it where it cannot be loaded.
        """
        encoder = cls(name_or_dir, **options)
        encoder._facts()
        return encoder

    @classmethod
    def embedded(cls, **options: Unpack[EncoderOptions]) -> Encoder:
        """Load all-MiniLM-L6-v2: mean pooling, length 1, 256 tokens."""
        return cls.from_pretrained(MINILM, **options)

    @property
    def width(self) -> int:
        """Count the numbers of a vector; loads the weights."""
        return int(self._facts()["width"])

    @property
    def settings(self) -> dict[str, Any]:
        """Return pooling, normalize and max_tokens as plain values; loads the weights."""
        return dict(self._facts()["settings"])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts in length-sorted batches. Shape: (n, width), in the order given."""
        checked = check_many("texts", texts, str)
        return self._stack(self._worker.call(self._dense.encode, checked))

    async def aencode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode as `encode` does; the event loop stays free."""
        checked = check_many("texts", texts, str)
        if not checked:  # the width may still have to be loaded
            return await asyncio.to_thread(self.encode, checked)
        return self._stack(await self._worker.acall(self._dense.encode, checked))

    def unload(self) -> None:
        """Return the memory back; later calls raise `ModelLoadError`."""
        self._worker.close()
        self._dense.drop()

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = self._worker.call(self._dense.facts, [None])[0]
        return facts

    def _stack(self, rows: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        import numpy as np

        return np.stack(rows) if rows else np.empty((0, self.width), np.float32)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.name, {**self._options, **self._given})

    def __repr__(self) -> str:
        return f"Encoder({self.name!r})"


class _Lazy:
    """Load at the first task. It knows no worker, so a forgotten encoder's thread can end."""

    def __init__(self, name: str, options: dict[str, Any], given: dict[str, Any]) -> None:
        self._what = name, options, given
        self._loaded: Dense | None = None

    def encode(self, texts: Sequence[str]) -> Steps[list[NDArray[np.float32]]]:
        return self._load().encode(texts)

    def facts(self, items: Sequence[object]) -> list[dict[str, Any]]:
        dense = self._load()
        return [{"width": dense.width, "settings": asdict(dense.recipe)} for _ in items]

    def drop(self) -> None:
        if self._loaded is not None:
            import torch

            self._loaded = None
            torch.cuda.empty_cache()

    def _load(self) -> Dense:
        if self._loaded is None:
            try:
                from fitrag_integrations.retrieval._dense import load
            except ModuleNotFoundError as error:
                raise torch_needed(error, "an Encoder") from error

            self._loaded = load(*self._what)
        return self._loaded


def _rebuild(name: str, options: dict[str, Any]) -> Encoder:
    return Encoder(name, **options)


def _dtype(dtype: object) -> str | None:
    name = None if dtype is None else str(dtype).removeprefix("torch.")
    if name is not None and name not in _DTYPES:
        raise InputError.of("dtype", given=dtype, allowed=", ".join(_DTYPES))
    return name


def _positive(field: str, value: object) -> int | None:
    return None if value is None else check_whole(field, value, low=1)
