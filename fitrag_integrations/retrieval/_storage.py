"""Storage of an index as a folder: vectors, passages, and a manifest that names both.

The manifest is replaced last and in one step, and a save over an older index writes its files under
names the old manifest does not use. So a save that is interrupted at any moment leaves either the
old index or the new one, complete.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import check_text, check_whole
from fitrag_integrations.core.files import only_writer, read_file, replacing, sha256_of, write_whole
from fitrag_integrations.core.record import check_mapping
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models.runtime.sources import verify
from fitrag_integrations.retrieval._store import MARKS, Kind, checked_kind, faiss
from fitrag_integrations.types import Passage

FORMAT = 1
# How FAISS writes a flat index of inner products: its name, width and count, then other fields, and
# before the numbers how many there are.
_HEAD, _COUNT = struct.Struct("<4siq"), struct.Struct("<Q")
_BEFORE = _HEAD.size + 8 + 8 + 1 + 4
MANIFEST = "manifest.json"
READINGS = 20  # of an index that others save anew meanwhile
_NAMES = {
    "index": ("index.faiss", "index.2.faiss"),
    "passages": ("passages.jsonl", "passages.2.jsonl"),
}


def write(
    folder: Path,
    flat: Any,
    passages: Sequence[Passage],
    encoder: dict[str, object],
    *,
    kind: Kind = "flat",
    turned: Mapping[str, str],
    read_as: str = "",
) -> str:
    """Write an index, replacing an older one in one step; returns its `version`.

    `encoder` has name, width and settings. `read_as` is the version of the index in this folder
    that the passages came from. If another index has replaced it since, or another process is
    writing, `InputError` is raised and nothing is written, because the other's additions would be
    lost.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError.of("folder", given=str(folder), allowed="a folder, or a path not in use")
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder):
        if read_as and version(folder) not in ("", read_as):
            allowed = "the index as it was read; load it anew, then add to it"
            raise InputError.of("folder", given=f"{folder}, changed since", allowed=allowed)
        used = set[str]()
        with suppress(ModelLoadError):  # no index yet, or none that could be read
            used = {file["name"] for file in read_manifest(folder)["files"].values()}
        files = {}
        for part, choice in _NAMES.items():
            name = next(name for name in choice if name not in used)
            with replacing(folder / name) as beside:
                if part == "index":
                    faiss().write_index(flat, str(beside))
                else:
                    with beside.open("wb") as file:
                        file.writelines(_line(passage.to_dict()) for passage in passages)
                digest = sha256_of(beside)
            files[part] = {"name": name, "sha256": digest}
        manifest = {
            "format": FORMAT,
            "encoder": encoder,
            "metric": "inner_product",
            "kind": kind,
            "count": len(passages),
            "files": files,
            "turned": turned,
        }
        write_whole(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        kept = {file["name"] for file in files.values()}
        older = {name for names in _NAMES.values() for name in names} - kept
        for left in (*map(folder.joinpath, older), *folder.glob(".fitrag-*.partial")):
            left.unlink(missing_ok=True)
        return version(folder)


def version(folder: Path) -> str:
    """Return an identifier of the saved index in a folder; empty without one."""
    try:
        return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    except OSError:
        return ""


def read(folder: Path, *, mapped: bool = False) -> tuple[Any, list[Passage], dict[str, Any], str]:
    """Read an index and verify it; reads again if it is replaced meanwhile.

    Args:
        folder: Folder that `write` wrote.
        mapped: Whether to map the vectors from disk instead of loading them.

    Returns:
        Its vectors, its passages, its manifest and its `version`.

    Raises:
        ChecksumError: If a file is not the one that was saved.
        ModelLoadError: If a file is missing or was not written by this package.
    """
    for attempt in range(READINGS):
        seen = version(folder)
        try:
            found = _read(folder, mapped)
        except ModelLoadError:
            if version(folder) == seen:
                raise
        else:
            if version(folder) == seen:
                return *found, seen
        time.sleep(0.01 * attempt)
    raise ModelLoadError(f"{folder} was saved anew during each of {READINGS} readings: try again")


def _read(folder: Path, mapped: bool) -> tuple[Any, list[Passage], dict[str, Any]]:
    manifest = read_manifest(folder)
    paths = {part: folder / manifest["files"][part]["name"] for part in _NAMES}
    try:
        for part, path in paths.items():
            verify(path, manifest["files"][part]["sha256"])
        _check_head(paths["index"], manifest)
        how = (faiss().IO_FLAG_MMAP_IFC,) if mapped else ()
        flat = faiss().read_index(str(paths["index"]), *how)
        with paths["passages"].open("rb") as file:  # in text mode other characters end a line too
            passages = [Passage.from_dict(jsonl.loads(line)) for line in file]
        sizes = {flat.ntotal, len(passages), manifest["count"]}
        if len(sizes) > 1 or flat.d != manifest["encoder"]["width"]:
            raise ValueError(f"sizes {sorted(sizes)} and width {flat.d} do not agree with it")
        _check_index(flat, manifest["kind"])
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, struct.error) as error:
        raise ModelLoadError(f"{folder / MANIFEST}: its files cannot be read: {error}") from error
    return flat, passages, manifest


def _check_index(flat: Any, kind: Kind) -> None:
    """Require what FAISS does not check of a file: with other values it fails or finds nothing."""
    home = faiss()
    fits = flat.metric_type == home.METRIC_INNER_PRODUCT and flat.is_trained
    if fits and kind == "fp16":
        fits = flat.sq.qtype == home.ScalarQuantizer.QT_fp16
    if not fits:
        raise ValueError(f"the index is not one of inner products of the kind {kind!r}")


def _check_head(path: Path, manifest: dict[str, Any]) -> None:
    """Require the kind of index that the manifest names, and of a flat one the very size.

    FAISS takes any kind, trusts the sizes a file states, and ends the process over some of them.
    """
    count, width = manifest["count"], manifest["encoder"]["width"]
    named = manifest["kind"]
    if named != "flat":
        with path.open("rb") as file:
            found = _HEAD.unpack(file.read(_HEAD.size))
        if found != (MARKS[named], width, count):
            raise ValueError(f"{path.name} is no {named} index of {count} vectors of {width}")
        return
    with path.open("rb") as file:
        kind, stated, rows = _HEAD.unpack(file.read(_HEAD.size))
        file.seek(_BEFORE)
        (numbers,) = _COUNT.unpack(file.read(_COUNT.size))
    size = _BEFORE + _COUNT.size + 4 * count * width
    if kind != MARKS["flat"] or (stated, rows, numbers) != (width, count, count * width):
        raise ValueError(f"{path.name} is no flat index of {count} vectors of {width} numbers")
    if path.stat().st_size != size:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes, not {size}")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest; raises `ModelLoadError` naming it."""
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = jsonl.loads(read_file(path))
        if manifest["format"] != FORMAT or manifest["metric"] != "inner_product":
            given = f"format {manifest['format']!r}, metric {manifest['metric']!r}"
            raise ValueError(f"{given}; allowed: format {FORMAT}, metric 'inner_product'")
        if any(manifest["files"][part]["name"] not in _NAMES[part] for part in _NAMES):
            raise ValueError(f"files {manifest['files']!r}; allowed names: {_NAMES}")
        manifest["kind"] = checked_kind(manifest.get("kind", "flat"))
        manifest["turned"] = check_mapping("turned", manifest.get("turned", {}))
        about = manifest["encoder"]
        for field, value in (("count", manifest["count"]), ("width", about["width"])):
            check_whole(field, value, low=0)
        check_text("encoder.name", about["name"], blank=False)
        if about["settings"] is not None:
            check_mapping("encoder.settings", about["settings"])
    except FileNotFoundError:
        allowed = "a folder that FaissIndex.save wrote"
        raise ModelLoadError(f"{path} is missing; allowed: {allowed}") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelLoadError(f"{path} is not an index manifest: {error!r}") from error
    return manifest


def _line(row: dict[str, object]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which only the escaped form can hold
        return json.dumps(row).encode() + b"\n"
