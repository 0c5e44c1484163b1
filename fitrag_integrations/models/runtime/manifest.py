"""What a model's folder says of itself, `model.json`, and its tensors as arrays: without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save_file

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.core.files import read_file, replacing, write_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ModelLoadError, ThresholdMismatchError
from fitrag_integrations.models.runtime.sources import check_digest

FORMAT = 1
SMALLEST = 1e-6  # of what is divided by
Arrays = Mapping[str, NDArray[np.float32]]


def kind_in(folder: Path) -> str:
    """Return the kind of model that a folder names in `model.json`; blank if it names none."""
    try:
        manifest = json.loads(read_file(folder / "model.json"))
    except (ValueError, RecursionError, OSError):
        return ""
    return str(manifest.get("kind") or "") if isinstance(manifest, dict) else ""


def read_manifest(
    folder: Path, name: str, *, kind: str, needs: Sequence[str] = ()
) -> dict[str, Any]:
    """Read `model.json` or `encoder.json` and check its format, its kind and the fields needed."""
    path = folder / name
    try:
        manifest = json.loads(read_file(path))
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


def write_manifest(folder: Path, name: str, *, kind: str, fields: Row) -> None:
    """Write `model.json` or `encoder.json`."""
    text = json.dumps({"format": FORMAT, "kind": kind, **fields}, indent=2, ensure_ascii=False)
    write_whole(folder / name, text + "\n")


def positive(manifest: Row, name: str) -> float:
    """Read a temperature, which scores are divided by: above 0, and 1 where none is named."""
    return check_number(name, manifest.get(name, 1.0), low=SMALLEST)


def both_positive(manifest: Row) -> tuple[float, float]:
    """Read the temperatures of two labels."""
    both = manifest.get("temperatures", (1.0, 1.0))
    first, second = (check_number("temperatures", one, low=SMALLEST) for one in both)
    return first, second


def label_count(head: Row) -> int:
    """Return how many labels a head gives of a span: 1, `has_answer` alone, or by default 2."""
    return check_whole("labels", head.get("labels", 2), low=1, high=2)


@contextmanager
def reading(folder: object) -> Iterator[None]:
    """Raise `ModelLoadError` for any error of the files of a model folder.

    Not what a threshold raises that was fitted for another model, nor a want of memory.
    """
    try:
        yield
    except (ModelLoadError, ThresholdMismatchError, MemoryError):
        raise
    except Exception as error:  # hostile files raise anything
        if type(error).__name__ == "OutOfMemoryError":  # torch's, which may not be there
            raise
        reason = f"{type(error).__name__}: {error}"
        raise ModelLoadError(f"{folder}: what its files say is not usable: {reason}") from error


def read_checked(folder: Path, entry: Mapping[str, str]) -> bytes:
    """Read the file an entry names, after its checksum."""
    path = folder / entry["file"]
    if not path.is_file():
        raise ModelLoadError(f"{path.name} is missing from {path.parent}")
    content = read_file(path)  # once: what is compared is what is loaded
    check_digest(path, hashlib.sha256(content).hexdigest(), entry["sha256"])
    return content


def read_arrays(folder: Path, entry: Mapping[str, str]) -> dict[str, NDArray[np.float32]]:
    """Load the safetensors file an entry names, after its checksum, as float32."""
    try:
        arrays = load(read_checked(folder, entry))
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelLoadError(f"{folder / entry['file']} is damaged: {error}") from None
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def write_arrays(folder: Path, file: str, arrays: Arrays) -> dict[str, str]:
    """Save arrays and give the entry that names them."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with replacing(folder / file) as beside:
        save_file(whole, beside)
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    return {"file": file, "sha256": digest}
