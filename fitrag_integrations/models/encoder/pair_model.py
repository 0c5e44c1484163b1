"""What the scorer, the reader and the evaluator's head share: a head over an encoder's engine."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Self, Unpack

from fitrag_integrations.core.record import Row
from fitrag_integrations.models.encoder.encoders import save_encoder
from fitrag_integrations.models.encoder.engine import Engine, shared_engine
from fitrag_integrations.models.encoder.pairs import checked_pairs as checked_pairs
from fitrag_integrations.models.runtime.choosing import fastest
from fitrag_integrations.models.runtime.engine import EngineModel, Options, PairOptions
from fitrag_integrations.models.runtime.folder import read_manifest, reading, write_manifest
from fitrag_integrations.models.runtime.saved import remembered
from fitrag_integrations.models.runtime.sources import model_folder


class PairModel(EngineModel[Engine]):
    """A head over an engine. Subclasses name their `kind` and build themselves from a folder."""

    def __init__(self, engine: Engine, *, manifest: Row | None = None) -> None:
        super().__init__(manifest)
        self._engine = engine

    @classmethod
    @remembered
    @fastest
    def from_pretrained(cls, name_or_dir: str | Path, **options: Unpack[PairOptions]) -> Self:
        """Load a folder of `save_pretrained` or `fitrag train`, or a hub name.

        Args:
            name_or_dir: Folder or hub name.
            **options: `device`, by default CUDA if available, else the CPU; `dtype`, None or "auto"
                for bfloat16 on a GPU that has it and on a CPU that is faster in it if scores stay
                within 0.01, else float32 (`FITRAG_CPU_DTYPE` sets one for the process);
                `batch_tokens`, the padded size of one forward pass; `backend`, "torch" (default),
                "onnx", "openvino" or "auto", the fastest that is installed, on the CPU
                (`FITRAG_BACKEND` sets one for the process); `max_length`, the maximum input
                length in tokens, by default the folder's; `model_kwargs` (such as
                `{"attn_implementation": "eager"}`) and `tokenizer_kwargs` for transformers.

        Raises:
            InputError: If an option is invalid.
            ModelLoadError: If a file is missing or damaged.
            ChecksumError: If a file was changed.

        Example:
            >>> scorer = BiLabelScorer.from_pretrained("my-scorer", dtype="float32")
        """
        return cls._load(model_folder(name_or_dir), Options.checked(**options))

    @classmethod
    def _load(cls, folder: Path, options: Options) -> Self:
        needs = ("base", "encoder", "head")
        manifest = read_manifest(folder, "model.json", kind=cls.kind, needs=needs)
        with reading(folder):
            encoder = (folder / manifest["encoder"]).resolve()
        engine = shared_engine(encoder, options)
        with reading(folder), ExitStack() as undo:
            undo.callback(engine.release)
            made = cls._build(engine, folder, manifest)
            undo.pop_all()
        return made

    @classmethod
    def _build(cls, engine: Engine, folder: Path, manifest: Row) -> Self:
        raise NotImplementedError

    def _save(self, folder: Path, head: Row) -> None:
        """Save the manifest, with the entry of a head that is there, and the encoder."""
        fields = {**self.manifest, "encoder": "encoder", "head": head}
        write_manifest(folder, "model.json", kind=self.kind, fields=fields)
        base, length = self.manifest["base"], self._engine.tokenizer.max_length
        save_encoder(self._engine.trunk, folder / "encoder", base=base, max_length=length)
