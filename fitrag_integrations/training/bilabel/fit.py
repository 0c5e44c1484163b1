"""Put data, module and loop together, and save what comes out as a model folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.encoder.encoders import load_base, save_encoder
from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.evidence.evidence import Evidence
from fitrag_integrations.models.evidence.late import LateInteraction
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.models.scorer.bilabel import write_head
from fitrag_integrations.training.bilabel.encoder_run import fit_through
from fitrag_integrations.training.bilabel.imbalance import Weigher
from fitrag_integrations.training.bilabel.lists import Data, Lists
from fitrag_integrations.training.bilabel.measuring import figures, held_logits, rounded
from fitrag_integrations.training.bilabel.module import (
    BiLabelModule,
    HeldPairs,
    fit_head,
)
from fitrag_integrations.training.bilabel.plan import BilabelPlan
from fitrag_integrations.training.calibration import fit_temperatures
from fitrag_integrations.training.loop.parallel import Processes, join
from fitrag_integrations.training.loop.running import Running
from fitrag_integrations.training.reader.fit import ReaderPlan, fit_reader
from fitrag_integrations.training.rows import Labelled, write_jsonl
from fitrag_integrations.training.starting import rarity_of, start_encoder

__all__ = ["BilabelPlan", "ReaderPlan", "Running", "fit_bilabel", "fit_reader"]


def fit_bilabel(
    rows: Sequence[Labelled],
    out: Path,
    plan: BilabelPlan,
    *,
    held: Sequence[Labelled] = (),
    running: Running = Running(),  # noqa: B008 (it is frozen)
    plots: Path | None = None,
) -> dict[str, float]:
    """Train a scorer, calibrate it on the rows held out, save it, and give their figures.

    `held` are the rows to hold out, else a share of the questions is. `plots` is a folder to draw
    into. Raises `InputError` naming questions on both sides. Of several processes only the first
    saves, and gives figures.
    """
    if plots is not None:  # not after hours of training
        require_extra("matplotlib.figure", extra="plots", feature="plots")
    team, device = join(_device(plan, running))
    torch.manual_seed(plan.seed)
    trunk, tokenizer, base = start_encoder(plan.base)
    data = Data.of(rows, held, plan, tokenizer)
    evidence = _evidence(data.train, tokenizer, base, plan)
    head = BiLabelHead(trunk.width, features=evidence.count, hidden=plan.hidden)
    weigher = None
    if plan.imbalance.mode != "none":
        weigher = Weigher(plan.imbalance, data.train.labels)
    module = BiLabelModule(
        trunk,
        head,
        tokenizer,
        evidence=evidence,
        weigher=weigher,
        batch_tokens=plan.batch_tokens,
        listwise=plan.listwise,
    )
    _move(module, device)
    if plan.tune == "head":
        _fit_on_frozen(module, data, out, plan, team)
    else:
        fit_through(module, data, out / "run", plan, running, team)
    return _finish(module, data.held, out, plan, base, plots) if team.first else {}


def _device(plan: BilabelPlan, running: Running) -> torch.device:
    named = running.device or ("cpu" if plan.tune == "head" else None)
    return Options(device=named).resolved()[0]


def _evidence(given: Lists, tokenizer: PairTokenizer, base: str, plan: BilabelPlan) -> Evidence:
    """Count how rare tokens are in the passages at hand, and load the base for late interaction."""
    if not plan.evidence:
        return Evidence()
    rarity = rarity_of(given.texts, tokenizer)
    untouched, _ = load_base(base, attention="eager")
    return Evidence(rarity, LateInteraction(untouched, rarity, pad_id=tokenizer.pad_id))


def _move(module: BiLabelModule, device: torch.device) -> None:
    module.to(device)
    if module.evidence.interaction is not None:
        module.evidence.interaction.trunk.to(device)


def _rounded(module: BiLabelModule, plan: BilabelPlan) -> BiLabelModule:
    return rounded(module) if plan.bfloat16 else module


def _fit_on_frozen(
    module: BiLabelModule, data: Data, out: Path, plan: BilabelPlan, team: Processes
) -> None:
    """Fit the head on the CPU, on vectors computed once; log every step."""
    if team.count > 1:
        raise InputError.of("tune", given="head", allowed="lora or full in several processes")
    ready, device = _rounded(module, plan), next(module.trunk.parameters()).device
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


def _finish(
    module: BiLabelModule,
    held: Lists,
    out: Path,
    plan: BilabelPlan,
    base: str,
    plots: Path | None,
) -> dict[str, float]:
    logits, labels = held_logits(_rounded(module, plan), held), held.labels
    temperatures = fit_temperatures(logits, labels)
    _save_scorer(module, out, plan, base=base, temperatures=temperatures)
    scaled = logits / torch.tensor(temperatures)
    if plots is not None:
        from fitrag_integrations.training.loop.plots import draw_run

        draw_run(out / "run" / "log.jsonl", scaled.sigmoid(), labels, plots)
    return figures(scaled, labels)


def _save_scorer(
    module: BiLabelModule,
    out: Path,
    plan: BilabelPlan,
    *,
    base: str,
    temperatures: tuple[float, float],
) -> None:
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
