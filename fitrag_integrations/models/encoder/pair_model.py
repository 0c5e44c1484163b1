"""What the scorer, the reader and the evaluator's head share: a head over an encoder's engine."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self

from fitrag_integrations.core.record import Row
from fitrag_integrations.models.encoder.encoders import save_encoder
from fitrag_integrations.models.encoder.engine import Engine, shared_engine
from fitrag_integrations.models.encoder.pairs import checked_pairs as checked_pairs
from fitrag_integrations.models.runtime.engine import EngineModel, Options
from fitrag_integrations.models.runtime.folder import read_manifest, reading
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import model_folder


class PairModel(EngineModel[Engine]):
    """A head over an engine. Subclasses name their `kind` and build themselves from a folder."""

    def __init__(self, engine: Engine, *, manifest: Row | None = None) -> None:
        super().__init__(manifest)
        self._engine = engine

    @classmethod
    @remembered
    def from_pretrained(
        cls,
        name_or_dir: str | Path,
        *,
        device: str | None = None,
        dtype: str | None = None,
        batch_tokens: int | None = None,
        backend: str | None = None,
    ) -> Self:
        """Load `name_or_dir`, a folder of `save_pretrained` or `fitrag train`, or a hub name.

        `device` None chooses CUDA where it is there, else the CPU; `dtype` None or "auto" bfloat16
        on a GPU that has it, and on a CPU that is faster in it, if the states stay near; else
        float32 (`FITRAG_CPU_DTYPE` names one for the process). `batch_tokens` is the padded size
        of one forward pass. `backend` is what runs it: "torch" (None), "onnx" or "openvino", the
        last two on the CPU; `docs/backends.md`. Raises `ModelLoadError` for a missing or damaged
        file, `ChecksumError` for a changed one.
        """
        options = Options.checked(device, dtype, batch_tokens, backend)
        return cls._load(model_folder(name_or_dir), options)

    @classmethod
    def _load(cls, folder: Path, options: Options) -> Self:
        needs = ("base", "encoder", "head")
        manifest = read_manifest(folder, "model.json", kind=cls.kind, needs=needs)
        with reading(folder), ExitStack() as undo:
            engine = shared_engine(folder / manifest["encoder"], options)
            undo.callback(engine.release)
            made = cls._build(engine, folder, manifest)
            undo.pop_all()
        return made

    @classmethod
    def _build(cls, engine: Engine, folder: Path, manifest: Row) -> Self:
        raise NotImplementedError

    def _save_encoder(self, folder: Path) -> None:
        base, length = self.manifest["base"], self._engine.tokenizer.max_length
        save_encoder(self._engine.trunk, folder, base=base, max_length=length)
