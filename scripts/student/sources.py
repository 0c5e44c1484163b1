"""Download the documentation that `documentation.py` reads, on a Debian system.

    python scripts/student/sources.py OUT

Fetches the packages of documentation_projects.tsv: OUT/deb has Debian packages, unpacked, OUT/whl
wheels, OUT/npm npm archives. OUT/tools has mandoc, which turns man pages into HTML. Needs apt-get,
dpkg-deb, pip and npm; what is there already is not fetched again. Versions are today's, so the rows
made from them may differ a little from those of the shipped model.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PROJECTS = Path(__file__).with_name("documentation_projects.tsv")
TOOLS = ("mandoc",)


def main() -> None:
    """Fetch every project; print those that no source has any more."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out.resolve()
    rows = [line.split("\t")[:2] for line in PROJECTS.read_text().splitlines()[1:]]
    for source in ("deb", "whl", "npm"):
        (out / source).mkdir(parents=True, exist_ok=True)
    wanted = [(name, out / "deb" / name) for name, source in rows if source == "deb"]
    for name, folder in [*wanted, *((name, out / "tools") for name in TOOLS)]:
        unpacked(name, folder)
    pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:")
    commands = {
        "whl": (*pip, "-d", str(out / "whl")),
        "npm": ("npm", "pack", "--silent", "--pack-destination", str(out / "npm")),
    }
    for name, source in rows:
        if source in commands and not [*(out / source).glob(f"{name}-*")]:
            run([*commands[source], name], out)


def unpacked(name: str, folder: Path) -> None:
    """Download a Debian package and unpack it into a folder."""
    about = folder / "usr" / "share" / "doc" / name
    if about.exists() or about.is_symlink():
        return
    with tempfile.TemporaryDirectory() as lot:
        if run(["apt-get", "download", "-qq", name], Path(lot)):
            (archive,) = Path(lot).glob("*.deb")
            run(["dpkg-deb", "-x", str(archive), str(folder)], Path(lot))


def run(command: Sequence[str], folder: Path) -> bool:
    """Run a command in a folder; print it if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        print(f"failed: {' '.join(command)}\n{done.stderr.strip()}", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    main()
