"""Put a trained and calibrated scorer into the package, over the encoder it holds.

    python scripts/embed_adapter.py FOLDER

It must have been trained from what is embedded: its adapter goes on top of the reader's encoder,
which stays stored once.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from fitrag_integrations.models.runtime.folder import read_manifest, write_manifest

HOME = Path(__file__).resolve().parent.parent / "fitrag_integrations" / "embedded"


def main() -> None:
    """Check that the encoder is the embedded one, then write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    source, target = parser.parse_args().folder, HOME / "bilabel"
    encoder = _fields(source / "encoder", "encoder.json", "encoder")
    trunk = _fields(HOME / "trunk", "encoder.json", "encoder")
    if encoder["tuned"]["sha256"] != trunk["tuned"]["sha256"]:
        raise SystemExit("it was trained on another encoder than the embedded one")
    encoder["tuned"]["file"] = "../../trunk/tuned.safetensors"
    (target / "encoder").mkdir(parents=True, exist_ok=True)
    write_manifest(target / "encoder", "encoder.json", kind="encoder", fields=encoder)
    for file in ("encoder/factors.safetensors", "head.safetensors"):
        shutil.copyfile(source / file, target / file)
    fields = _fields(source, "model.json", "bilabel")
    write_manifest(target, "model.json", kind="bilabel", fields=fields)


def _fields(folder: Path, name: str, kind: str) -> dict[str, Any]:
    given = read_manifest(folder, name, kind=kind)
    return {key: value for key, value in given.items() if key not in ("format", "kind")}


if __name__ == "__main__":
    main()
