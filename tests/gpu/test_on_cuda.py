"""What only a GPU can tell; without one each test is skipped and its figure is unmeasured."""

import warnings

import pytest
import torch
from gpu_cases import CASES, flat, on_devices
from tiny import write_t5_classifier
from training_rows import judged_rows

from fitrag_integrations.models import RetrievalEvaluator
from fitrag_integrations.training.evaluator.fit import EvaluatorPlan, fit_evaluator
from fitrag_integrations.training.trainer import Running

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module", params=CASES)
def loaded(request, tmp_path_factory):
    yield from on_devices(request.param, tmp_path_factory.mktemp("case"), "cuda")


def test_it_answers_as_on_the_cpu(loaded):
    case, (plain, full, _) = loaded
    assert flat(case.ask(full, 1)) == [
        pytest.approx(one, abs=1e-3, rel=1e-3) if isinstance(one, float) else one
        for one in flat(case.ask(plain, 1))
    ]


def test_the_host_waits_seldom(loaded):
    """Count by CUDA itself what the simulated device counts without it."""
    case, (_, _, half) = loaded
    case.ask(half, 1)  # what is only looked up once
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            torch.cuda.set_sync_debug_mode("warn")  # which warns that it is a prototype
            case.ask(half, 3)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = [one for one in heard if "synchronizing CUDA operation" in str(one.message)]
    # a copy from memory that is not pinned waits as well
    assert len(waits) <= case.waits + case.uploads


def test_the_papers_evaluator_trains(tmp_path):
    base = write_t5_classifier(tmp_path / "base")
    plan = EvaluatorPlan(base, "tiny", steps=4, loss="regression", tune="full", batch=6)
    fit_evaluator(judged_rows(), tmp_path / "out", plan, Running(device="cuda"))
    made = RetrievalEvaluator.from_pretrained(tmp_path / "out")
    assert len(made.evaluate([("who", judged_rows()[0].passages[0])])) == 1
