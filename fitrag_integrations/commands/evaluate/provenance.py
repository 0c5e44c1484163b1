"""Write down what an evaluation was made of, so that it can be compared with a later one."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fitrag_integrations
from fitrag_integrations.core.extras import is_own_file
from fitrag_integrations.core.files import fingerprint
from fitrag_integrations.core.record import Row
from fitrag_integrations.evaluation.result import data_hash

EMBEDDED = Path(fitrag_integrations.__file__).parent / "embedded"
FOLDERS = {"scorer": "bilabel", "evaluator": "evaluator", "reader": "reader", "gate": "ik"}


@dataclass(frozen=True)
class Source:
    """Source of the rows: names of files or data sets, and the rows after conversion."""

    names: Sequence[str]
    rows: Sequence[Row] = field(repr=False)

    def to_dict(self) -> Row:
        """Return `files`, the `hash` of the rows' content, and the number of `rows`."""
        names = [str(name) for name in self.names]
        return {"files": names, "hash": data_hash(self.rows), "rows": len(self.rows)}


def settings_of(
    command: str,
    source: Source,
    *,
    seed: int,
    resamples: int,
    models: Mapping[str, str | None] | None = None,
    options: Row | None = None,
) -> Row:
    """Return the `settings` of a `Result`; `models` are names or folders by role, None bundled."""
    return {
        "version": fitrag_integrations.__version__,
        "command": f"evaluate {command}",
        "seed": seed,
        "resamples": resamples,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_line(),
        "data": source.to_dict(),
        "models": {role: model_entry(role, name) for role, name in (models or {}).items()},
        "options": dict(options or {}),
    }


def model_entry(role: str, name: str | None) -> Row:
    """Return the name of a model and the hash of its manifest, which has the weights' checksums.

    A file or folder without a manifest has the hash of what is in it; the hash is None for what is
    neither, such as a model of the hub.

    Args:
        role: What the model is for.
        name: Name, file or folder; None for the embedded model.
    """
    folder = EMBEDDED / FOLDERS.get(role, role) if name is None else Path(name)
    manifest = folder / "model.json"
    if not manifest.is_file():
        file = Path(f"{str(name).rpartition('.py')[0]}.py") if is_own_file(name) else folder
        digest = fingerprint(file) if file.is_file() or file.is_dir() else None
        return {"name": name or "embedded", "manifest": digest}
    data = manifest.read_bytes()
    encoder = json.loads(data).get("encoder")
    shared = folder / str(encoder) / "encoder.json"
    if encoder is not None and shared.is_file():
        data += shared.read_bytes()
    return {"name": name or "embedded", "manifest": hashlib.sha256(data).hexdigest()}


def machine_line() -> str:
    """Return a line with system, processor, cores, versions, and a GPU if one is in use."""
    parts = [
        f"{platform.system()} {platform.machine()}",
        f"{os.cpu_count()} cores",
        f"Python {platform.python_version()}",
        f"onnxruntime {_version('onnxruntime')}",
        f"torch {_version('torch')}",
    ]
    torch = sys.modules.get("torch")  # looking for a GPU is not worth loading it
    if torch is not None and torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name(0))
    return ", ".join(parts)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
