"""Fetch documentation of fifty packages, on which no model was trained, as users have it.

    python benchmarks/packages.py OUT [--half report]

`packages.tsv` names the archives (version and SHA-256 of the file) and their pages; the questions
of `packages.jsonl` were written from the pages before anything was measured. Each page lies then in
OUT/PROJECT under its path in the archive: manual pages as mandoc prints them, everything else as it
is. Needs apt-get (Debian 12 on amd64), dpkg-deb, pip and npm; a project that is there is not
fetched again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).parent
MANDOC = "mandoc"
HALVES = ("choose", "report")
_STRUCK = re.compile(".\b")  # a letter that is printed over for bold or underlined


class Project(NamedTuple):
    """A row of packages.tsv."""

    name: str
    source: str
    version: str
    sha256: str
    license: str
    half: str
    pages: tuple[str, ...]


def projects(half: str | None = None) -> list[Project]:
    """Return the projects of a half, None for all, neighbors beside each other."""
    lines = (HOME / "packages.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    found = [Project._make([*row[:6], tuple(row[6].split())]) for row in rows]
    return [one for one in found if half in (None, one.half)]


def main() -> None:
    """Fetch the pages of each project that is not there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--half", choices=HALVES)
    args = parser.parse_args()
    for project in projects(args.half):
        if not (args.out / project.name).exists():
            fetch(project, args.out)
            print(f"{project.name} {project.version}: {len(project.pages)} pages", flush=True)


def fetch(project: Project, out: Path) -> None:
    """Write the pages of a project into its folder."""
    with tempfile.TemporaryDirectory() as lot:
        root = unpacked(archive(project, Path(lot)), Path(lot) / "unpacked")
        texts = {page.removesuffix(".gz"): read(root / page, out) for page in project.pages}
    for name, text in texts.items():
        path = out / project.name / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def archive(project: Project, folder: Path) -> Path:
    """Download a project's archive and check its SHA-256."""
    name, version = project.name, project.version
    command = {
        "deb": ["apt-get", "download", "-qq", f"{name}={version}"],
        "npm": ["npm", "pack", "--silent", f"{name}@{version}"],
        "pypi": [
            *(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name),
            f"{name}=={version}",
        ],
    }[project.source]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (path,) = (file for file in folder.iterdir() if file.is_file())
    if hashlib.sha256(path.read_bytes()).hexdigest() != project.sha256:
        raise SystemExit(f"{path.name} is another file than the one that was asked about.")
    return path


def unpacked(path: Path, folder: Path) -> Path:
    """Unpack an archive and return the folder that its pages' paths begin in."""
    if path.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", path, folder], check=True)
        return folder
    with tarfile.open(path) as tar:
        tar.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


def read(path: Path, out: Path) -> str:
    """Return a page's text; a manual page as mandoc prints it."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if not re.search(r"\.[1-8](\.gz)?$", path.name):
        return data.decode("utf-8", errors="replace")
    tools = out / ".tools"
    if not tools.exists():
        with tempfile.TemporaryDirectory() as lot:
            subprocess.run(["apt-get", "download", "-qq", MANDOC], cwd=lot, check=True)
            (package,) = Path(lot).iterdir()
            subprocess.run(["dpkg-deb", "-x", package, tools], check=True)
    command = [str(tools / "usr/bin/mandoc"), "-T", "utf8", "-O", "width=100"]
    printed = subprocess.run(command, input=data, check=True, stdout=subprocess.PIPE).stdout
    return _STRUCK.sub("", printed.decode("utf-8"))


if __name__ == "__main__":
    main()
