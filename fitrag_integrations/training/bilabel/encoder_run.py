"""Train a bi-label scorer through its encoder: adapters or layers, and the head."""

from __future__ import annotations

from pathlib import Path

import torch

from fitrag_integrations.models.encoder.encoders import fold_adapter, tuned_names
from fitrag_integrations.training.bilabel.lists import Batch, Data, Lists
from fitrag_integrations.training.bilabel.measuring import cross_entropy, held_logits, rounded
from fitrag_integrations.training.bilabel.module import BiLabelModule
from fitrag_integrations.training.bilabel.plan import BilabelPlan
from fitrag_integrations.training.bilabel.weighing_loop import WeighingLoop, held_batches
from fitrag_integrations.training.loop.batches import epochs
from fitrag_integrations.training.loop.early_stopping import Best
from fitrag_integrations.training.loop.loop import Loop
from fitrag_integrations.training.loop.parallel import Processes
from fitrag_integrations.training.loop.run_folder import begin, run_fields
from fitrag_integrations.training.loop.running import Running
from fitrag_integrations.training.loop.tuning import tune_layers, with_lora
from fitrag_integrations.training.rows import labelled_json


def fit_through(
    module: BiLabelModule,
    data: Data,
    folder: Path,
    plan: BilabelPlan,
    running: Running,
    team: Processes,
) -> None:
    """Train to the last step, or go on from the run's last checkpoint, and keep the best weights.

    Without evaluations on the way those are the last ones.
    """
    tuned = tuned_names(module.trunk.encoder)
    if plan.tune == "lora":
        module.trunk.encoder = with_lora(module.trunk.encoder, rank=plan.rank)
    else:
        tune_layers(module.trunk)
    with torch.inference_mode():
        first = data.train.encoded(range(min(64, len(data.train))))
        module.head.standardize(module.evidence.features(first.pairs).clone())
    if team.first:
        rows = map(labelled_json, [*data.train.rows, *data.weighed.rows])
        begin(folder, run_fields(plan, team.count, rows, map(labelled_json, data.held.rows)))
    best = _best(module, data.held, folder, plan, team) if plan.evaluate_every else None
    _loop(module, data, folder, plan, running, team, best).run()
    if best is not None and team.first:
        best.restore()
    if plan.tune == "lora" and tuned:  # a reader's own layers are saved with what is added
        module.trunk.encoder = fold_adapter(module.trunk.encoder, tuned)


def _best(
    module: BiLabelModule,
    held: Lists,
    folder: Path,
    plan: BilabelPlan,
    team: Processes,
) -> Best:
    """Judge by the cross-entropy of what is held out, each process on its share of it."""

    def loss() -> float:
        ready = rounded(module) if plan.bfloat16 else module
        return cross_entropy(held_logits(ready, held, team=team), held.labels)

    return Best(module, folder / "best.safetensors", loss, writes=team.first)


def _loop(
    module: BiLabelModule,
    data: Data,
    folder: Path,
    plan: BilabelPlan,
    running: Running,
    team: Processes,
    best: Best | None,
) -> Loop[Batch]:
    chosen = epochs(data.train.lengths, plan.batch or plan.questions, seed=plan.seed)
    steps = plan.steps_over(len(data.train), team.count)
    settings = running.settings(
        plan,
        steps,
        evaluate_every=plan.evaluate_every or steps,
        accumulate=plan.accumulate,
        optimizer=plan.optimizer,
        momentum=plan.momentum,
    )

    def batch(number: int) -> Batch:
        return data.train.encoded(chosen(number))

    if module.weigher is None:
        return Loop(module, batch, settings, folder, best, team)
    held = held_batches(data.weighed, plan.imbalance.pairs, seed=plan.seed)
    return WeighingLoop(
        module, batch, settings, folder, best, team, weigher=module.weigher, held=held
    )
