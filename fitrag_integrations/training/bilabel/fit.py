"""Fit a bi-label scorer: the head on a frozen encoder, or the head and an adapter or all layers.

The scorer is calibrated on held-out questions and saved as a model folder.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import TrainerCallback

from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.encoder.encoders import (
    fold_adapter,
    load_base,
    save_encoder,
    tuned_names,
)
from fitrag_integrations.models.encoder.heads import BiLabelHead, write_head
from fitrag_integrations.models.evidence.evidence import Evidence, LateInteraction
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.models.runtime.placing import cast
from fitrag_integrations.training.bilabel.module import (
    Batch,
    BiLabelModule,
    Data,
    HeldPairs,
    Lists,
    fit_head,
)
from fitrag_integrations.training.bilabel.plan import BilabelPlan
from fitrag_integrations.training.calibration import figures_of, fit_temperatures
from fitrag_integrations.training.encoder import rarity_of, start_encoder, tune_layers, with_lora
from fitrag_integrations.training.losses.imbalance import Weigher, draw_pairs
from fitrag_integrations.training.reader import ReaderPlan, fit_reader
from fitrag_integrations.training.rows import LABELS, Labelled, labelled_json, write_jsonl
from fitrag_integrations.training.trainer import (
    ModuleTrainer,
    Running,
    Settings,
    begin,
    epochs,
    first_process,
    fit_module,
    only_run,
    process_count,
    trainable,
    training_device,
)

__all__ = ["BilabelPlan", "ReaderPlan", "Running", "fit_bilabel", "fit_reader"]


@only_run
def fit_bilabel(
    rows: Sequence[Labelled],
    out: Path,
    plan: BilabelPlan,
    *,
    held: Sequence[Labelled] = (),
    running: Running = Running(),  # noqa: B008 (it is frozen)
) -> dict[str, float]:
    """Train a scorer, calibrate it on held-out rows and save it.

    Args:
        rows: Labeled rows, from `labelled_row`.
        out: Folder to write; the run's checkpoint and log are in its folder `run`.
        plan: Training settings.
        held: Rows to hold out; a fraction of the questions in `rows` by default.
        running: Device, logging and checkpoint settings.

    Returns:
        AUC and calibration error of each label on the held-out rows. Only the first process saves
        and returns them; the result of the others is empty.

    Raises:
        InputError: If training and held-out rows share questions.
    """
    device = training_device(running.device or ("cpu" if plan.tune == "head" else None))
    torch.manual_seed(plan.seed)
    trunk, tokenizer, base = start_encoder(plan.base)
    data = Data.of(rows, held, plan, tokenizer)
    evidence = Evidence()
    if plan.evidence:
        rarity = rarity_of(data.train.texts, tokenizer)
        untouched, _ = load_base(base, attention="eager")
        untouched.to(device)
        evidence = Evidence(rarity, LateInteraction(untouched, rarity, pad_id=tokenizer.pad_id))
    head = BiLabelHead(trunk.width, features=evidence.count, hidden=plan.hidden)
    learns = plan.imbalance.mode != "none"
    weigher = Weigher(plan.imbalance, data.train.labels) if learns else None
    module = BiLabelModule(
        trunk,
        head,
        tokenizer,
        evidence=evidence,
        weigher=weigher,
        batch_tokens=plan.batch_tokens,
        listwise=plan.listwise,
    ).to(device)
    if plan.tune == "head":
        _fit_on_frozen(module, data, out, plan)
    else:
        fit_through(module, data, out / "run", plan, running)
    if not first_process():
        return {}
    logits, labels = held_logits(as_run(module, plan), data.held), data.held.labels
    temperatures = fit_temperatures(logits, labels)
    entry = write_head(out, module.head, module.evidence.rarity)
    save_encoder(module.trunk, out / "encoder", base=base)
    fields = {
        "base": base,
        "encoder": "encoder",
        "head": {**entry, "hidden": plan.hidden, "late": plan.evidence},
        "temperatures": list(temperatures),
        "trained": asdict(plan),
    }
    write_manifest(out, "model.json", kind="bilabel", fields=fields)
    return figures(logits / torch.tensor(temperatures), labels)


def _fit_on_frozen(module: BiLabelModule, data: Data, out: Path, plan: BilabelPlan) -> None:
    """Fit the head on the CPU, on vectors computed once; log every step."""
    refuse_if(process_count() > 1, "tune", "head", "lora or full in several processes")
    ready, device = as_run(module, plan), next(module.trunk.parameters()).device
    fitted = _frozen(ready, data.train)
    seen = fit_head(
        module.head.cpu(),
        fitted.pooled,
        fitted.features,
        fitted.labels,
        data.train.sizes,
        rate=plan.rate,
        seed=plan.seed,
        weigher=module.weigher,
        held=_frozen(ready, data.weighed) if len(data.weighed) else None,
        momentum=plan.momentum if plan.optimizer == "sgd" else None,
        listwise=plan.listwise,
        epochs=20 if plan.epochs is None else round(plan.epochs),
    )
    module.head.to(device)
    (out / "run").mkdir(parents=True, exist_ok=True)
    steps = ({"step": step, **losses} for step, losses in enumerate(seen, start=1))
    write_jsonl(out / "run" / "log.jsonl", steps)


def _frozen(module: BiLabelModule, given: Lists) -> HeldPairs:
    with torch.inference_mode():
        parts = [module.inputs(batch.pairs) for batch in given.batches()]
    pooled = torch.cat([part[0].cpu() for part in parts]).clone()
    features = torch.cat([part[1].cpu() for part in parts]).clone()
    return HeldPairs(pooled, features, given.labels)


def fit_through(
    module: BiLabelModule, data: Data, folder: Path, plan: BilabelPlan, running: Running
) -> None:
    """Train from the run's last checkpoint, if any, to the last step; keep the best weights.

    Args:
        module: Module to train, changed in place.
        data: Questions for training, for learning w, and held out.
        folder: Folder of the run.
        plan: Training settings; without `evaluate_every` the last weights are kept.
        running: Logging and checkpoint settings.
    """
    tuned = tuned_names(module.trunk.encoder)
    if plan.tune == "lora":
        module.trunk.encoder = with_lora(module.trunk.encoder, rank=plan.rank)
    else:
        tune_layers(module.trunk)
    with torch.inference_mode():
        first = data.train.encoded(range(min(64, len(data.train))))
        module.head.standardize(module.evidence.features(first.pairs).clone())
    rows = map(labelled_json, [*data.train.rows, *data.weighed.rows])
    begin(folder, plan, rows, map(labelled_json, data.held.rows))
    chosen = epochs(data.train.lengths, plan.batch or plan.questions, seed=plan.seed)
    settings = Settings(
        plan.steps_over(len(data.train)),
        plan.rate,
        seed=plan.seed,
        bfloat16=plan.bfloat16,
        save_seconds=running.save_seconds,
        evaluate_every=plan.evaluate_every,
        log_every=running.log_every,
        accumulate=plan.accumulate,
        optimizer=plan.optimizer,
        momentum=plan.momentum,
    )

    def batch(number: int) -> Batch:
        return data.train.encoded(chosen(number))

    def held_out() -> float:
        """Compute the held-out cross-entropy."""
        return cross_entropy(held_logits(as_run(module, plan), data.held), data.held.labels)

    if module.weigher is None:
        fit_module(ModuleTrainer(module, batch, settings, folder, held_out))
    else:
        apart, size = data.weighed.apart(), plan.imbalance.pairs

        def held(step: int) -> Batch | None:
            drawn = draw_pairs(apart.labels, size, plan.seed * 1_000_003 + step).tolist()
            return apart.encoded(drawn) if drawn else None

        fit_module(WeighingTrainer(module, batch, settings, folder, held_out, held=held))
    if plan.tune == "lora" and tuned:  # a reader's own layers are saved with what is added
        module.trunk.encoder = fold_adapter(module.trunk.encoder, tuned)


class WeighingTrainer(ModuleTrainer):
    """Trainer that weighs the losses of matched and mismatched pairs, and learns the weight w.

    After each step on the parameters, w moves down the gradient of the held-out loss (FIT-RAG,
    Algorithm 2). That gradient uses all batches of a step in every process; all processes use the
    same held-out pairs. The log has w and the unweighted losses.

    Args:
        module: Module with a `weigher`, `matched` and `mismatched` among its losses.
        *given: Arguments of `ModuleTrainer`.
        held: Function from a step to held-out pairs, half of them mismatched, or None.
    """

    def __init__(
        self, module: BiLabelModule, *given: Any, held: Callable[[int], Batch | None]
    ) -> None:
        super().__init__(module, *given)
        assert module.weigher is not None
        self.weigher, self._held, self._norm = module.weigher, held, 0.0
        outer = self

        class Moving(TrainerCallback):
            def on_optimizer_step(self, *given: Any, **named: Any) -> None:
                outer._move()

        self.add_callback(Moving())

    def training_step(
        self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None
    ) -> Tensor:
        """Add a batch's gradients, and their derivatives with respect to w."""
        model.train()
        share = 1 / self.current_gradient_accumulation_steps
        with self.compute_loss_context_manager():
            parts = self.losses(model, inputs["batch"])
        self._parts["w"].append(self.weigher.w.clone())
        weighted = self.weigher.weigh(parts, trainable(self.module), share=share)
        loss = torch.stack(list(weighted.values())).sum() * share
        self.accelerator.backward(loss)
        return loss.detach()

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        norm = super()._clip_grad_norm(model)  # type: ignore[no-untyped-call]
        self._norm = float(norm)
        return norm

    def _move(self) -> None:
        """Move w, while the parameters still hold the gradients of the step just taken."""
        weigher = self.weigher
        wrapped: Any = self.optimizer
        if weigher.push:
            weigher.push = self.accelerator.reduce(weigher.push, reduction="mean")
        self.module.eval()  # w is judged without dropout
        batch = self._held(self.state.global_step) if weigher.plan.learns else None

        def validation() -> Tensor:
            with self.compute_loss_context_manager():
                losses: dict[str, Tensor] = self.module(batch)
            return losses["matched"] + losses["mismatched"]

        judged = None if batch is None else validation
        weigher.move(wrapped.optimizer, judged, norm=self._norm, limit=self.args.max_grad_norm)


def as_run(module: BiLabelModule, plan: BilabelPlan) -> BiLabelModule:
    """Copy the encoders in bfloat16 if the plan asks for it; the head stays the module's own, and
    buffers as they are.
    """
    if not plan.bfloat16:
        return module
    interaction = module.evidence.interaction
    if interaction is not None:
        interaction = copy.copy(interaction)
        interaction.trunk = cast(copy.deepcopy(interaction.trunk), torch.bfloat16)
    return BiLabelModule(
        cast(copy.deepcopy(module.trunk), torch.bfloat16),
        module.head,
        module.tokenizer,
        evidence=replace(module.evidence, interaction=interaction),
        weigher=module.weigher,
        batch_tokens=module.batch_tokens,
        listwise=module.listwise,
    )


@torch.inference_mode()
def held_logits(module: BiLabelModule, given: Lists) -> Tensor:
    """Return the logits of all pairs, on the CPU. Shape: (pairs, 2).

    Args:
        module: Module to run.
        given: Questions.
    """
    module.eval()
    parts = [module.inputs(batch.pairs) for batch in given.batches()]
    found = [module.head(pooled, features).cpu() for pooled, features in parts]
    return torch.cat([torch.zeros(0, 2), *found])


def cross_entropy(logits: Tensor, labels: Tensor) -> float:
    """Return the mean cross-entropy over the labels that are known. Shapes: (pairs, 2)."""
    known = ~labels.isnan()
    return float(F.binary_cross_entropy_with_logits(logits[known], labels[known]))


def figures(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the figures of each label over its known values. Shapes: (pairs, 2)."""
    found: dict[str, float] = {}
    for i, name in enumerate(LABELS):
        known = ~labels[:, i].isnan()
        gold = labels[known, i].bool().tolist()
        found |= figures_of(name, logits[known, i].sigmoid().tolist(), gold) if gold else {}
    return found
