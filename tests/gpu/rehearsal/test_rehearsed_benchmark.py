"""The script for a GPU on the device that is not the CPU, at tiny sizes."""

import importlib.util
import sys
from pathlib import Path

from pretended import NAME, ledger

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "gpu.py"


def test_every_figure_is_taken_on_the_device(monkeypatch):
    spec = importlib.util.spec_from_file_location("gpu_benchmark", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, script)
    spec.loader.exec_module(script)
    bench = script.Bench(NAME, script.TINY, 600)
    with ledger() as seen:
        figures = list(bench.figures())
    assert not bench.failed and len(figures) >= 17
    assert seen.kernels["_softmax"] and seen.kernels["topk"]
