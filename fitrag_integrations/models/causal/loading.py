"""Load causal language models, and share one engine among all that name the same base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from fitrag_integrations.core.checks import check_many, check_text, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.causal.engine import CausalEngine
from fitrag_integrations.models.runtime.engine import Options, Pool
from fitrag_integrations.models.runtime.folder import read_manifest, reading
from fitrag_integrations.models.runtime.loading import Checkpoint, check_vocabulary
from fitrag_integrations.models.runtime.sources import model_folder, verify, weights_source


def load_causal(
    source: str,
    *,
    dtype: torch.dtype = torch.float32,
    tokenizer_kwargs: Row | None = None,
    **model_kwargs: Any,
) -> tuple[Any, Any]:
    """Load a causal language model and its tokenizer; safetensors only, no remote code.

    Args:
        source: Folder or hub name.
        dtype: Data type of the weights.
        tokenizer_kwargs: Passed to the tokenizer's `from_pretrained`.
        **model_kwargs: Passed to the model's `from_pretrained`, such as `device_map`.
    """
    what = f"language model {source!r}"
    checkpoint = Checkpoint(source, what, model_kwargs, tokenizer_kwargs or {})
    tokenizer = checkpoint.tokenizer()
    given: dict[str, Any] = {} if "dtype" in model_kwargs else {"dtype": dtype}
    model = checkpoint.model("AutoModelForCausalLM", **given)
    check_vocabulary(model, tokenizer, what)
    return model, tokenizer


def causal_source(name_or_dir: str | Path) -> tuple[str, str, Row]:
    """Return what to load, what it is called, and what its `model.json` adds, where it has one.

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
    with reading(folder):
        for file, digest in manifest.get("files", {}).items():
            verify(folder / file, digest)
        name = check_text("name", manifest.get("name") or folder.name)
        check_whole("max_new_tokens", manifest.get("max_new_tokens", 1), low=1)
        check_text("prompt", manifest.get("prompt", ""))
        check_many("stop", manifest.get("stop", ()), str)
        if "{question}" not in manifest.get("prompt", "{question}"):
            raise InputError.of("prompt", given=manifest["prompt"], allowed="one with {question}")
    return str(folder), name, manifest


_engines: Pool[CausalEngine] = Pool()


def shared_causal(name_or_dir: str | Path, options: Options) -> CausalEngine:
    """Load a language model's engine, or give the one that is already there."""
    source, name, manifest = causal_source(name_or_dir)

    def load() -> CausalEngine:
        model, tokenizer = load_causal(
            source,
            dtype=options.resolved()[1],
            tokenizer_kwargs=options.tokenizer_kwargs,
            **options.model_kwargs,
        )
        return CausalEngine(model, tokenizer, options, name=name, manifest=manifest)

    return _engines.take(source, options, load)


def base_of(folder: Path, base: str) -> str:
    """Resolve a base that is named relative to the model folder that names it."""
    return str(model_folder((folder / base).resolve())) if base.startswith(".") else base
