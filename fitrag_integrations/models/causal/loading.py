"""Load causal language models, and share one engine among the models over the same base."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch

from fitrag_integrations.core.checks import check_many, check_text, check_whole
from fitrag_integrations.core.extras import installed
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import MissingExtraError, refuse_if
from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.causal.language_model import CausalEngine
from fitrag_integrations.models.runtime.engine import (
    EngineModel,
    Kwargs,
    LoadOptions,
    Options,
)
from fitrag_integrations.models.runtime.folder import (
    read_manifest,
    reading,
    verify_all,
    write_manifest,
)
from fitrag_integrations.models.runtime.loading import Checkpoint, check_vocabulary
from fitrag_integrations.models.runtime.saved import Pool
from fitrag_integrations.models.runtime.sources import model_folder, weights_source


def load_causal(
    source: str,
    *,
    dtype: torch.dtype = torch.float32,
    tokenizer_kwargs: Row | None = None,
    **model_kwargs: Any,
) -> tuple[Any, Any]:
    """Load a causal language model and its tokenizer from safetensors or GGUF; no remote code.

    Args:
        source: Folder or hub name.
        dtype: Data type of the weights.
        tokenizer_kwargs: Passed to the tokenizer's `from_pretrained`.
        **model_kwargs: Passed to the model's `from_pretrained`, such as `device_map` or
            `gguf_file`.

    Returns:
        The model and the tokenizer.

    Raises:
        ModelLoadError: If a file is missing or unusable.
    """
    what = f"language model {source!r}"
    checkpoint = Checkpoint(source, what, model_kwargs, tokenizer_kwargs or {})
    tokenizer = checkpoint.tokenizer()
    model = checkpoint.model("AutoModelForCausalLM", dtype=dtype)
    check_vocabulary(model, tokenizer, what)
    return model, tokenizer


def packed_in(name_or_dir: str | Path) -> tuple[str | Path, str]:
    """Split the name of a .gguf file into its folder and its own name; blank for other models.

    A folder with one such file and no config.json is meant too.
    """
    path = Path(name_or_dir).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return path.parent, path.name
    found = [] if (path / "config.json").is_file() else sorted(path.glob("*.gguf"))
    names = [one.name for one in found]
    refuse_if(len(found) > 1, "gguf_file", None, f"one of {', '.join(names)} in {path}")
    return name_or_dir, "".join(names)


def causal_source(name_or_dir: str | Path, packed: str = "") -> tuple[str, str, Row]:
    """Return what to load, its name, and the fields of its `model.json`, if it has one.

    With `packed` the weights are in that GGUF file of the folder. The files that a manifest names
    are compared with their checksums. Raises `ModelLoadError` for a
    folder without a model, `ChecksumError` for a changed file.
    """
    source = str(name_or_dir) if packed else weights_source(str(name_or_dir))
    folder = Path(source).expanduser()
    if not folder.is_dir():
        return source, source, {}
    folder = folder.resolve()
    own = Path(packed).stem if packed else folder.name
    if not (folder / "model.json").is_file():
        return str(folder), own, {}
    manifest = read_manifest(folder, "model.json", kind="generator")
    with reading(folder):
        verify_all(folder, manifest.get("files", {}))
        name = check_text("name", manifest.get("name") or own)
        check_whole("max_new_tokens", manifest.get("max_new_tokens", 1), low=1)
        check_text("prompt", manifest.get("prompt", ""))
        check_many("stop", manifest.get("stop", ()), str)
        refuse_if(
            "{question}" not in manifest.get("prompt", "{question}"),
            "prompt",
            manifest.get("prompt"),
            "one with {question}",
        )
    return str(folder), name, manifest


_engines: Pool[CausalEngine] = Pool()
_log = logging.getLogger("fitrag_integrations.models")


def shared_causal(
    name_or_dir: str | Path, options: Options, *, merged: tuple[Path, Row] | None = None
) -> CausalEngine:
    """Load a language model's engine, or return the one that is already there.

    With `merged`, a folder and the entry of its adapter, that one is added to the weights.
    """
    packed = options.model_kwargs.get("gguf_file", "")
    if not packed:
        name_or_dir, packed = packed_in(name_or_dir)
        given = {"gguf_file": packed} if packed else {}
        options = replace(options, model_kwargs=Kwargs({**options.model_kwargs, **given}))
    source, name, manifest = causal_source(name_or_dir, packed)

    def load() -> CausalEngine:
        if packed:
            if not installed("gguf"):
                raise MissingExtraError(
                    f"gguf is needed for {packed}: pip install gguf", name="gguf"
                )
            _log.warning(
                "%s is unpacked to %s as it is read: that takes minutes, and several times the "
                "file's size in memory; a folder that transformers saved loads in seconds",
                packed,
                str(options.resolved()[1]).removeprefix("torch."),
            )
        model, tokenizer = load_causal(
            source,
            dtype=options.resolved()[1],
            tokenizer_kwargs=options.tokenizer_kwargs,
            **options.model_kwargs,
        )
        if merged is not None:
            causal_adapters.merge(model, *causal_adapters.read(*merged))
        return CausalEngine(model, tokenizer, options, name=name, manifest=manifest)

    key = source if merged is None else f"{source} with {merged[0].resolve()}"
    return _engines.take(key, options, load)


def base_of(folder: Path, base: str) -> str:
    """Resolve a base that is named relative to the model folder that names it."""
    return str(model_folder((folder / base).resolve())) if base.startswith(".") else base


class CausalModel(EngineModel[CausalEngine]):
    """Model over a causal engine, with an optional adapter."""

    def __init__(
        self,
        engine: CausalEngine,
        *,
        manifest: Row | None = None,
        adapter: str | None = None,
    ) -> None:
        super().__init__(engine, manifest=manifest)
        self._adapter = adapter
        self._merged: tuple[Path, Row] | None = None

    @classmethod
    def _over(cls, folder: Path, manifest: Row, options: LoadOptions) -> Self:
        """Load the base that a folder's manifest names, and the adapter beside it.

        The `chat_template_kwargs` of the folder hold unless the caller passes others: a threshold
        was fitted on the prompts they give.
        """
        with reading(folder), ExitStack() as undo:
            given = options.get("chat_template_kwargs")
            kept = manifest.get("chat_template_kwargs") if given is None else given
            own: LoadOptions = {**options, "chat_template_kwargs": kept}
            chosen, entry, adapter = Options.checked(**own), manifest.get("weights"), None
            lora = bool(entry) and manifest.get("variant", "lora") == "lora"
            merged = (folder, entry) if entry and lora and chosen.merge_adapter else None
            engine = shared_causal(base_of(folder, manifest["base"]), chosen, merged=merged)
            undo.callback(engine.release)
            if entry and lora and merged is None:
                adapter = engine.attach(*causal_adapters.read(folder, entry))
                undo.callback(engine.detach, adapter)
            made = cls._build(engine, folder, manifest, adapter)
            made._merged = merged
            undo.pop_all()
        return made

    @classmethod
    def _build(cls, engine: CausalEngine, folder: Path, manifest: Row, adapter: str | None) -> Self:
        return cls(engine, manifest=manifest, adapter=adapter)

    def _release(self) -> None:
        if self._adapter is not None:
            self._engine.detach(self._adapter)
        super()._release()

    def save_pretrained(self, folder: str | Path) -> None:
        """Save to `folder` what was fitted, with prompts and lengths; the base is only named."""
        folder, base = Path(folder), self._base()
        fields = {**self.manifest, "base": base}
        if self._engine.options.chat_template_kwargs:
            fields["chat_template_kwargs"] = dict(self._engine.options.chat_template_kwargs)
        entry = self._save_weights(folder, base)
        if entry is not None:
            fields["weights"] = {**self.manifest.get("weights", {}), **entry}
        write_manifest(folder, "model.json", kind=self.kind, fields=fields)

    def _save_weights(self, folder: Path, base: str) -> dict[str, str] | None:
        if self._merged is not None:
            return causal_adapters.write(folder, *causal_adapters.read(*self._merged), base=base)
        if self._adapter is None:
            return None
        return causal_adapters.save(self._engine.model, folder, self._adapter, base=base)

    def _base(self) -> str:
        """Return a name of the base that can be resolved from anywhere."""
        base = str(self.manifest["base"])
        if self._origin is None or not base.startswith("."):
            return base
        return base_of(model_folder(self._origin.source), base)
