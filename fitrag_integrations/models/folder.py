"""The folder a model is saved in: `model.json`, weights as safetensors, and their checksums.

::

    my-scorer/
      model.json          kind, format, head, calibration, thresholds; the encoder's folder
      head.safetensors
      README.md           the model card, where there is one
      encoder/
        encoder.json      the base model, pooling, input length, which weights were tuned
        tuned.safetensors or a peft adapter (adapter_config.json, adapter_model.safetensors)

Several models may name one encoder folder, by a relative path, and then share it in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.sources import verify

FORMAT = 1


def read_manifest(
    folder: Path, name: str, *, kind: str, needs: Sequence[str] = ()
) -> dict[str, Any]:
    """Read `model.json` or `encoder.json` and check its format, its kind and the fields needed."""
    path = folder / name
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelLoadError(f"{folder}: {name} is missing; is this a {kind} folder?") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelLoadError(f"{path} is damaged: {error}") from None
    if not isinstance(manifest, dict):
        raise ModelLoadError(f"{path} is damaged: it holds no JSON object")
    given = manifest.get("format"), manifest.get("kind")
    if given != (FORMAT, kind):
        raise ModelLoadError(
            f"{path}: given format and kind {given[0]!r}, {given[1]!r}, allowed {FORMAT}, {kind!r}"
        )
    for field in needs:
        if field not in manifest:
            raise ModelLoadError(f"{path}: {field!r} is missing")
    return manifest


def load_head(head: nn.Module, path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Put a file's tensors into a head, as float32."""
    try:
        head.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    except RuntimeError as error:
        raise ModelLoadError(f"{path} does not fit the model: {error}") from None


def write_manifest(folder: Path, name: str, *, kind: str, fields: Mapping[str, Any]) -> None:
    """Write `model.json` or `encoder.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, "kind": kind, **fields}, indent=2, ensure_ascii=False)
    (folder / name).write_text(text + "\n", encoding="utf-8")


def read_tensors(folder: Path, entry: Mapping[str, str]) -> dict[str, Tensor]:
    """Load the safetensors file an entry names, after its checksum."""
    path = folder / entry["file"]
    verify(path, entry["sha256"])
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ModelLoadError(f"{path} is damaged: {error}") from None


def write_tensors(folder: Path, file: str, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Save tensors and give the entry that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(whole, folder / file)
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    return {"file": file, "sha256": digest}
