"""The script for a GPU: what it says without one, and of lines that fail."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


def ran(*options, code=0):
    command = [sys.executable, str(SCRIPT), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture
def script(monkeypatch):
    spec = importlib.util.spec_from_file_location("gpu_benchmark", SCRIPT)
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, made)
    spec.loader.exec_module(made)
    return made


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device to measure on")
def test_without_a_gpu_it_fails_and_says_so():
    assert ran(code=1).strip() == "no CUDA device: unmeasured"


def test_what_fails_is_reported(script, monkeypatch):
    bench = script.Bench("cpu", script.TINY, 600)
    for name in ("reranker", "evaluator", "training", "precision", "search", "language_model"):
        monkeypatch.setattr(bench, name, type(name, (), {"__name__": name})())
    monkeypatch.setattr(bench, "scorer", lambda: 1 / 0)
    assert list(bench.figures()) == [] and len(bench.failed) == 7
    assert "ZeroDivisionError" in bench.failed[0]
