"""An encoder as an ONNX graph in the user's cache folder, exported once for each set of weights.

The graph's name is the checksum of the weights, of the configuration and of what exported it, so
weights that were trained further, or a newer exporter, get a graph of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fitrag_integrations.core.extras import require_extra

FILE = "model.onnx"
MOST_BYTES = 1_900_000_000  # of one file; heavier weights lie beside the graph


def cache_folder() -> Path:
    """Return the folder for graphs: `FITRAG_CACHE`, else below the system's place for caches."""
    if given := os.environ.get("FITRAG_CACHE"):
        return Path(given).expanduser() / "graphs"
    home = Path.home()
    place = {"darwin": home / "Library" / "Caches", "win32": home / "AppData" / "Local"}
    usual = place.get(sys.platform, home / ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "fitrag" / "graphs"


def exported(module: nn.Module, inputs: Sequence[Tensor], *, extra: str) -> Path:
    """Return the graph of a module on the CPU, in float32, from the cache or exported into it.

    `inputs` are samples, each (batch, tokens) int64; the graph takes any batch and length. `extra`
    is named where the exporter's packages are missing. Raises whatever the exporter raises.
    """
    folder = cache_folder() / digest(module)
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


def forget(graph: Path) -> None:
    """Remove a graph that could not be read, so that it is exported anew."""
    shutil.rmtree(graph.parent, ignore_errors=True)


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
    with _eager(module), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's own, of things that are no fault of ours
        program: Any = torch.onnx.export(
            module,
            inputs,
            dynamo=True,
            verbose=False,
            input_names=names,
            output_names=["output"],
            dynamic_shapes=(dims,) * len(inputs),
        )
    size = sum(p.numel() * p.element_size() for p in module.parameters())
    program.save(str(path), external_data=size > MOST_BYTES)


@contextlib.contextmanager
def _eager(module: nn.Module) -> Iterator[None]:
    """Switch attention to plain operations for the block."""
    parts: list[Any] = [m for m in module.children() if hasattr(m, "set_attn_implementation")]
    kept = [(part, part.config._attn_implementation) for part in parts]
    for part in parts:
        part.set_attn_implementation("eager")
    try:
        yield
    finally:
        for part, before in kept:
            part.set_attn_implementation(before)
