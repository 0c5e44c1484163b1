"""Run notebooks from start to end, and save them with their outputs.

    python scripts/notebooks.py [NOTEBOOK ...]          run and save; by default all
    python scripts/notebooks.py --check [NOTEBOOK ...]  run without saving

Exits with an error if a cell fails or writes to standard error. A notebook whose metadata name
modules that it `requires`, such as a language model's weights, is skipped where one is missing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HOME = Path(__file__).resolve().parent.parent / "notebooks"
SECONDS = 600  # maximum time of a cell


def main() -> None:
    """Run the notebooks of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", type=Path, nargs="*")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    prepare()
    for path in args.notebooks or sorted(HOME.glob("*.ipynb")):
        begun, notebook = time.perf_counter(), nbformat.read(path, as_version=4)
        missing = [each for each in notebook.metadata.get("requires", ()) if not find_spec(each)]
        if missing:
            print(f"{path.name}: skipped, its first cell installs {', '.join(missing)}", flush=True)
            continue
        execute(notebook, path)
        if not args.check:
            nbformat.write(notebook, path)
        print(f"{path.name}: {time.perf_counter() - begun:.0f} s", flush=True)


def prepare() -> None:
    """Set the kernels' environment: this environment's commands, no network, no bars."""
    here = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([here, os.environ.get("PATH", "")])
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TQDM_DISABLE": "1"}
    os.environ.update(quiet, HF_HUB_DISABLE_PROGRESS_BARS="1", TOKENIZERS_PARALLELISM="false")


def execute(notebook: Any, path: Path) -> None:
    """Run a notebook in a new kernel, and drop execution times and widgets."""
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(HOME)}},
        coalesce_streams=True,
    )
    client.execute(env=os.environ.copy())
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                raise SystemExit(f"{path.name}: a cell wrote to standard error:\n{output.text}")
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}


if __name__ == "__main__":
    main()
