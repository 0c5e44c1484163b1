"""Load causal language models, and share one engine among all that name the same base."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.causal import CausalEngine
from fitrag_integrations.models.encoders import _quietly
from fitrag_integrations.models.engine import Options
from fitrag_integrations.models.folder import read_manifest
from fitrag_integrations.models.sources import model_folder, verify, weights_source


def load_causal(
    source: str, *, dtype: torch.dtype = torch.float32, attention: str | None = None
) -> tuple[Any, Any]:
    """Load a causal language model and its tokenizer; safetensors only, no code of others."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options: dict[str, Any] = {"attn_implementation": attention} if attention else {}
    try:
        with _quietly():
            tokenizer = AutoTokenizer.from_pretrained(source)
            model = AutoModelForCausalLM.from_pretrained(
                source, dtype=dtype, use_safetensors=True, **options
            )
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelLoadError(f"language model {source!r} could not be loaded: {error}") from error
    return model, tokenizer


def causal_source(name_or_dir: str | Path) -> tuple[str, str, dict[str, Any]]:
    """Say what to load, what it is called, and what its `model.json` adds, where it has one.

    The files a manifest names are compared with their checksums. Raises `ModelLoadError` for a
    folder without a model, `ChecksumError` for a changed file.
    """
    source = weights_source(str(name_or_dir))
    folder = Path(source)
    if not folder.is_dir():
        return source, source, {}
    folder = folder.resolve()
    if not (folder / "model.json").is_file():
        return str(folder), folder.name, {}
    manifest = read_manifest(folder, "model.json", kind="generator")
    for file, digest in manifest.get("files", {}).items():
        verify(folder / file, digest)
    return str(folder), manifest.get("name") or folder.name, manifest


_engines: weakref.WeakValueDictionary[tuple[str, Options], CausalEngine] = (
    weakref.WeakValueDictionary()
)
_loading = threading.Lock()


def shared_causal(name_or_dir: str | Path, options: Options) -> CausalEngine:
    """Load a language model's engine, or give the one that is already there."""
    source, name, manifest = causal_source(name_or_dir)
    with _loading:
        engine = _engines.get((source, options))
        if engine is None or engine.worker.closed:
            _, dtype, _ = options.resolved()
            model, tokenizer = load_causal(source, dtype=dtype)
            engine = CausalEngine(model, tokenizer, options, name=name, manifest=manifest)
            _engines[source, options] = engine
        return engine.retain()


def base_of(folder: Path, base: str) -> str:
    """Resolve a base that is named relative to the model folder that names it."""
    return str(model_folder((folder / base).resolve())) if base.startswith(".") else base
