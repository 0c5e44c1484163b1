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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.errors import ModelLoadError, ThresholdMismatchError
from fitrag_integrations.models.runtime.sources import check_digest

FORMAT = 1
SMALLEST = 1e-6  # of what is divided by
N = TypeVar("N", bound=nn.Module)


def read_manifest(
    folder: Path, name: str, *, kind: str, needs: Sequence[str] = ()
) -> dict[str, Any]:
    """Read `model.json` or `encoder.json` and check its format, its kind and the fields needed."""
    path = folder / name
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelLoadError(f"{folder}: {name} is missing; is this a {kind} folder?") from None
    except (ValueError, RecursionError, OSError) as error:
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


def load_head(make: Callable[[], N], path: Path, tensors: Mapping[str, Tensor]) -> N:
    """Make a head of a file's tensors, as float32.

    It is made without memory, whatever sizes its manifest asks for: the tensors are its weights.
    """
    with torch.device("meta"):
        head = make()
    try:
        whole = {name: tensor.float() for name, tensor in tensors.items()}
        head.load_state_dict(whole, assign=True)
    except RuntimeError as error:
        raise ModelLoadError(f"{path} does not fit the model: {error}") from None
    return head


def positive(manifest: Mapping[str, Any], name: str) -> float:
    """Read a temperature, which scores are divided by: above 0, and 1 where none is named."""
    return check_number(name, manifest.get(name, 1.0), low=SMALLEST)


def both_positive(manifest: Mapping[str, Any]) -> tuple[float, float]:
    """Read the temperatures of two labels."""
    both = manifest.get("temperatures", (1.0, 1.0))
    first, second = (check_number("temperatures", one, low=SMALLEST) for one in both)
    return first, second


@contextmanager
def reading(folder: object) -> Iterator[None]:
    """Have whatever the files of a model folder raise told as `ModelLoadError`.

    Not what a threshold raises that was fitted for another model, nor a want of memory.
    """
    try:
        yield
    except (ModelLoadError, ThresholdMismatchError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # hostile files raise anything
        told = f"{type(error).__name__}: {error}"
        raise ModelLoadError(f"{folder}: what its files say is not usable: {told}") from error


def write_manifest(folder: Path, name: str, *, kind: str, fields: Mapping[str, Any]) -> None:
    """Write `model.json` or `encoder.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, "kind": kind, **fields}, indent=2, ensure_ascii=False)
    (folder / name).write_text(text + "\n", encoding="utf-8")


def read_tensors(folder: Path, entry: Mapping[str, str]) -> dict[str, Tensor]:
    """Load the safetensors file an entry names, after its checksum."""
    path = folder / entry["file"]
    if not path.is_file():
        raise ModelLoadError(f"{path.name} is missing from {path.parent}")
    content = path.read_bytes()  # once: what is compared is what is loaded
    check_digest(path, hashlib.sha256(content).hexdigest(), entry["sha256"])
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelLoadError(f"{path} is damaged: {error}") from None


def write_tensors(folder: Path, file: str, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Save tensors and give the entry that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(whole, folder / file)
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    return {"file": file, "sha256": digest}
