"""Run an encoder by ONNX Runtime or OpenVINO, where its outputs are those of torch.

One option chooses, `backend`. The graph is compared with torch on this machine each time it is
loaded; where it cannot be exported or differs, a `RuntimeWarning` says so and torch goes on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError, MissingExtraError, ModelLoadError
from fitrag_integrations.models.runtime.backends import Backend
from fitrag_integrations.models.runtime.backends.graph import exported, forget

DTYPES = {"onnx": (torch.float32,), "openvino": (torch.float32, torch.bfloat16)}
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.02}
"""How far outputs may lie from torch's in float32: the largest difference over the largest number;
for bfloat16 the difference's length over the number's, token by token, the mean of all."""
SHAPES = ((1, 7), (3, 33), (2, 130))  # of the batches that are compared
SEED = 13
Run = Callable[[Sequence[NDArray[np.int64]]], NDArray[np.float32]]


def check_place(backend: Backend, device: torch.device, dtype: torch.dtype) -> None:
    """Raise `InputError` for a device or precision that a backend does not run on."""
    if backend == "torch":
        return
    if device.type != "cpu":
        raise InputError.of("device", given=str(device), allowed=f"cpu, where {backend} runs")
    if dtype not in DTYPES[backend]:
        named = ", ".join(str(one).removeprefix("torch.") for one in DTYPES[backend])
        given = str(dtype).removeprefix("torch.")
        raise InputError.of("dtype", given=given, allowed=f"{named} with backend={backend!r}")


def compiled(
    module: nn.Module, backend: Backend, dtype: torch.dtype, *, what: str
) -> Callable[..., Tensor] | None:
    """Return what runs a module in place of torch; None, with a warning, where that cannot be.

    The module is on the CPU, in float32, and takes ids, their mask and types, each of shape (batch,
    tokens); errors call it `what`. Raises `MissingExtraError` where the backend's packages
    are not installed.
    """
    samples = [sample(module, shape) for shape in SHAPES]
    try:
        run = _loaded(module, backend, dtype, samples[1])
        apart = max(_apart(module, run, one, dtype) for one in samples)
    except MissingExtraError:
        raise
    except Exception as error:  # exporters and runtimes raise anything
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        _tell(what, backend, f"could not take it ({reason})")
        return None
    if not apart <= TOLERANCE[dtype]:
        given = f"lies {apart:.2g} from torch in float32, allowed {TOLERANCE[dtype]:g}"
        _tell(what, backend, given)
        return None
    return lambda *given: torch.from_numpy(run([tensor.numpy() for tensor in given]))


def sample(module: nn.Module, shape: tuple[int, int]) -> list[Tensor]:
    """Make a batch to compare on: random ids, the first row whole and each next one shorter."""
    config: Any = next(part.config for part in module.modules() if hasattr(part, "config"))
    rows, tokens = shape
    made = torch.Generator().manual_seed(SEED)
    ids = torch.randint(config.vocab_size // 2, config.vocab_size, shape, generator=made)
    lengths = tokens - torch.arange(rows).unsqueeze(1) * (tokens // 4)
    places = torch.arange(tokens)
    mask = (places < lengths).long()
    types = (places >= tokens // 3).long() * mask
    return [ids * mask, mask, types]


def _loaded(
    module: nn.Module, backend: Backend, dtype: torch.dtype, inputs: Sequence[Tensor]
) -> Run:
    start = {"onnx": _onnx, "openvino": _openvino}[backend]
    library = {"onnx": "onnxruntime", "openvino": "openvino"}[backend]
    runtime = require_extra(library, extra=backend, feature=f"backend={backend!r}")
    graph = exported(module, inputs, extra=backend)
    try:
        return start(runtime, str(graph), dtype)
    except Exception:  # a file of the cache that is not whole
        forget(graph)
        return start(runtime, str(exported(module, inputs, extra=backend)), dtype)


def _onnx(onnxruntime: Any, graph: str, dtype: torch.dtype) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]

    def run(inputs: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = session.run(None, dict(zip(names, inputs, strict=False)))[0]
        return found

    return run


def _openvino(openvino: Any, graph: str, dtype: torch.dtype) -> Run:
    precision = {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype]
    how = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = openvino.Core().compile_model(graph, "CPU", how).create_infer_request()
    count = len(request.model_inputs)

    def run(inputs: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
        found = request.infer(list(inputs[:count]), share_inputs=True)
        return np.array(found[0], dtype=np.float32)  # a copy: the request writes there again

    return run


@torch.inference_mode()
def _apart(module: nn.Module, run: Run, inputs: Sequence[Tensor], dtype: torch.dtype) -> float:
    """Return how far a graph's outputs lie from torch's, over the tokens that are there."""
    wanted = module(*inputs)
    found = torch.from_numpy(run([tensor.numpy() for tensor in inputs]))
    if found.shape != wanted.shape:
        raise ModelLoadError(f"shape {list(found.shape)}, not {list(wanted.shape)}")
    if wanted.dim() == 3:
        there = inputs[1].bool()
        wanted, found = wanted[there], found[there]
    if dtype == torch.float32:
        return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-6))
    lengths = wanted.norm(dim=-1).clamp(min=1e-6)
    return float(((found - wanted).norm(dim=-1) / lengths).mean())


def _tell(what: str, backend: str, why: str) -> None:
    warnings.warn(
        f"{what}: backend {backend!r} {why}; it runs in torch", RuntimeWarning, stacklevel=4
    )
