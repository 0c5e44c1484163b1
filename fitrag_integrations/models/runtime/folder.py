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
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safe_arrays

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.core.files import read_file, replacing, sha256_of, write_whole
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ModelLoadError, ThresholdMismatchError, raise_if
from fitrag_integrations.models.runtime.sources import check_digest, verify

if TYPE_CHECKING:  # torch loads with the first tensor, for models that do without
    from torch import Tensor, nn

    N = TypeVar("N", bound=nn.Module)

FORMAT = 1
MOST_TENSORS = 2 << 30  # bytes of a file of ours, which is read whole; an encoder has 90 MB
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
    raise_if(
        not isinstance(manifest, dict),
        ModelLoadError,
        f"{path} is damaged: it holds no JSON object",
    )
    given = manifest.get("format"), manifest.get("kind")
    raise_if(
        given != (FORMAT, kind),
        ModelLoadError,
        f"{path} is of format {given[0]!r} and kind {given[1]!r}; it must be of format {FORMAT} "
        f"and kind {kind!r}",
    )
    for field in needs:
        raise_if(field not in manifest, ModelLoadError, f"{path}: {field!r} is missing")
    return dict(manifest)


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


def without_similarity(manifest: Row) -> dict[str, Any]:
    """Return a manifest without the base's share in the scores, and with what was fitted so."""
    gone = ("similarity", "answerable", "without")
    kept = {name: field for name, field in manifest.items() if name not in gone}
    return kept | dict(manifest.get("without", {}))


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
        raise ModelLoadError(
            f"{folder}: what its files say is not usable: {type(error).__name__}: {error}"
        ) from error


def verify_all(folder: Path, files: Mapping[str, str]) -> None:
    """Check the files of a folder against their checksums.

    Where weights have one, every file needs one, so that none can be added (a chat template, say):
    all but hidden files, Markdown, JSON Lines and license texts, which no model is read from.
    """
    for name, digest in files.items():
        verify(folder / name, digest)
    closed = any(name.endswith(".safetensors") for name in files)
    for path in sorted(folder.rglob("*") if closed else ()):
        name = path.relative_to(folder).as_posix()
        free = path.suffix in (".md", ".jsonl") or path.stem in ("LICENSE", "NOTICE")
        if name in files or name == "model.json" or free or f"/{name}".count("/."):
            continue
        raise_if(
            not path.is_dir(),
            ModelLoadError,
            f"{folder}: {name} has no checksum in model.json, which names those of all files; "
            "remove it, or list it there if you trust it",
        )


def read_checked(folder: Path, entry: Mapping[str, str]) -> bytes:
    """Read the file an entry names, after its checksum."""
    path = folder / entry["file"]
    raise_if(not path.is_file(), ModelLoadError, f"{path.name} is missing from {path.parent}")
    content = read_file(path, MOST_TENSORS)  # once: what is compared is what is loaded
    check_digest(path, hashlib.sha256(content).hexdigest(), entry["sha256"])
    return content


def read_arrays(folder: Path, entry: Mapping[str, str]) -> dict[str, NDArray[np.float32]]:
    """Load the safetensors file an entry names, after its checksum; all but int8 as float32."""
    try:
        arrays = safe_arrays.load(read_checked(folder, entry))
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelLoadError(f"{folder / entry['file']} is damaged: {error}") from None
    return {n: a if a.dtype == np.int8 else a.astype(np.float32) for n, a in arrays.items()}


def unscaled(tensors: Mapping[str, T]) -> dict[str, T]:
    """Return tensors by name, each whole-number weight multiplied by the scale beside it."""
    scales = {name.removesuffix(".weight"): name for name in tensors if name.endswith(".weight")}
    scales = {f"{name}.scale": of for name, of in scales.items() if f"{name}.scale" in tensors}
    made: dict[str, Any] = {name: each for name, each in tensors.items() if name not in scales}
    return made | {of: made[of] * tensors[scale] for scale, of in scales.items()}


def write_arrays(folder: Path, file: str, arrays: Arrays) -> dict[str, str]:
    """Save arrays and return the entry that names them."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return _written(folder / file, lambda path: safe_arrays.save_file(whole, path))


def _written(path: Path, save: Callable[[Path], None]) -> dict[str, str]:
    with replacing(path) as beside:
        save(beside)
    return {"file": path.name, "sha256": sha256_of(path)}


def load_head(make: Callable[[], N], path: Path, tensors: Mapping[str, Tensor]) -> N:
    """Make a head of a file's tensors, as float32.

    It is made without memory, whatever sizes its manifest asks for: the tensors are its weights.
    """
    import torch

    with torch.device("meta"):
        head = make()
    try:
        whole = {name: tensor.float() for name, tensor in tensors.items()}
        head.load_state_dict(whole, assign=True)
    except RuntimeError as error:
        raise ModelLoadError(f"{path} does not fit the model: {error}") from None
    return head


def read_tensors(folder: Path, entry: Mapping[str, str]) -> dict[str, Tensor]:
    """Load the safetensors file an entry names, after its checksum."""
    from safetensors.torch import load

    content = read_checked(folder, entry)
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelLoadError(f"{folder / entry['file']} is damaged: {error}") from None


def write_tensors(folder: Path, file: str, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Save tensors and return the entry that names them."""
    from safetensors.torch import save_file

    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return _written(folder / file, lambda path: save_file(whole, path))
