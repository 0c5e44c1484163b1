"""Put a trained reader and a scorer over the same encoder into the package.

    python scripts/embed.py READER SCORER

Both must have been trained over one encoder (`fitrag train bilabel --tune head --base READER`): it
is stored once, and they share it in memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent / "fitrag_integrations" / "embedded"


def main() -> None:
    """Check that the encoders are one, then copy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", type=Path)
    parser.add_argument("scorer", type=Path)
    args = parser.parse_args()
    encoders = [
        _manifest(folder / "encoder" / "encoder.json") for folder in (args.reader, args.scorer)
    ]
    if encoders[0]["tuned"] != encoders[1]["tuned"]:
        raise SystemExit("the two encoders differ: train the scorer with --tune head --base READER")
    _copy(args.reader / "encoder", HOME / "trunk", ("encoder.json", "tuned.safetensors"))
    for folder, name in ((args.reader, "reader"), (args.scorer, "bilabel")):
        _copy(folder, HOME / name, ("head.safetensors",))
        manifest = {**_manifest(folder / "model.json"), "encoder": "../trunk"}
        text = json.dumps(manifest, indent=2, ensure_ascii=False)
        (HOME / name / "model.json").write_text(text + "\n", encoding="utf-8")


def _manifest(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _copy(source: Path, target: Path, names: tuple[str, ...]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(source / name, target / name)


if __name__ == "__main__":
    main()
