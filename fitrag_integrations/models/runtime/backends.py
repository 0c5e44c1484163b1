"""Run an encoder with ONNX Runtime or OpenVINO, if its outputs equal those of torch.

One option chooses, `backend`. The graph is compared with torch on this machine each time it is
loaded; if it cannot be exported or differs, a `RuntimeWarning` is issued and torch is used. Graphs
lie in the user's cache folder, named by the checksum of weights, configuration and exporter.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import MissingExtraError, ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.runtime.loading import position_limit

Backend = Literal["torch", "onnx", "openvino"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
DTYPES = {"onnx": (torch.float32,), "openvino": (torch.float32, torch.bfloat16)}
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.02}
"""How far outputs may lie from torch's in float32: the largest difference over the largest number;
for bfloat16 the difference's length over the number's, token by token, the mean of all."""
SHAPES = ((1, 7), (3, 33), (2, 130))  # of the batches that are compared
SEED = 13
FILE = "model.onnx"
WIDTH = 64  # tokens that the shapes of a compiled model are rounded up to
MOST_BYTES = 1_900_000_000  # of one file; heavier weights lie beside the graph
Run = Callable[[Sequence[NDArray[np.int64]]], NDArray[np.float32]]


def checked_backend(name: str | None) -> Backend:
    """Return the backend of a name; None is torch. Raises `InputError` for an unknown name."""
    refuse_if((name or "torch") not in BACKENDS, "backend", name, ", ".join(BACKENDS))
    return cast(Backend, name or "torch")


def check_place(backend: Backend, device: torch.device, dtype: torch.dtype) -> None:
    """Raise `InputError` for a device or precision that a backend does not run on."""
    if backend == "torch":
        return
    refuse_if(device.type != "cpu", "device", str(device), f"cpu, where {backend} runs")
    given, *names = (str(one).removeprefix("torch.") for one in (dtype, *DTYPES[backend]))
    refuse_if(given not in names, "dtype", given, f"{', '.join(names)} with backend={backend!r}")


def compiled(
    module: nn.Module, backend: Backend, dtype: torch.dtype, *, what: str
) -> Callable[..., Tensor] | None:
    """Return the compiled version of a module; None, with a warning, if it cannot be compiled.

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
        _tell(
            what,
            backend,
            f"lies {apart:.2g} from torch in float32, allowed {TOLERANCE[dtype]:g}",
        )
        return None
    return lambda *given: torch.from_numpy(run([tensor.numpy() for tensor in given]))


def graphed(module: nn.Module) -> Callable[..., Tensor]:
    """Compile a module that `compiled` takes, with CUDA graphs on a GPU.

    Each shape is compiled once: rows are rounded up to a power of two, tokens to `WIDTH`s, up to
    the positions there are.
    """
    config: Any = next(part.config for part in module.modules() if hasattr(part, "config"))
    run, limit = torch.compile(module, mode="reduce-overhead"), position_limit(config)

    def compute(*given: Tensor) -> Tensor:
        rows, tokens = given[0].shape
        wide = -(-tokens // WIDTH) * WIDTH
        more = (0, min(wide, limit or wide) - tokens, 0, (1 << (rows - 1).bit_length()) - rows)
        ids, mask, types = (nn.functional.pad(each, more) for each in given)
        mask[rows:, 0] = 1  # softmax over nothing is no number
        states: Tensor = run(ids, mask, types)[:rows, :tokens]
        return states.clone()  # the next run writes where this one did

    return compute


def sample(module: nn.Module, shape: tuple[int, int]) -> list[Tensor]:
    """Build a batch to compare on: random ids, the first row full and each next one shorter."""
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
    start, library = {
        "onnx": (_onnx, "onnxruntime"),
        "openvino": (_openvino, "openvino"),
    }[backend]
    runtime = require_extra(library, extra=backend, feature=f"backend={backend!r}")
    graph = exported(module, inputs, extra=backend)
    try:
        return start(runtime, str(graph), dtype)
    except Exception:  # a file of the cache that is not whole
        shutil.rmtree(graph.parent, ignore_errors=True)
        return start(runtime, str(exported(module, inputs, extra=backend)), dtype)


def _onnx(onnxruntime: Any, graph: str, dtype: torch.dtype) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    return lambda inputs: session.run(None, dict(zip(names, inputs, strict=False)))[0]


def _openvino(openvino: Any, graph: str, dtype: torch.dtype) -> Run:
    how = {
        "INFERENCE_PRECISION_HINT": {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype],
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = openvino.Core().compile_model(graph, "CPU", how).create_infer_request()
    count = len(request.model_inputs)
    return (
        lambda inputs: np.array(  # a copy: the request writes there again
            request.infer(list(inputs[:count]), share_inputs=True)[0], dtype=np.float32
        )
    )


@torch.inference_mode()
def _apart(module: nn.Module, run: Run, inputs: Sequence[Tensor], dtype: torch.dtype) -> float:
    """Return how far a graph's outputs lie from torch's, over the tokens that are there."""
    wanted = module(*inputs)
    found = torch.from_numpy(run([tensor.numpy() for tensor in inputs]))
    raise_if(
        found.shape != wanted.shape,
        ModelLoadError,
        f"shape {list(found.shape)}, not {list(wanted.shape)}",
    )
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


def exported(module: nn.Module, inputs: Sequence[Tensor], *, extra: str) -> Path:
    """Return the graph of a module on the CPU, in float32, from the cache or exported into it.

    `inputs` are samples, each (batch, tokens) int64; the graph takes any batch and length. `extra`
    is named where the exporter's packages are missing. Raises whatever the exporter raises.
    """
    folder = cache_folder() / "graphs" / digest(module)
    if not (folder / FILE).is_file():
        for needed in ("onnx", "onnxscript"):
            require_extra(needed, extra=extra, feature="exporting an encoder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            _export(module, tuple(inputs), Path(made) / FILE)
            with contextlib.suppress(OSError):  # another process was first
                os.rename(made, folder)
                os.mkdir(made)  # for the block to remove
    return folder / FILE


def cache_folder() -> Path:
    """Return the folder of graphs: `FITRAG_CACHE`, or the system's cache folder."""
    if given := os.environ.get("FITRAG_CACHE"):
        return Path(given).expanduser()
    home = Path.home()
    place = {"darwin": home / "Library" / "Caches", "win32": home / "AppData" / "Local"}
    usual = place.get(sys.platform, home / ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "fitrag"


def digest(module: nn.Module) -> str:
    """Return the SHA-256 digest of a module's weights, configurations and exporter."""
    found = hashlib.sha256(f"1 {torch.__version__} {version('transformers')}".encode())
    for part in module.modules():
        config = getattr(part, "config", None)
        text = config.to_json_string() if config is not None else type(part).__name__
        found.update(text.encode())
    for name, tensor in module.state_dict().items():
        found.update(name.encode())
        found.update(tensor.detach().contiguous().numpy().data)
    return found.hexdigest()


def _export(module: nn.Module, inputs: tuple[Tensor, ...], path: Path) -> None:
    dims = {0: torch.export.Dim("batch", min=1, max=65536), 1: torch.export.Dim.DYNAMIC}
    names = [f"input{i}" for i in range(len(inputs))]
    parts: list[Any] = [m for m in module.children() if hasattr(m, "set_attn_implementation")]
    kept = [part.config._attn_implementation for part in parts]
    try:
        for part in parts:  # attention of plain operations
            part.set_attn_implementation("eager")
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # the exporter's own, which are no fault of ours
            program: Any = torch.onnx.export(
                module,
                inputs,
                dynamo=True,
                verbose=False,
                input_names=names,
                output_names=["output"],
                dynamic_shapes=(dims,) * len(inputs),
            )
    finally:
        for part, before in zip(parts, kept, strict=True):
            part.set_attn_implementation(before)
    size = sum(p.numel() * p.element_size() for p in module.parameters())
    program.save(str(path), external_data=size > MOST_BYTES)
