"""Move a model to a device and a precision, except for tensors that need full precision.

`Module.to(dtype)` casts every floating tensor. Among them are the frequencies of rotary positions,
which a checkpoint does not hold and its code makes in float32: in bfloat16 they keep three digits,
and position 4,000 is turned by several radians too much or too little. A head of one output needs
its digits as well: bfloat16 has steps of .004 below 1.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pad_sequence

_MARK = "stays_float32"
GPUS = {"cuda"}
"""Types of device that are programmed as CUDA is; a simulated one adds its own."""
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
M = TypeVar("M", bound=nn.Module)


def place(module: M, device: torch.device | str, dtype: torch.dtype) -> M:
    """Cast a module in place, as `cast` does, then move it to a device.

    One that was put on its devices, or into 4 bits, as it was loaded stays as it is.
    """
    return module if is_placed(module) else cast(module, dtype).to(device)


def is_placed(module: nn.Module) -> bool:
    """Check whether transformers has put a model, or a part of one, where it is: in 4 bits, or by a
    device map.
    """
    return any(
        getattr(part, "is_quantized", False) or getattr(part, "hf_device_map", None)
        for part in module.modules()
    )


def sent(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor to a device; to a GPU from pinned memory, while the host goes on."""
    if torch.device(device).type in GPUS:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def padded(
    rows: Sequence[Sequence[int]], pad_id: int, device: torch.device | str, *, side: str = "right"
) -> tuple[Tensor, Tensor]:
    """Pad rows to the longest, and send ids and mask to a device. Shape each: (rows, ids)."""
    each = [torch.tensor(row, dtype=torch.long) for row in rows]
    ids = pad_sequence(each, batch_first=True, padding_value=pad_id, padding_side=side)
    ones = [torch.ones_like(row) for row in each]
    return sent(ids, device), sent(pad_sequence(ones, batch_first=True, padding_side=side), device)


def cast(module: M, dtype: torch.dtype) -> M:
    """Cast in place the floating tensors that a checkpoint holds: parameters, persistent buffers.

    Buffers that the code makes itself stay as they were made, and so does what the architecture
    keeps in float32, or `float32_head` does.
    """
    saved = module.state_dict(keep_vars=True).keys()
    kept = _kept(module, dtype)
    for name, tensor in _tensors(module):
        if name in saved and tensor.is_floating_point():
            tensor.data = tensor.data.to(torch.float32 if name in kept else dtype)
    return module


def float32_head(model: Any) -> None:
    """Keep what a transformers classifier puts on its base model in float32, and what it reads.

    States are computed in the precision that `cast` sets; from them on, nothing is rounded.
    """
    for part in model.children():
        if part is not model.base_model:
            setattr(part.float(), _MARK, True)
            part.register_forward_pre_hook(
                lambda _, given: tuple(
                    x.float() if isinstance(x, Tensor) and x.is_floating_point() else x
                    for x in given
                )
            )


def fused(model: M) -> M:
    """Let the fused kernels of a GPU take a T5's attention and norms; return the model, changed.

    transformers gives attention a position bias whose last dimension is not contiguous, which no
    fused kernel takes, and computes a norm in six kernels.
    """
    parts: Iterator[Any] = model.modules()
    for part in parts:
        if hasattr(part, "compute_bias"):
            part.compute_bias = partial(_contiguous_bias, type(part), part)
        if type(part).__name__.endswith("T5LayerNorm"):
            part.forward = partial(_rms_norm, type(part), part)
    return model


def _contiguous_bias(kind: Any, part: nn.Module, *given: Any, **named: Any) -> Any:
    return kind.compute_bias(part, *given, **named).contiguous()


def _rms_norm(kind: Any, part: Any, states: Tensor) -> Any:
    weight, half = part.weight, states.dtype != torch.float32
    if states.dtype != weight.dtype or (half and states.device.type == "cpu"):  # slower there
        return kind.forward(part, states)
    return F.rms_norm(states, weight.shape, weight, part.variance_epsilon)


def attending(device: torch.device) -> AbstractContextManager[None]:
    """Run attention on a GPU by kernels that need no plan for a new shape, which cuDNN's does.

    A plan takes the host 4 to 7 ms, and batches seldom have a shape twice. Torch keeps the choice
    for the process: the first forward pass of several makes it, and the last one takes it back.
    """
    return _attention if device.type in GPUS else nullcontext()


class _Attention(AbstractContextManager[None]):
    """Reentrant choice of attention's kernels that threads share."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._chosen: AbstractContextManager[None] = nullcontext()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._chosen = sdpa_kernel(KERNELS)
                self._chosen.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._chosen.__exit__(None, None, None)


_attention = _Attention()


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _kept(module: nn.Module, dtype: torch.dtype) -> set[str]:
    """Return the names of the tensors that stay in float32: of marked parts, and by the
    architecture.

    It names some for float16 alone, which overflows where bfloat16 does not.
    """
    kept = set()
    for path, part in module.named_modules():
        start = f"{path}." if path else ""
        if getattr(part, _MARK, False):
            kept |= {f"{start}{name}" for name, _ in _tensors(part)}
        parts = set(getattr(part, "_keep_in_fp32_modules_strict", None) or ())
        if dtype == torch.float16:
            parts |= set(getattr(part, "_keep_in_fp32_modules", None) or ())
        if parts:
            within = re.compile(rf"(^|\.)({'|'.join(parts)})($|\.)")
            kept |= {f"{start}{name}" for name, _ in _tensors(part) if within.search(name)}
    return kept
