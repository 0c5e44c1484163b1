"""Weights on a device, the one worker that uses them, and the models that share them.

Models that name the same weights share one engine, so a scorer and a reader over one encoder, or
a gate and a generator over one language model, cost its memory once and take turns on one worker.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from fitrag_integrations.core.checks import check_is, check_text, check_whole
from fitrag_integrations.core.generic import A, Q
from fitrag_integrations.core.record import Keywords, Row, check_mapping
from fitrag_integrations.errors import (
    DeviceMemoryError,
    InputError,
    ModelLoadError,
    raise_if,
    refuse_if,
)
from fitrag_integrations.models.runtime.backends import (
    check_place,
    checked_backend,
    compiled,
    graphed,
)
from fitrag_integrations.models.runtime.batching import Room, in_batches
from fitrag_integrations.models.runtime.loading import Checkpoint
from fitrag_integrations.models.runtime.placing import GPUS, attending, is_placed, place
from fitrag_integrations.models.runtime.saved import SavedModel, Shared
from fitrag_integrations.models.runtime.worker import Steps, Worker

E = TypeVar("E", bound="SharedEngine")
BATCH_TOKENS = {"cpu": 1024, "cuda": 65536}  # a CPU gains from little padding, a GPU from size
FREE = 5e10  # weights times tokens that a GPU multiplies while a matrix's kernels are launched
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
GENERATION = {"cache_implementation", "compile_config", "disable_compile", "prefill_chunk_size"}


class Kwargs(dict[str, Any]):
    """Keyword arguments for another library, hashable by what they print as."""

    def __hash__(self) -> int:  # type: ignore[override]  # a dict is not hashable
        return hash(repr(sorted(self.items())))


class BaseOptions(TypedDict, total=False):
    """Keyword arguments of every `from_pretrained`, described in `Options`."""

    device: str | None
    dtype: str | None
    batch_tokens: int | None
    model_kwargs: Keywords | None
    tokenizer_kwargs: Keywords | None


class LoadOptions(BaseOptions, total=False):
    """Keyword arguments for models over a language model."""

    chat_template_kwargs: Keywords | None
    generation_kwargs: Keywords | None
    merge_adapter: bool
    gguf_file: str | None


class PairOptions(BaseOptions, total=False):
    """Keyword arguments for models over an encoder."""

    backend: str | None
    compile: bool
    max_length: int | None
    similarity: bool


@dataclass(frozen=True, slots=True)
class Options:
    """Where and how a model is loaded and run.

    Args:
        device: Device, e.g. `cuda:0`. Defaults to CUDA if available, else the CPU.
        dtype: "float32", "bfloat16" or "float16". None or "auto" is bfloat16 where the GPU or
            processor multiplies it, else float32.
        batch_tokens: Padded size of one forward pass. Defaults to the device's usual size.
        backend: None for PyTorch, else a backend that runs on the CPU.
        model_kwargs: Passed to the `from_pretrained` of transformers: `attn_implementation`,
            `device_map`, `quantization_config`, `revision`.
        tokenizer_kwargs: Passed to that of the tokenizer.
        chat_template_kwargs: Variables of the chat template, e.g. `{"enable_thinking": True}`.
        generation_kwargs: How transformers generates: `cache_implementation` ("static", which it
            compiles on a GPU), `compile_config`, `disable_compile`, `prefill_chunk_size`.
        merge_adapter: Add the adapter of a gate or a rewriter to the weights of a base of its own.
            Its passes cost what the base's do; the base is no longer shared with other models.
        compile: Run an encoder through `torch.compile`, with CUDA graphs on a GPU. The first
            batches of a shape take seconds to minutes; shapes are rounded up, so there are few.
        max_length: Maximum input length in tokens. Defaults to the model folder's.
        similarity: Whether the cosine of the untouched base counts, where a model has weights for
            it. Models with it and without share an engine.
    """

    device: str | None = None
    dtype: str | None = None
    batch_tokens: int | None = None
    backend: str | None = None
    model_kwargs: Kwargs = Kwargs()
    tokenizer_kwargs: Kwargs = Kwargs()
    chat_template_kwargs: Kwargs = Kwargs()
    generation_kwargs: Kwargs = Kwargs()
    merge_adapter: bool = False
    compile: bool = False
    max_length: int | None = None
    similarity: bool = field(default=True, compare=False)

    @classmethod
    def checked(
        cls,
        device: str | None = None,
        dtype: str | None = None,
        batch_tokens: int | None = None,
        backend: str | None = None,
        *,
        model_kwargs: Keywords | None = None,
        tokenizer_kwargs: Keywords | None = None,
        chat_template_kwargs: Keywords | None = None,
        generation_kwargs: Keywords | None = None,
        merge_adapter: bool = False,
        compile: bool = False,
        max_length: int | None = None,
        gguf_file: str | None = None,
        similarity: bool = True,
    ) -> Self:
        """Build options from a caller's arguments; raises `InputError` naming a wrong one."""
        packed = {} if gguf_file is None else {"gguf_file": check_text("gguf_file", gguf_file)}
        passed = {
            "model_kwargs": {**check_mapping("model_kwargs", model_kwargs or {}), **packed},
            "tokenizer_kwargs": tokenizer_kwargs,
            "chat_template_kwargs": chat_template_kwargs,
            "generation_kwargs": generation_kwargs,
        }
        given = {name: Kwargs(check_mapping(name, each or {})) for name, each in passed.items()}
        names = given["model_kwargs"]
        named = names.pop("dtype", names.pop("torch_dtype", None))
        if dtype is None and named is not None:  # as transformers spells it
            dtype = str(named).removeprefix("torch.")
        refuse_if(
            wrong := sorted(given["generation_kwargs"].keys() - GENERATION),
            "generation_kwargs",
            wrong,
            f"{', '.join(sorted(GENERATION))}; what is written stays greedy",
        )
        made = cls(
            device,
            None if dtype == "auto" else dtype,
            batch_tokens,
            backend,
            merge_adapter=check_is("merge_adapter", merge_adapter, bool),
            compile=check_is("compile", compile, bool),
            max_length=None if max_length is None else check_whole("max_length", max_length, low=1),
            similarity=check_is("similarity", similarity, bool),
            **given,
        )
        placed = made.resolved()[0]
        count = torch.cuda.device_count() if placed.type == "cuda" else 1
        refuse_if(
            (placed.index or 0) >= count,
            "device",
            device,
            f"cpu, or one of the {count} CUDA devices that torch finds; CUDA_VISIBLE_DEVICES hides "
            "others, and a driver older than torch hides all (nvidia-smi shows both)",
        )
        return made

    def checkpoint(self, source: str, what: str) -> Checkpoint:
        """Return a folder or hub name with what these options pass to transformers."""
        return Checkpoint(source, what, self.model_kwargs, self.tokenizer_kwargs)

    def resolved(self) -> tuple[torch.device, torch.dtype, int]:
        """Return device, dtype and batch size with the defaults filled in."""
        backend = checked_backend(self.backend)
        on_cuda = backend == "torch" and torch.cuda.is_available()
        try:
            device = torch.device(self.device or ("cuda" if on_cuda else "cpu"))
        except RuntimeError:
            raise InputError.of(
                "device", given=self.device, allowed="a torch device, such as cpu or cuda:0"
            ) from None
        refuse_if(
            self.dtype is not None and self.dtype not in DTYPES,
            "dtype",
            self.dtype,
            ", ".join(DTYPES),
        )
        native = self.dtype is not None or (backend != "onnx" and multiplies_bfloat16(device))
        dtype = DTYPES[self.dtype or ("bfloat16" if native else "float32")]
        check_place(backend, device, dtype)
        if device.type == "cuda" and not native:
            warnings.warn(
                f"{device} does not multiply bfloat16: the model runs in float32, with twice the "
                "memory; dtype='float16' takes half",
                RuntimeWarning,
                stacklevel=2,
            )
        refuse_if(self.compile and backend != "torch", "compile", True, "False with a backend")
        usual = BATCH_TOKENS.get(device.type, 8192)
        budget = usual if self.batch_tokens is None else self.batch_tokens
        refuse_if(budget < 1, "batch_tokens", budget, "a whole number above 0")
        return device, dtype, budget


def multiplies_bfloat16(device: torch.device) -> bool:
    """Check for products in bfloat16; where it is emulated, float32 is the faster.

    `FITRAG_CPU_DTYPE=float32` answers no for every processor, so that scores are the same on all.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu" or os.environ.get("FITRAG_CPU_DTYPE") == "float32":
        return False
    names = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)


def free_tokens(module: nn.Module) -> int:
    """Return the padded tokens that a GPU multiplies in the time the host takes to launch a pass.

    A matrix comes with some 15 kernels of 14 microseconds each, in which an H200 at .6 of its peak
    does `FREE` products: 1,700 tokens for 7 billion weights, 34,000 for 110 million.
    """
    sizes = [p.numel() for p in module.parameters() if p.ndim > 1]
    return int(FREE * len(sizes) / max(1, sum(sizes)))


class SharedEngine(Shared):
    """One copy of the weights, placed by `options`, with a count of the models that use it."""

    def __init__(self, module: nn.Module, options: Options, *, name: str) -> None:
        self.device, self.dtype, tokens = options.resolved()
        if is_placed(module):  # by transformers: inputs go where its first weights are
            first = next(p for p in module.parameters() if p.is_floating_point())
            self.dtype = first.dtype
            self.device = self.device if first.is_meta else first.device
        self.room = Room(tokens, free_tokens(module) if self.device.type in GPUS else None)
        self.backend = checked_backend(options.backend)
        exact = self.backend != "torch"  # a graph is exported in float32, whatever runs it
        try:
            self._module = place(module, self.device, torch.float32 if exact else self.dtype).eval()
        except torch.OutOfMemoryError as error:
            raise DeviceMemoryError(
                f"no memory on {self.device} for the weights of {name} in {self.dtype}: pass "
                "dtype='bfloat16' (or 'float16'), model_kwargs={'device_map': 'auto'} to spread "
                "them, a `quantization_config` for 4 bits, or device='cpu'"
            ) from error
        self.compute: Callable[..., Tensor] = self._module
        if self.backend != "torch":
            made = compiled(self._module, self.backend, self.dtype, what=name)
            self.compute = made or place(module, self.device, self.dtype)
        elif options.compile:
            self.compute = graphed(self._module)
        self.worker = Worker(name, bound=self.device.type in GPUS)

    def batched(
        self,
        items: Sequence[Q],
        run: Callable[[list[Q]], Sequence[A]],
        *,
        length: Callable[[Q], int],
        writes: bool = False,
    ) -> Steps[list[A]]:
        """Run items in token batches, as `in_batches` does. On the worker only.

        A batch that writes takes a pass per token, however few rows it has: its padding is free.
        """
        free = self.room.tokens if writes and self.room.free is not None else self.room.free

        def attended(batch: list[Q]) -> Sequence[A]:
            with attending(self.device):
                return run(batch)

        return in_batches(items, attended, length=length, budget=self.room, free=free)

    def check_finite(self, sound: object) -> None:
        """Raise `ModelLoadError` unless what a pass computed is `sound`: numbers, none infinite."""
        raise_if(
            not sound,
            ModelLoadError,
            f"{self.worker._name} computed numbers that are not finite in {self.dtype}: load it "
            "with dtype='float32', or with 'bfloat16', which holds larger numbers than 'float16'; "
            "if it was so, restore its files",
        )

    def release(self) -> None:
        """Count one model less; the last one stops the worker and frees the memory."""
        super().release()
        if self._users <= 0:
            if not is_placed(self._module):
                self._module.to("meta")
            if self.device.type in GPUS:
                torch.cuda.empty_cache()


class EngineModel(SavedModel, Generic[E]):
    """Model over an engine, which it may share."""

    _engine: E

    def __init__(self, engine: E, *, manifest: Row | None = None) -> None:
        super().__init__(manifest)
        self._engine = engine

    def _details(self) -> list[str]:
        return [f"device={str(self._engine.device)!r}"]
