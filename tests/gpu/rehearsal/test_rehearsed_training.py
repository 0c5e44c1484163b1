"""Every trainer, from rows to a saved folder, on a device that is not the CPU.

In float32 the weights must come out as on the CPU; in bfloat16, by autocast as on a GPU, the run
must go through. `waits` is how often the host may wait for the device in one step; what is waited
for besides, the log, a held-out loss and what is saved, does not grow with the steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from causal.test_rewriter import toy_rows as claim_rows
from pretended import NAME, ledger
from rules import assert_few_waits
from safetensors.torch import load_file
from tiny import write_bert, write_t5, write_t5_classifier
from tiny_causal import write_gpt2, write_llama, write_rotary
from toy_known import toy_rows
from training_rows import judged_rows, labelled_rows, reading_rows

from fitrag_integrations.training.bilabel.fit import BilabelPlan, fit_bilabel
from fitrag_integrations.training.bilabel.imbalance import Imbalance
from fitrag_integrations.training.causal.ik import IKPlan, fit_ik
from fitrag_integrations.training.causal.slimplm import (
    NecessityPlan,
    RewriterPlan,
    fit_necessity,
    fit_rewriter,
)
from fitrag_integrations.training.evaluator.fit import EvaluatorPlan, fit_evaluator
from fitrag_integrations.training.loop.loop import Loop, Running
from fitrag_integrations.training.reader import ReaderPlan, fit_reader
from scripts.span_scorer import Preferred, SpanPlan, fit_span_scorer

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
RATE = 1e-3


@dataclass(frozen=True)
class Run:
    """Say where a trainer writes, how long it trains, and where."""

    out: Path
    steps: int
    device: str
    half: bool = False

    @property
    def running(self):
        return Running(device=self.device)


@dataclass(frozen=True)
class Case:
    """Say what a trainer starts from, and how it is run; `waits` a step."""

    base: Callable[[Path], Any]
    fit: Callable[[Any, Run], Any]
    waits: float


def bilabel(tune, imbalance="none"):
    def fit(base, run):
        sizes = {"questions": 2, "hidden": 4, "evidence": False, "validation": "0.3"}
        plan = BilabelPlan(base, tune, run.steps, rate=RATE, bfloat16=run.half, **sizes)
        plan = replace(plan, imbalance=Imbalance(imbalance))
        fit_bilabel(labelled_rows(), run.out, plan, running=run.running)

    return fit


def reader(base, run):
    plan = ReaderPlan(base, run.steps, 3, words=20, rate=RATE, bfloat16=run.half)
    fit_reader(reading_rows(), run.out, plan, run.running)


def evaluator(**changes):
    def fit(base, run):
        sizes = {"rank": 4, "questions": 3, "rate": RATE, "bfloat16": run.half}
        plan = EvaluatorPlan(base, "tiny", steps=run.steps, **sizes, **changes)
        fit_evaluator(judged_rows(), run.out, plan, run.running)

    return fit


def evaluated(folder):
    evaluator()(write_bert(folder / "base"), Run(folder / "evaluator", 1, "cpu"))
    return folder / "evaluator"


def span_scorer(base, run):
    rows = [Preferred(row, row.holds) for row in judged_rows()]
    plan = SpanPlan(str(base), rank=2, steps=run.steps, questions=2, kept=1.0, bfloat16=run.half)
    fit_span_scorer(rows, run.out, replace(plan, device=run.device))


LORA = {"rate": RATE, "rank": 2, "alpha": 4, "dropout": 0.1, "batch": 4, "validation": 0.25}


def ik(variant):
    def fit(base, run):
        epochs = run.steps * 4 / 18 / (1 if variant == "lora" else 2)
        plan = IKPlan(base, variant, draft_tokens=4, lengths=(0, 4), epochs=epochs, **LORA)
        fit_ik(toy_rows(24), run.out, replace(plan, device=run.device))

    return fit


def necessity(base, run):
    plan = NecessityPlan(base, draft_tokens=4, epochs=run.steps * 4 / 18, **LORA)
    fit_necessity(toy_rows(24), run.out, replace(plan, device=run.device))


def rewriter(base, run):
    plan = RewriterPlan(base, draft_tokens=4, max_new_tokens=40, epochs=run.steps * 4 / 15, **LORA)
    fit_rewriter(claim_rows(20), run.out, replace(plan, device=run.device))


CASES = {
    "bi-label, layers": Case(write_bert, bilabel("full"), 1),
    "bi-label, adapter on T5": Case(write_t5, bilabel("lora"), 1),
    "bi-label, head": Case(write_bert, bilabel("head"), 0),
    "bi-label, hypergradient": Case(write_bert, bilabel("full", "corrected"), 7),
    "reader": Case(write_bert, reader, 1),
    # torch reads three more behind `max` on any device but CUDA
    "evaluator": Case(write_bert, evaluator(), 4),
    "evaluator, regression": Case(
        write_t5_classifier, evaluator(loss="regression", tune="full", batch=6), 4
    ),
    "span scorer": Case(evaluated, span_scorer, 1),
    "IK, adapter": Case(write_llama, ik("lora"), 3),
    "IK, head": Case(write_llama, ik("head"), 0),
    "necessity": Case(lambda f: write_gpt2(f, positions=1024), necessity, 3),
    "rewriter": Case(lambda f: write_rotary(f, "mistral"), rewriter, 3),
}


@pytest.fixture(scope="module", params=CASES)
def trained(request, tmp_path_factory):
    """Train on the CPU, then on the device; give a case, both folders, and a ledger per step."""
    case, folder = CASES[request.param], tmp_path_factory.mktemp("case")
    base, steps = case.base(folder / "base"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "_step", _watched(Loop._step, steps))
        case.fit(base, plain := Run(folder / "plain", 2, "cpu"))
        case.fit(base, full := Run(folder / "full", 2, NAME))
        steps.clear()
        case.fit(base, Run(folder / "half", 2, NAME, half=True))
    return case, plain.out, full.out, list(steps)


def _watched(step, seen):
    def watched(self, *arguments):
        with ledger() as made:
            seen.append(made)
            return step(self, *arguments)

    return watched


def weights(out):
    files = sorted(path for path in out.rglob("*.safetensors") if "run" not in path.parts)
    assert files
    return {f"{path.name}/{key}": one for path in files for key, one in load_file(path).items()}


def test_it_learns_what_it_learns_on_the_cpu(trained):
    _, plain, full, _ = trained
    expected, found = weights(plain), weights(full)
    assert expected.keys() == found.keys()
    for name, weight in expected.items():
        if not name.endswith(
            ("key.bias", "span.bias")
        ):  # attention heeds none: Adam follows what is rounded off
            near = torch.allclose(weight.float(), found[name].float(), rtol=2e-3, atol=0.1 * RATE)
            assert near, name


def test_the_host_waits_seldom_in_a_step(trained):
    case, _, _, steps = trained
    for seen in steps:
        assert_few_waits(seen, case.waits)
