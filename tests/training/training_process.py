"""Train tiny scorers, each in a fork of this process, which may be killed on the way.

python training_process.py BASE KILL_AT '{"FOLDER": {"accumulate": 2}}'
"""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from training_rows import labelled_rows

from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.training.bilabel.fit import BilabelPlan, fit_through, parts_of
from fitrag_integrations.training.bilabel.module import BiLabelModule
from fitrag_integrations.training.encoder import start_encoder
from fitrag_integrations.training.losses.imbalance import Imbalance, Weigher
from fitrag_integrations.training.trainer import Running, first_process

LEARN = Imbalance("corrected", alpha=5.0, pairs=2)
PLAN = BilabelPlan("", "lora", 5, 2, 1e-2, 0, False, 0.3, 13, False, LEARN, evaluate_every=2)


def mixed_rows():
    """Give the toy rows, with a mismatched pair in each."""
    return [replace(row, llm_prefer=(row.llm_prefer[0], 1, 0)) for row in labelled_rows()]


def train(base, folder, *, kill_at=0, **changes):
    """Train and give the weights by name. Killed before forward pass `kill_at`, if not 0."""
    plan = replace(PLAN, base=base, **changes)
    torch.manual_seed(plan.seed)
    trunk, tokenizer, _ = start_encoder(plan.base)
    parts = parts_of(mixed_rows(), (), plan, tokenizer)
    weigher = Weigher(plan.imbalance, parts[0].labels) if plan.imbalance.learns else None
    head = BiLabelHead(trunk.width)
    module = BiLabelModule(trunk, head, tokenizer, weigher=weigher)
    passes = []

    def count(*_):
        passes.append(1)
        if len(passes) == kill_at and first_process():
            os.kill(os.getpid(), signal.SIGKILL)

    module.register_forward_pre_hook(count)
    fit_through(module, *parts, Path(folder), plan, Running(save_seconds=0.0, log_every=1))
    saved = {n: p.detach().clone() for n, p in module.named_parameters() if p.requires_grad}
    saved |= {n: value.clone() for n, value in module.named_buffers() if "weigher" in n}
    save_file(saved, Path(folder) / f"weights-{os.environ.get('RANK', '0')}.safetensors")
    return saved


if __name__ == "__main__":
    base, kill_at, runs = sys.argv[1:]
    for folder, changes in json.loads(runs).items():
        if not (child := os.fork()):
            train(base, folder, kill_at=int(kill_at), **changes)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
