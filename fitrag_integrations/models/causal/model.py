"""What the models over a causal engine share: loading, saving, checking."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.causal.engine import CausalEngine
from fitrag_integrations.models.causal.loading import base_of, shared_causal
from fitrag_integrations.models.runtime.engine import EngineModel, LoadOptions, Options
from fitrag_integrations.models.runtime.folder import reading, write_manifest
from fitrag_integrations.models.runtime.sources import model_folder


class CausalModel(EngineModel[CausalEngine]):
    """Model over a causal engine, with an optional adapter."""

    def __init__(
        self,
        engine: CausalEngine,
        *,
        manifest: Row | None = None,
        adapter: str | None = None,
    ) -> None:
        super().__init__(manifest)
        self._engine = engine
        self._adapter = adapter

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
            chosen = Options.checked(**own)
            engine = shared_causal(base_of(folder, manifest["base"]), chosen)
            undo.callback(engine.release)
            adapter = None
            if manifest.get("weights") and manifest.get("variant", "lora") == "lora":
                adapter = engine.attach(*causal_adapters.read(folder, manifest["weights"]))
                undo.callback(engine.detach, adapter)
            made = cls._build(engine, folder, manifest, adapter)
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
        if self._adapter is None:
            return None
        return causal_adapters.save(self._engine.model, folder, self._adapter, base=base)

    def _base(self) -> str:
        """Return a name of the base that can be resolved from anywhere."""
        base = str(self.manifest["base"])
        if self._origin is None or not base.startswith("."):
            return base
        return base_of(model_folder(self._origin.source), base)


def needs_fields(field: str, prompt: str, names: Sequence[str]) -> str:
    """Check that a prompt has its fields."""
    allowed = "a text with " + " and ".join(f"{{{name}}}" for name in names)
    if not isinstance(prompt, str) or any(f"{{{name}}}" not in prompt for name in names):
        raise InputError.of(field, given=prompt, allowed=allowed)
    return prompt
