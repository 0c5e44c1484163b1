"""Passages and their vectors in a FAISS index, in memory and as a folder.

A folder has the vectors, the passages, and a manifest that names both. The manifest is replaced
last and in one step, and a save over an older index writes its files under names the old manifest
does not use. So a save that is interrupted at any moment leaves either the old index or the new
one, complete.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import check_is, check_one, check_text, check_whole
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.files import only_writer, read_file, replacing, sha256_of, write_whole
from fitrag_integrations.core.record import check_mapping, plain, remade
from fitrag_integrations.errors import InputError, ModelLoadError, raise_if, refuse_if
from fitrag_integrations.models.runtime.sources import verify
from fitrag_integrations.retrieval.encoder import Vectors
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.types import Passage

ON_BAD = ("raise", "skip")
MOST_ON_GPU = 2048  # neighbours that FAISS finds there in one search
KINDS = ("flat", "fp16")  # exact, or at half the size
BANK = "l2"  # of Euclidean distances
MARKS = {"flat": b"IxFI", "fp16": b"IxSQ", BANK: b"IxF2"}
"""By what FAISS begins a file of each."""
FORMAT = 1
# How FAISS writes a flat index: its name, width and count, then other fields, and before the
# numbers how many there are.
_HEAD, _COUNT = struct.Struct("<4siq"), struct.Struct("<Q")
_BEFORE = _HEAD.size + 8 + 8 + 1 + 4
MANIFEST = "manifest.json"
READINGS = 20  # of an index that others save anew meanwhile
_NAMES = {
    "index": ("index.faiss", "index.2.faiss"),
    "passages": ("passages.jsonl", "passages.2.jsonl"),
}


def metric_of(kind: str) -> str:
    """Return the name of what is compared in an index of this kind."""
    return "euclidean" if kind == BANK else "inner_product"


def faiss() -> Any:
    """Import FAISS."""
    return require_extra("faiss", extra="faiss", feature="FaissIndex")


def empty(kind: str, width: int) -> Any:
    """Return an empty index."""
    home = faiss()
    if kind == BANK:
        return home.IndexFlatL2(width)
    if kind == "fp16":
        quantizer = home.ScalarQuantizer.QT_fp16
        return home.IndexScalarQuantizer(width, quantizer, home.METRIC_INNER_PRODUCT)
    return home.IndexFlatIP(width)


class Store:
    """Passages by row, searched and extended from any thread."""

    def __init__(
        self,
        flat: Any,
        passages: Sequence[Passage] = (),
        *,
        kind: str = "flat",
        turned: Mapping[str, str] | None = None,
    ) -> None:
        self.flat = flat
        self.kind = kind
        self.turned = dict(turned or {})  # metadata that was no JSON, with what it was
        self.fixed = False  # vectors that are read where they lie on disk
        self._searched: Any = None  # a copy on a GPU, or the same
        self.passages = list(passages)
        self.by_id = {passage.id: passage for passage in passages}
        self._lock = threading.Lock()  # faiss moves its vectors when some are added

    @property
    def width(self) -> int:
        """The number of dimensions of a vector."""
        return int(self.flat.d)

    def add(self, passages: Sequence[Passage], vectors: Vectors) -> None:
        """Append passages. Shape: vectors (n, width)."""
        allowed = "an index loaded with memory_map=False"
        refuse_if(self.fixed, "index", "one that is mapped from disk", allowed)
        with self._lock:
            self.flat.add(vectors)
            self._searched = None
            self.passages.extend(passages)
            self.by_id.update((passage.id, passage) for passage in passages)

    def first(self, count: int | None = None) -> tuple[list[Passage], Vectors]:
        """Return the first passages, or all, with their vectors."""
        with self._lock:
            passages = self.passages[:count]
            return passages, self.flat.reconstruct_n(0, len(passages))

    def nearest(self, vectors: Vectors, k: int) -> list[list[Passage]]:
        """Return the best k passages for each vector, with their scores in the metadata."""
        if not len(self):
            return [[] for _ in vectors]
        with self._lock:
            most = min(k, self.flat.ntotal)
            if self._searched is None:
                self._searched = self.flat if self.fixed else on_gpu(self.flat, self.kind)
            searched = self._searched if most <= MOST_ON_GPU else self.flat
            scores, places = searched.search(vectors, most)
        raise_if(
            np.isnan(scores[places >= 0]).any(),
            ModelLoadError,
            "the index holds vectors that are not numbers: build it again",
        )
        return [
            [_scored(self.passages[at], score) for at, score in zip(*row, strict=True) if at >= 0]
            for row in zip(places.tolist(), scores.tolist(), strict=True)
        ]

    def __len__(self) -> int:
        return len(self.passages)

    def __getstate__(self) -> dict[str, object]:
        passages, vectors = self.first()
        settings = {"width": self.width, "kind": self.kind, "turned": self.turned}
        return {**settings, "passages": passages, "vectors": vectors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        flat = empty(state["kind"], state["width"])
        self.__init__(flat, kind=state["kind"], turned=state["turned"])  # type: ignore[misc]
        if state["passages"]:
            self.add(state["passages"], state["vectors"])


def _scored(passage: Passage, score: float) -> Passage:
    return replace(passage, metadata={**passage.metadata, "retrieval_score": score})


def on_gpu(flat: Any, kind: str) -> Any:
    """Copy a flat index to a GPU if this build of FAISS supports it; else return it unchanged.

    Vectors stay in float32 as on the CPU, so scores are equal up to rounding.
    """
    home = faiss()
    if kind != "flat" or not hasattr(home, "StandardGpuResources") or not home.get_num_gpus():
        return flat
    return home.index_cpu_to_gpu(home.StandardGpuResources(), 0, flat)


def admit(
    passages: Iterable[Any], *, stored: Mapping[str, Passage], on_bad: str
) -> tuple[list[Passage], int, dict[str, str]]:
    """Return the new passages, in order, and the number of bad ones that were skipped.

    Their metadata is made plain, as it will be saved. The third result has the names of the values
    that were converted, each with its original type.

    Bad items are blank texts, items that are not a `Passage`, errors that `read_corpus` yields, and
    passages whose id belongs to another text. Of passages with equal id and text, the first is
    kept. With `on_bad="raise"` the first bad one raises its `InputError`.
    """
    check_one("on_bad", on_bad, ON_BAD)
    refuse_if(
        isinstance(passages, str | bytes | Mapping | Passage) or not isinstance(passages, Iterable),
        "passages",
        passages,
        "an iterable of Passage",
    )
    new: dict[str, Passage] = {}
    skipped, turned = 0, dict[str, str]()
    for i, item in enumerate(passages):
        other = stored.get(item.id) or new.get(item.id) if isinstance(item, Passage) else None
        try:
            _check_new(f"passages[{i}]", item, other)
        except InputError:
            if on_bad == "raise":
                raise
            skipped += 1
            continue
        if other is None:
            metadata = plain(item.metadata)
            for name, value in item.metadata.items():
                if repr(value) != repr(metadata[str(name)]):
                    turned[str(name)] = type(value).__name__
            new[item.id] = remade(item, metadata=metadata)
    return list(new.values()), skipped, turned


def _check_new(field: str, item: object, other: Passage | None) -> None:
    """Raise `InputError` for a bad item; `other` is what is stored under its id."""
    if isinstance(item, InputError):
        raise item
    item = check_is(field, item, Passage)
    named = f"{field}.text (id {item.id!r})"
    refuse_if(not has_text(item.text), named, item.text, "a string that is not blank")
    allowed = "the text that is stored under this id, or another id"
    refuse_if(other is not None and other.text != item.text, named, item.text, allowed)


def write(
    folder: Path,
    flat: Any,
    passages: Sequence[Passage],
    encoder: dict[str, object],
    *,
    kind: str = "flat",
    turned: Mapping[str, str],
    read_as: str = "",
) -> str:
    """Write an index, replacing an older one in one step; returns its `version`.

    `encoder` has name, width and settings. `read_as` is the version of the index in this folder
    that the passages came from. If another index has replaced it since, or another process is
    writing, `InputError` is raised and nothing is written, because the other's additions would be
    lost.
    """
    taken = folder.exists() and not folder.is_dir()
    refuse_if(taken, "folder", str(folder), "a folder, or a path not in use")
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder):
        changed = read_as and version(folder) not in ("", read_as)
        refuse_if(changed, f"{folder} has changed since it was read: load it anew, then add to it")
        used = set[str]()
        with suppress(ModelLoadError):  # no index yet, or none that could be read
            used = {file["name"] for file in read_manifest(folder, MARKS)["files"].values()}
        files = {}
        for part, choice in _NAMES.items():
            name = next(name for name in choice if name not in used)
            with replacing(folder / name) as beside:
                if part == "index":
                    faiss().write_index(flat, str(beside))
                else:
                    with beside.open("wb") as file:
                        file.writelines(jsonl.dump(passage.to_dict()) for passage in passages)
                digest = sha256_of(beside)
            files[part] = {"name": name, "sha256": digest}
        manifest = {
            "format": FORMAT,
            "encoder": encoder,
            "metric": metric_of(kind),
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


def read(
    folder: Path, *, mapped: bool = False, kinds: Sequence[str] = KINDS
) -> tuple[Any, list[Passage], dict[str, Any], str]:
    """Read an index and verify it; reads again if it is replaced meanwhile.

    Args:
        folder: Folder that `write` wrote.
        mapped: Whether to map the vectors from disk instead of loading them.
        kinds: Kinds of index that the caller reads.

    Returns:
        Its vectors, its passages, its manifest and its `version`.

    Raises:
        ChecksumError: If a file is not the one that was saved.
        ModelLoadError: If a file is missing or was not written by this package.
    """
    for attempt in range(READINGS):
        seen = version(folder)
        try:
            found = _read(folder, mapped, kinds)
        except ModelLoadError:
            if version(folder) == seen:
                raise
        else:
            if version(folder) == seen:
                return *found, seen
        time.sleep(0.01 * attempt)
    raise ModelLoadError(f"{folder} was saved anew during each of {READINGS} readings: try again")


def _read(
    folder: Path, mapped: bool, kinds: Sequence[str]
) -> tuple[Any, list[Passage], dict[str, Any]]:
    manifest = read_manifest(folder, kinds)
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
        raise_if(
            len(sizes) > 1 or flat.d != manifest["encoder"]["width"],
            ValueError,
            f"sizes {sorted(sizes)} and width {flat.d} do not agree with it",
        )
        # what FAISS does not check of a file: with other values it fails or finds nothing
        kind, home = manifest["kind"], faiss()
        wanted = home.METRIC_L2 if kind == BANK else home.METRIC_INNER_PRODUCT
        half = kind != "fp16" or flat.sq.qtype == home.ScalarQuantizer.QT_fp16
        raise_if(
            flat.metric_type != wanted or not flat.is_trained or not half,
            ValueError,
            f"the index is not of the kind {kind!r}",
        )
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, struct.error) as error:
        raise ModelLoadError(f"{folder / MANIFEST}: its files cannot be read: {error}") from error
    return flat, passages, manifest


def _check_head(path: Path, manifest: dict[str, Any]) -> None:
    """Require the kind of index that the manifest names, and of a flat one the very size.

    FAISS takes any kind, trusts the sizes a file states, and ends the process over some of them.
    """
    count, width, kind = manifest["count"], manifest["encoder"]["width"], manifest["kind"]
    with path.open("rb") as file:
        raise_if(
            _HEAD.unpack(file.read(_HEAD.size)) != (MARKS[kind], width, count),
            ValueError,
            f"{path.name} is no {kind} index of {count} vectors of {width}",
        )
        if kind == "fp16":
            return
        file.seek(_BEFORE)
        (numbers,) = _COUNT.unpack(file.read(_COUNT.size))
    size, found = _BEFORE + _COUNT.size + 4 * count * width, path.stat().st_size
    raise_if(
        (numbers, found) != (count * width, size),
        ValueError,
        f"{path.name} has {found} bytes, not {size}",
    )


def read_manifest(folder: Path, kinds: Iterable[str] = KINDS) -> dict[str, Any]:
    """Read the manifest of an index of some kinds; raises `ModelLoadError` naming it."""
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = dict(check_mapping("manifest", jsonl.loads(read_file(path))))
        kind = manifest.setdefault("kind", "flat")
        raise_if(
            kind not in tuple(kinds),
            ValueError,
            f"an index of the kind {kind!r} is not one of {', '.join(kinds)}",
        )
        raise_if(
            (manifest["format"], manifest["metric"]) != (FORMAT, metric_of(kind)),
            ValueError,
            f"it has format {manifest['format']!r} and metric {manifest['metric']!r} in place of "
            f"{FORMAT} and {metric_of(kind)!r}",
        )
        raise_if(
            any(manifest["files"][part]["name"] not in _NAMES[part] for part in _NAMES),
            ValueError,
            f"its files are {manifest['files']!r}, which no index has",
        )
        manifest["turned"] = check_mapping("turned", manifest.get("turned", {}))
        about = manifest["encoder"]
        for field, value in (("count", manifest["count"]), ("width", about["width"])):
            check_whole(field, value, low=0)
        check_text("encoder.name", about["name"], blank=False)
        if about["settings"] is not None:
            check_mapping("encoder.settings", about["settings"])
    except FileNotFoundError:
        raise ModelLoadError(f"{path} is missing: is this the folder of a saved index?") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelLoadError(f"{path} is not an index manifest: {error!r}") from error
    return manifest
