"""A step of every trainer on a device that is not the CPU: what is left behind fails here."""

import pytest
import torch
from pretended import NAME, ledger
from rules import assert_placed
from tiny import write_bert, write_t5, write_t5_classifier
from tiny_causal import write_llama
from training_rows import judged_rows, labelled_rows, reading_rows

from fitrag_integrations.models.encoder.heads import BiLabelHead, ReaderHead
from fitrag_integrations.models.evidence.evidence import Evidence
from fitrag_integrations.training.bilabel.module import BiLabelModule, Lists
from fitrag_integrations.training.causal.adapter import CausalModule, Example, own_engine
from fitrag_integrations.training.encoder import start_encoder
from fitrag_integrations.training.evaluator.fit import EvaluatorPlan
from fitrag_integrations.training.evaluator.fit import _start as start_evaluator
from fitrag_integrations.training.evaluator.module import labelled_pairs, start_regression
from fitrag_integrations.training.reader import ReaderModule

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")


def bilabel(base):
    trunk, tokenizer, _ = start_encoder(base)
    trunk.requires_grad_(True)
    head = BiLabelHead(trunk.width)
    batch = Lists(labelled_rows()[:4], tokenizer).encoded(range(4))
    return BiLabelModule(trunk, head, tokenizer, evidence=Evidence()), batch


def reader(base):
    trunk, tokenizer, _ = start_encoder(base)
    trunk.requires_grad_(True)
    module = ReaderModule(trunk, ReaderHead(trunk.width), tokenizer)
    return module, [(row, (row.passage, *row.negatives)) for row in reading_rows()[:4]]


def evaluator(base):
    rows = judged_rows()
    module, _ = start_evaluator(rows, EvaluatorPlan(base=base, tune="full"))
    return module, rows[:4]


def regression(base):
    module = start_regression(base, tune="full", rank=4, input_format="plain")
    return module, labelled_pairs(judged_rows()[:4])


CASES = {
    "bilabel": (bilabel, write_bert),
    "bilabel over T5": (bilabel, write_t5),
    "reader": (reader, write_bert),
    "evaluator": (evaluator, write_bert),
    "regression": (regression, write_t5_classifier),
}


def test_a_causal_batch_is_sent_at_once(tmp_path):
    """However many rows it has, and however long their targets are."""
    engine = own_engine(write_llama(tmp_path), NAME)
    counts, rows = [], [Example([3, 4, 5], [7, 8]), Example([9], [2]), Example([9, 3], [2, 4, 5])]
    for batch in (rows[:1], rows, rows * 3):
        with ledger() as seen:
            CausalModule(engine)(batch)["word"]
        counts.append(len(seen.uploads))
    engine.release()
    assert len(set(counts)) == 1 and counts[0] <= 5, counts


@pytest.mark.parametrize("name", CASES)
def test_a_step_leaves_nothing_behind(name, tmp_path):
    make, write = CASES[name]
    module, batch = make(write(tmp_path / "base"))
    torch.manual_seed(1)
    expected = {k: float(v.detach()) for k, v in module.eval()(batch).items()}
    module.to(NAME)
    found = module.eval()(batch)
    torch.stack(list(found.values())).sum().backward()
    assert_placed(module)
    numbers = {name: float(value.detach().cpu()) for name, value in found.items()}
    assert numbers == pytest.approx(expected, abs=1e-4)
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    assert gradients and all(one.device.type == NAME for one in gradients)
