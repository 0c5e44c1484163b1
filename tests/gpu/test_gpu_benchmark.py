"""The script for a GPU, at tiny sizes on the CPU: every line of it that needs none runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


def ran(*options):
    command = [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device to measure on")
def test_without_a_gpu_it_says_so():
    assert ran().strip() == "no CUDA device: unmeasured"


def test_it_measures_everything_at_tiny_sizes(tmp_path):
    ran("--rehearse", "--out", str(tmp_path))
    (path,) = tmp_path.glob("*.json")
    row = json.loads(path.read_text())
    names = [figure["name"] for figure in row["milliseconds"]]
    expected = ["T5-base scorer", "T5-large evaluator", "flat search", *["IK over Llama 7B"] * 2]
    assert names == expected
    assert all(low <= mid <= high for mid, low, high in (f["wall"] for f in row["milliseconds"]))
    assert row["rehearsed"]
