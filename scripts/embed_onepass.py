"""Put a trained one-pass head into the package, beside the scorer that is there already.

    python scripts/embed_onepass.py ONEPASS

It must have been trained with `--scorer fitrag_integrations/embedded/bilabel`: it stands on that
scorer, which stays stored once.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from fitrag_integrations.models.runtime.folder import read_manifest, write_manifest

HOME = Path(__file__).resolve().parent.parent / "fitrag_integrations" / "embedded"


def main() -> None:
    """Check that the scorer is the embedded one, then copy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("onepass", type=Path)
    source = parser.parse_args().onepass
    fields = read_manifest(source, "model.json", kind="onepass", needs=("scorer_head",))
    scorer = read_manifest(HOME / "bilabel", "model.json", kind="bilabel", needs=("head",))
    if fields["scorer_head"] != scorer["head"]["sha256"]:
        raise SystemExit("it was trained over another scorer than the embedded one")
    target = HOME / "onepass"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / "head.safetensors", target / "head.safetensors")
    kept = {key: value for key, value in fields.items() if key not in ("format", "kind")}
    write_manifest(target, "model.json", kind="onepass", fields={**kept, "scorer": "../bilabel"})


if __name__ == "__main__":
    main()
