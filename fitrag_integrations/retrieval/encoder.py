"""Dense text encoder over any Hugging Face encoder, by name or folder.

all-MiniLM-L6-v2 is the embedded one; `facebook/contriever` is FIT-RAG's retriever (Izacard et al.,
2022). Prompts, pooling and dense layers are those of the checkpoint.

Stored vectors need the encoder that made them, and a name proves little: folders move, checkpoints
are trained further, pooling is set by hand. So `Origin` has the encoder in use encode some of the
stored passages again, and its vectors must equal the stored ones.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    TypeAlias,
    TypedDict,
    Unpack,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import can, check_is, check_many, check_text, check_whole
from fitrag_integrations.core.extras import torch_needed, torch_sees_gpu
from fitrag_integrations.core.record import Keywords, check_mapping
from fitrag_integrations.errors import InputError, ModelLoadError, PortError, refuse_if
from fitrag_integrations.models.runtime.sources import MINILM, offline_minilm
from fitrag_integrations.models.runtime.worker import Steps, Worker
from fitrag_integrations.types import Passage

if TYPE_CHECKING:
    from fitrag_integrations.models.bundled import BundledDense
    from fitrag_integrations.models.encoder.vectors import Dense

_DTYPES = ("float32", "bfloat16", "float16")
Vectors: TypeAlias = NDArray[np.float32]
First: TypeAlias = Callable[[int], tuple[list[Passage], Vectors]]
SAMPLE = 4
TOLERANCE = 0.1
"""How far, relative to its length, a vector may lie from the stored one. bfloat16 moves a vector
by about 0.01; another encoder, pooling or normalisation by several times the tolerance."""


class EncoderOptions(TypedDict, total=False):
    """Keyword arguments of `Encoder`."""

    device: object
    dtype: object
    pooling: str | None
    normalize: bool | None
    max_length: int | None
    max_tokens: int | None
    batch_tokens: int | None
    backend: str | None
    prompts: Mapping[str, str] | None
    default_prompt_name: str | None
    truncate_dim: int | None
    model_kwargs: Keywords | None
    tokenizer_kwargs: Keywords | None


class Encoder:
    """Encoder that turns texts into vectors, from any number of threads.

    Weights load at first use. A text longer than the encoder's input is truncated: split long
    documents first, as `read_corpus` does. Pickles as its name and options, without weights. A
    checkpoint published as a pickle only is refused until it is converted to safetensors.

    Args:
        name_or_dir: Hub name or folder; MiniLM also comes with the extra `offline`.
        device: Device, e.g. `cuda:0`. Defaults to CUDA if available, else the CPU.
        dtype: "float32", "bfloat16" or "float16". Defaults to bfloat16 on CUDA, else float32.
        pooling: "mean", "first" or "last" token. Defaults to the checkpoint's.
        normalize: Whether vectors have length 1. Defaults to the checkpoint's.
        max_length: Maximum input length in tokens, prompt included. Defaults to the checkpoint's.
        batch_tokens: Padded size of one forward pass.
        backend: "torch", "onnx" or "openvino". Defaults to torch; without any option and without a
            GPU, the MiniLM of `offline` runs in ONNX Runtime, with equal vectors.
        prompts: Texts put before the input, by name: `encode_query` uses "query", `encode_document`
            "document", "passage" or "corpus". Defaults to the checkpoint's.
        default_prompt_name: Name of the prompt that `encode` uses. Defaults to the checkpoint's.
        truncate_dim: Number of leading dimensions to keep, for matryoshka encoders; vectors are
            normalized after the cut.
        model_kwargs: Passed to the `from_pretrained` of transformers.
        tokenizer_kwargs: Passed to that of the tokenizer.
        max_tokens: Earlier name of `max_length`.

    Example:
        >>> prompts = {"query": "query: ", "document": "passage: "}
        >>> encoder = Encoder("intfloat/e5-base-v2", prompts=prompts)
        >>> encoder.encode_query(["Who wrote Amarcord?"]) @ encoder.encode_document(texts).T
    """

    def __init__(
        self,
        name_or_dir: str = MINILM,
        *,
        device: object = None,
        dtype: object = None,
        pooling: str | None = None,
        normalize: bool | None = None,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        backend: str | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        truncate_dim: int | None = None,
        model_kwargs: Keywords | None = None,
        tokenizer_kwargs: Keywords | None = None,
        max_tokens: int | None = None,
    ) -> None:
        name = check_text("name_or_dir", name_or_dir, blank=False)
        self.name = MINILM if name == MINILM.rpartition("/")[2] else name
        kind = None if dtype is None else str(dtype).removeprefix("torch.")
        refuse_if(kind not in (None, *_DTYPES), "dtype", dtype, ", ".join(_DTYPES))
        self._options: dict[str, Any] = {
            "device": None if device is None else str(device),
            "dtype": kind,
            "batch_tokens": _positive("batch_tokens", batch_tokens),
            "backend": backend and check_text("backend", backend),
            "model_kwargs": check_mapping("model_kwargs", model_kwargs or {}),
            "tokenizer_kwargs": check_mapping("tokenizer_kwargs", tokenizer_kwargs or {}),
        }
        length = _positive("max_length", max_length)
        self._given: dict[str, Any] = {
            "pooling": pooling,
            "normalize": None if normalize is None else check_is("normalize", normalize, bool),
            "max_tokens": length if length is not None else _positive("max_tokens", max_tokens),
            "truncate_dim": _positive("truncate_dim", truncate_dim),
            "prompts": None
            if prompts is None
            else {
                each: check_is(f"prompts[{each!r}]", text, str)
                for each, text in check_mapping("prompts", prompts).items()
            },
            "default_prompt_name": default_prompt_name,
        }
        self._loaded: Dense | BundledDense | None = None
        self._worker = Worker("encoder")

    @classmethod
    def from_pretrained(
        cls, name_or_dir: str = MINILM, **options: Unpack[EncoderOptions]
    ) -> Encoder:
        """Load an encoder at once.

        Args:
            name_or_dir: As for `Encoder`.
            **options: As for `Encoder`.

        Raises:
            ModelLoadError: If it cannot be loaded.
        """
        encoder = cls(name_or_dir, **options)
        encoder._ready()
        return encoder

    @classmethod
    def embedded(cls, **options: Unpack[EncoderOptions]) -> Encoder:
        """Load all-MiniLM-L6-v2: mean pooling, length 1, 256 tokens."""
        return cls.from_pretrained(MINILM, **options)

    @property
    def width(self) -> int:
        """The number of dimensions of a vector; loads the weights."""
        return int(self._ready().width)

    @property
    def settings(self) -> dict[str, Any]:
        """Return pooling, normalize, max_tokens and what else the encoder has (prompts,
        default_prompt_name, truncate_dim) as plain values; loads the weights.
        """
        return dict(self._ready().recipe.settings)

    def encode(self, texts: Sequence[str], *, prompt_name: str = "") -> NDArray[np.float32]:
        """Encode texts in length-sorted batches.

        Args:
            texts: Texts to encode.
            prompt_name: Name of the prompt before each text. Defaults to the encoder's
                `default_prompt_name`, or no prompt if there is none.

        Returns:
            Vectors in the order of the texts. Shape: (texts, width).
        """
        checked = [(prompt_name, text) for text in check_many("texts", texts, str)]
        return self._stack(self._worker.call(self._encode, checked))

    def encode_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode questions with the prompt "query", if there is one. Shape: (texts, width)."""
        return self.encode(texts, prompt_name="query")

    def encode_document(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode passages with the first of the prompts "document", "passage" and "corpus" that
        exists.

        Shape: (texts, width).
        """
        return self.encode(texts, prompt_name="document")

    async def aencode(self, texts: Sequence[str], *, prompt_name: str = "") -> NDArray[np.float32]:
        """Async version of `encode`.

        Args:
            texts: Texts to encode.
            prompt_name: As for `encode`.
        """
        checked = [(prompt_name, text) for text in check_many("texts", texts, str)]
        if not checked:  # the width may still have to be loaded
            return await asyncio.to_thread(self.encode, [])
        return self._stack(await self._worker.acall(self._encode, checked))

    async def aencode_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Async version of `encode_query`."""
        return await self.aencode(texts, prompt_name="query")

    async def aencode_document(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Async version of `encode_document`."""
        return await self.aencode(texts, prompt_name="document")

    def unload(self) -> None:
        """Free the memory; later calls raise `ModelLoadError`."""
        self._worker.close()
        self._loaded = None
        if torch := sys.modules.get("torch"):
            torch.cuda.empty_cache()

    def _ready(self) -> Dense | BundledDense:
        return self._worker.call(lambda items: [self._load() for _ in items], [None])[0]

    def _encode(self, items: Sequence[tuple[str, str]]) -> Steps[list[NDArray[np.float32]]]:
        return self._load().encode(items)

    def _load(self) -> Dense | BundledDense:
        """Load at the first task, on the worker.

        MiniLM runs in ONNX Runtime, which encodes as torch does and starts sooner, without an
        option, with the checkpoint's own recipe, and without a GPU.
        """
        from fitrag_integrations.models.encoder.recipe import KNOWN

        if self._loaded is None and self.name == MINILM and not any(self._options.values()):
            own = {field: value for field, value in self._given.items() if value is not None}
            usual = replace(KNOWN[MINILM], **own) == KNOWN[MINILM] and not torch_sees_gpu()
            if folder := offline_minilm() if usual else None:
                from fitrag_integrations.models.bundled import BundledDense

                self._loaded = BundledDense(folder)
        if self._loaded is None:
            try:
                from fitrag_integrations.models.encoder.vectors import load
            except ModuleNotFoundError as error:
                raise torch_needed(error, "an Encoder") from error

            self._loaded = load(self.name, self._options, self._given)
        return self._loaded

    def _stack(self, rows: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        return np.stack(rows) if rows else np.empty((0, self.width), np.float32)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Encoder, self.name, **self._options, **self._given), ()

    def __repr__(self) -> str:
        return f"Encoder({self.name!r})"


def _positive(field: str, value: object) -> int | None:
    return None if value is None else check_whole(field, value, low=1)


class EncoderVectors:
    """Vectors of texts as lists, from an `Encoder`, a checkpoint's name, or the bundled encoder.

    An encoder is any object with `encode(texts)`. Its `encode_query`, `encode_document` and their
    async versions are used if it has them.
    """

    def __init__(self, encoder: Any = None) -> None:
        if encoder is None or isinstance(encoder, str):
            encoder = Encoder() if encoder is None else Encoder(encoder)
        allowed = "an object with an 'encode' method, or the name of a checkpoint"
        refuse_if(not can(encoder, "encode"), "encoder", encoder, allowed)
        self.encoder = encoder

    @property
    def name(self) -> str:
        """The name of the encoder's checkpoint, or of its class."""
        own = getattr(self.encoder, "name", None)
        return own if isinstance(own, str) else type(self.encoder).__name__

    def of(self, texts: Sequence[str], *, role: str = "document") -> list[list[float]]:
        """Encode texts, in order, with the prompt of a role ("query" or "document")."""
        return _plain(encode_as(self.encoder, role, list(texts))) if texts else []

    async def aof(self, texts: Sequence[str], *, role: str = "document") -> list[list[float]]:
        """Async version of `of`."""
        own = hasattr(self.encoder, f"encode_{role}")
        aencode = getattr(self.encoder, f"aencode_{role}" if own else "aencode", None)
        if not callable(aencode) or not texts:
            return await asyncio.to_thread(self.of, texts, role=role)
        return _plain(await aencode(list(texts)))


def _plain(vectors: Any) -> list[list[float]]:
    return [[float(number) for number in vector] for vector in vectors]


@runtime_checkable
class TextEncoder(Protocol):
    """Encoder of texts as vectors of `width` numbers, compared by their inner product.

    An encoder may add `aencode`, an async version of `encode`, and `encode_query`,
    `encode_document` and `aencode_query` if questions and passages are encoded differently.
    """

    @property
    def name(self) -> str:
        """The encoder's name, which identifies it."""

    @property
    def width(self) -> int:
        """The number of dimensions of a vector."""

    def encode(self, texts: Sequence[str], /) -> Any:
        """Return an array of shape (texts, width), in the order of `texts`."""


def encode_as(encoder: TextEncoder, role: str, texts: Sequence[str]) -> Any:
    """Encode texts with `encode_query` or `encode_document`, or else with `encode`.

    Args:
        encoder: The encoder.
        role: "query" or "document".
        texts: The texts.
    """
    return getattr(encoder, f"encode_{role}", encoder.encode)(texts)


def passage_text(passage: Passage) -> str:
    """Return a passage's text as it is encoded: title, blank, text, as in Contriever's index."""
    return f"{passage.title} {passage.text}" if passage.title else passage.text


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
