"""The notebooks as they are saved; `make test-notebooks` runs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MACHINE = re.compile(r"/tmp/|/root/|/home/|/Users/|/work/|[A-Z]:\\\\|site-packages")
WIDGETS = "application/vnd.jupyter.widget"


def cells(path: Path) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(path: Path) -> list[dict[str, Any]]:
    return [output for cell in cells(path) for output in cell["outputs"]]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_there_are_eight() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == [f"0{number}" for number in range(1, 9)]


def test_every_cell_was_run_once_and_in_order(path: Path) -> None:
    counts = [cell["execution_count"] for cell in cells(path)]
    assert counts == list(range(1, len(counts) + 1))


def test_outputs_are_saved_and_neither_errors_nor_warnings(path: Path) -> None:
    kinds = {output["output_type"] for output in outputs(path)}
    assert kinds
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert {output.get("name", "stdout") for output in outputs(path)} == {"stdout"}


def test_no_widget_needs_a_live_kernel(path: Path) -> None:
    assert WIDGETS not in path.read_text(encoding="utf-8")


def test_outputs_tell_nothing_of_the_machine(path: Path) -> None:
    shown = [
        "".join(output.get("text", "")) + json.dumps(text_of(output)) for output in outputs(path)
    ]
    assert not [text for text in shown if MACHINE.search(text)]


def text_of(output: dict[str, Any]) -> list[Any]:
    return [text for kind, text in output.get("data", {}).items() if kind.startswith("text/")]


def test_the_page_of_notebooks_links_each(path: Path) -> None:
    assert path.name in (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")


def test_one_whose_model_is_not_installed_is_skipped_and_says_so(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": "1 / 0", "outputs": [], "id": "a"}
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"requires": ["no_such_weights"]},
        "cells": [{**cell, "execution_count": None}],
    }
    path = tmp_path / "needs.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "notebooks.py"), "--check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "needs.ipynb: skipped, its first cell installs no_such_weights" in done.stdout
