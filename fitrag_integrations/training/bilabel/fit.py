"""Fit a bi-label scorer: the head on a frozen encoder, or the head and an adapter or all layers.

The scorer is calibrated on held-out questions and saved as a model folder.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.outcomes import calibration_error
from fitrag_integrations.models.encoder.encoders import (
    fold_adapter,
    load_base,
    save_encoder,
    tuned_names,
)
from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.evaluator.head import write_head
from fitrag_integrations.models.evidence.evidence import Evidence, LateInteraction
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.models.runtime.placing import cast
from fitrag_integrations.training.bilabel.imbalance import Weigher, draw_pairs
from fitrag_integrations.training.bilabel.module import (
    Batch,
    BiLabelModule,
    Data,
    HeldPairs,
    Lists,
    fit_head,
)
from fitrag_integrations.training.bilabel.plan import BilabelPlan
from fitrag_integrations.training.encoder import rarity_of, start_encoder, tune_layers, with_lora
from fitrag_integrations.training.loop.checkpoints import begin, only_run, run_fields
from fitrag_integrations.training.loop.loop import (
    Loop,
    LoopSettings,
    Running,
    Seen,
    epochs,
    trainable,
)
from fitrag_integrations.training.loop.parallel import ALONE, Processes, join, training_device
from fitrag_integrations.training.losses import fit_temperatures
from fitrag_integrations.training.reader import ReaderPlan, fit_reader
from fitrag_integrations.training.rows import LABELS, Labelled, labelled_json, write_jsonl

__all__ = ["BilabelPlan", "ReaderPlan", "Running", "fit_bilabel", "fit_reader"]


@only_run
def fit_bilabel(
    rows: Sequence[Labelled],
    out: Path,
    plan: BilabelPlan,
    *,
    held: Sequence[Labelled] = (),
    running: Running = Running(),  # noqa: B008 (it is frozen)
    plots: Path | None = None,
) -> dict[str, float]:
    """Train a scorer, calibrate it on held-out rows and save it.

    Args:
        rows: Labeled rows, from `labelled_row`.
        out: Folder to write; the run's checkpoint and log are in its folder `run`.
        plan: Training settings.
        held: Rows to hold out; a fraction of the questions in `rows` by default.
        running: Device, logging and checkpoint settings.
        plots: Folder for plots of losses, w and calibration; requires Matplotlib.

    Returns:
        AUC and calibration error of each label on the held-out rows; empty in all processes but the
        first, which alone saves.

    Raises:
        InputError: If questions are on both sides.
    """
    if plots is not None:  # not after hours of training
        require_extra("matplotlib.figure", extra="plots", feature="plots")
    named = running.device or ("cpu" if plan.tune == "head" else None)
    team, device = join(training_device(named))
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
        _fit_on_frozen(module, data, out, plan, team)
    else:
        fit_through(module, data, out / "run", plan, running, team)
    if not team.first:
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
    scaled = logits / torch.tensor(temperatures)
    if plots is not None:
        from fitrag_integrations.training.loop.plots import draw_run

        draw_run(out / "run" / "log.jsonl", scaled.sigmoid(), labels, plots)
    return figures(scaled, labels)


def _fit_on_frozen(
    module: BiLabelModule, data: Data, out: Path, plan: BilabelPlan, team: Processes
) -> None:
    """Fit the head on the CPU, on vectors computed once; log every step."""
    refuse_if(team.count > 1, "tune", "head", "lora or full in several processes")
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
    module: BiLabelModule,
    data: Data,
    folder: Path,
    plan: BilabelPlan,
    running: Running,
    team: Processes,
) -> None:
    """Train from the run's last checkpoint, if any, to the last step; keep the best weights.

    Args:
        module: Module to train, changed in place.
        data: Questions to train on, to learn w on, and held out.
        folder: Folder of the run.
        plan: Training settings; without `evaluate_every` the last weights are kept.
        running: Logging and checkpoint settings.
        team: Processes that share each step.
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
    chosen = epochs(data.train.lengths, plan.batch or plan.questions, seed=plan.seed)
    steps = plan.steps_over(len(data.train), team.count)
    settings = LoopSettings(
        steps,
        plan.rate,
        seed=plan.seed,
        bfloat16=plan.bfloat16,
        save_seconds=running.save_seconds,
        evaluate_every=plan.evaluate_every or steps,
        log_every=running.log_every,
        accumulate=plan.accumulate,
        optimizer=plan.optimizer,
        momentum=plan.momentum,
    )

    def batch(number: int) -> Batch:
        return data.train.encoded(chosen(number))

    def loss() -> float:
        """Compute the held-out cross-entropy, each process on its part of the rows."""
        logits = held_logits(as_run(module, plan), data.held, team=team)
        return cross_entropy(logits, data.held.labels)

    best = loss if plan.evaluate_every else None
    if module.weigher is None:
        Loop(module, batch, settings, folder, team=team, held_out=best).run()
    else:
        apart, size = data.weighed.apart(), plan.imbalance.pairs

        def held(step: int) -> Batch | None:
            drawn = draw_pairs(apart.labels, size, plan.seed * 1_000_003 + step).tolist()
            return apart.encoded(drawn) if drawn else None

        weigher = module.weigher
        WeighingLoop(
            module, batch, settings, folder, None, team, best, weigher=weigher, held=held
        ).run()
    if plan.tune == "lora" and tuned:  # a reader's own layers are saved with what is added
        module.trunk.encoder = fold_adapter(module.trunk.encoder, tuned)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighingLoop(Loop[Batch]):
    """Weigh the losses of matched and mismatched pairs by a weigher, which learns after each step.

    The module gives `matched` and `mismatched` among its losses and holds the weigher, so that w is
    kept in the checkpoint. `held(step)` gives held-out pairs, half of them mismatched, or None. The
    log has w, and the losses as they are before they are weighted. The slope of w is taken on the
    gradients of all batches of a step, of every process; each judges w on the same held-out pairs.
    """

    weigher: Weigher
    held: Callable[[int], Batch | None]

    def _backward(self, losses: dict[str, Tensor]) -> Seen:
        shown: Seen = {name: value.detach() for name, value in losses.items()}
        share = 1 / self.settings.accumulate
        weighted = self.weigher.weigh(losses, trainable(self.module), share=share)
        (torch.stack(list(weighted.values())).sum() * share).backward()
        return shown | {"w": self.weigher.w.item()}

    def _descend(self, optimizer: torch.optim.Optimizer, at: int) -> None:
        tuned = trainable(self.module)
        self.team.average_gradients(tuned)
        self.team.average(self.weigher.push)
        norm = float(nn.utils.clip_grad_norm_(tuned, self.settings.clip))
        optimizer.step()
        self.module.eval()  # w is judged without dropout
        batch = self.held(at) if self.weigher.plan.learns else None

        def validation() -> Tensor:
            assert batch is not None
            losses = self._losses(batch)
            return losses["matched"] + losses["mismatched"]

        judged = None if batch is None else validation
        self.weigher.move(optimizer, judged, norm=norm, limit=self.settings.clip)
        self.team.share([self.weigher.w.data])
        optimizer.zero_grad()


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
def held_logits(module: BiLabelModule, given: Lists, *, team: Processes = ALONE) -> Tensor:
    """Return the logits of all pairs, on the CPU. Shape: (pairs, 2). Processes share the work.

    Args:
        module: Module to run.
        given: Questions.
        team: Processes that share the work.
    """
    module.eval()
    mine = team.mine(len(given))
    parts = [module.inputs(batch.pairs) for batch in given.batches(mine)]
    found = [module.head(pooled, features).cpu() for pooled, features in parts]
    places = range(*given.pairs_of(mine.start, mine.stop))
    return team.gather(torch.cat([torch.zeros(0, 2), *found]), len(given.labels), places)


def cross_entropy(logits: Tensor, labels: Tensor) -> float:
    """Return the mean cross-entropy over the labels that are known. Shapes: (pairs, 2)."""
    known = ~labels.isnan()
    return float(F.binary_cross_entropy_with_logits(logits[known], labels[known]))


def figures(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Return AUC and calibration error of each label. Shapes: (pairs, 2)."""
    roc = require_extra("sklearn.metrics", extra="train", feature="the AUC of a fitted scorer")
    found = {}
    for i, name in enumerate(LABELS):
        known = ~labels[:, i].isnan()
        scores, gold = logits[known, i].sigmoid().tolist(), labels[known, i].int().tolist()
        if 0 < sum(gold) < len(gold):  # labels of one kind have none
            found[f"{name} AUC"] = round(float(roc.roc_auc_score(gold, scores)), 4)
        found[f"{name} ECE"] = round(calibration_error(scores, gold), 4)
    return found
