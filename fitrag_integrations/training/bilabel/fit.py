"""Fit a bi-label scorer: the head on a frozen encoder, or the head and an adapter or all layers.

The scorer is calibrated on held-out questions and saved as a model folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fitrag_integrations.core.checks import Checked
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.heads import BiLabelHead, write_head
from fitrag_integrations.models.encoder.late import LATE_COUNT, LateInteraction
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.runtime.engine import multiplies_bfloat16
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.models.runtime.sources import MINILM
from fitrag_integrations.training.bilabel.module import Batch, BiLabelModule, Lists, WeighingTrainer
from fitrag_integrations.training.calibration import figures_of, fit_temperatures
from fitrag_integrations.training.encoder import rarity_of, save_tuned, start_encoder, tune
from fitrag_integrations.training.losses.imbalance import Imbalance, Weigher, draw_pairs
from fitrag_integrations.training.options import (
    Accumulate,
    Bfloat16,
    EncoderBase,
    Epochs,
    EvaluateEvery,
    Rate,
    Seed,
    Steps,
)
from fitrag_integrations.training.rows import LABELS, Labelled, labelled_json, refuse_shared, split
from fitrag_integrations.training.trainer import (
    OPTIMIZERS,
    ModuleTrainer,
    Running,
    Settings,
    begin,
    device_of,
    epochs,
    first_process,
    fit_module,
    only_run,
    steps_over,
    training_device,
)

SHARE = 0.15


@dataclass(frozen=True, slots=True)
class BilabelPlan(Checked):
    """Settings for training a scorer; see `fitrag train bilabel --help`."""

    base: EncoderBase = MINILM
    tune: Annotated[
        str, Option("What trains: head, lora or full.", among=("head", "lora", "full"))
    ] = "lora"
    steps: Steps = 1000
    questions: Annotated[int, Option("Questions per batch.", min=1)] = 4
    rate: Rate = 3e-4
    hidden: Annotated[int, Option("Units of the head's hidden layer, 0 for none.")] = 0
    evidence: Annotated[
        bool, Option("Add lexical overlap and late interaction to the head's features.")
    ] = True
    validation: Annotated[
        str, Option("Fraction of the questions to hold out, or a file of rows.")
    ] = str(SHARE)
    seed: Seed = 13
    bfloat16: Bfloat16 = True
    imbalance: Imbalance = field(default_factory=Imbalance)
    accumulate: Accumulate = 1
    batch_tokens: Annotated[
        int | None,
        Option(
            "Padded tokens per pass through the encoder, of pairs of like length.",
            min=1,
            default="16 pairs",
        ),
    ] = None
    optimizer: Annotated[str, Option("Optimizer: adamw or sgd.", among=tuple(OPTIMIZERS))] = "adamw"
    momentum: Annotated[float, Option("Momentum of SGD.", min=0, max=0.999)] = 0.9
    evaluate_every: EvaluateEvery = 0
    epochs: Epochs = None
    batch: Annotated[
        int | None,
        Option("Pairs per batch instead of lists (the paper's: 16).", min=1, default="lists"),
    ] = None
    rank: Annotated[int, Option("Rank of the LoRA adapter; its alpha is twice that.", min=1)] = 16
    listwise: Annotated[
        float, Option("Weight of the listwise loss; 0 for the paper's loss.", min=0)
    ] = 0.3

    @property
    def share(self) -> float:
        """Return the fraction of questions to hold out; the default one if `held` is a file."""
        return float(self.validation) if self.held_file is None else SHARE

    @property
    def held_file(self) -> Path | None:
        """Return the file of rows to hold out, if it is one."""
        try:
            float(self.validation)
        except ValueError:
            return Path(self.validation)
        return None

    def steps_over(self, count: int) -> int:
        """Return the number of steps over `count` questions, or pairs in batches of pairs."""
        size = (self.batch or self.questions) * self.accumulate
        return self.steps if self.epochs is None else steps_over(count, size, self.epochs)

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        refuse_if(
            self.held_file is not None and not self.held_file.is_file(),
            "--validation",
            self.validation,
            "a share of the questions, or a file that is there",
        )
        refuse_if(not 0 < self.share < 1, "validation", self.validation, "a share of 0 to 1")


def parts_of(
    rows: Sequence[Labelled],
    held: Sequence[Labelled],
    plan: BilabelPlan,
    tokenizer: PairTokenizer,
) -> tuple[Lists, Lists, Lists]:
    """Return the questions to train on, to learn w on (none if it is fixed), and held out.

    Args:
        rows: Labeled rows.
        held: Rows to hold out; a fraction of `rows` if empty.
        plan: Training settings.
        tokenizer: Tokenizer of pairs.

    Raises:
        InputError: If questions are in both parts; names some of them.
    """
    train, held = (list(rows), list(held)) if held else split(rows, plan.share, plan.seed)
    refuse_shared(train, held)
    train, weighed = split(train, plan.share, plan.seed) if plan.imbalance.learns else (train, [])
    lists = Lists(train, tokenizer)
    lists = lists if plan.batch is None else lists.apart()
    return lists, Lists(weighed, tokenizer), Lists(held, tokenizer)


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
    train, weighed, kept = parts_of(rows, held, plan, tokenizer)
    rarity, late = rarity_of(train.texts, tokenizer) if plan.evidence else None, None
    if rarity is not None:
        untouched = load_base(base, attention="eager")[0].to(device)
        late = LateInteraction(untouched, rarity, pad_id=tokenizer.pad_id)
    head = BiLabelHead(trunk.width, features=LATE_COUNT * plan.evidence, hidden=plan.hidden)
    learns = plan.imbalance.mode != "none"
    module = BiLabelModule(
        trunk,
        head,
        tokenizer,
        clues=late,
        weigher=Weigher(plan.imbalance, train.labels) if learns else None,
        batch_tokens=plan.batch_tokens,
        listwise=plan.listwise,
    ).to(device)
    before = fit_through(module, train, weighed, kept, out / "run", plan, running)
    if not first_process():
        return {}
    logits, labels = held_logits(module, kept, plan.bfloat16), kept.labels
    temperatures = fit_temperatures(logits, labels)
    entry = write_head(out, module.head, rarity)
    save_tuned(module.trunk, out / "encoder", before, base=base)
    fields = {
        "base": base,
        "encoder": "encoder",
        "head": {**entry, "hidden": plan.hidden, "late": plan.evidence},
        "temperatures": list(temperatures),
        "trained": asdict(plan),
    }
    write_manifest(out, "model.json", kind="bilabel", fields=fields)
    return figures(logits / torch.tensor(temperatures), labels)


def fit_through(
    module: BiLabelModule,
    train: Lists,
    weighed: Lists,
    kept: Lists,
    folder: Path,
    plan: BilabelPlan,
    running: Running,
) -> set[str]:
    """Train from the run's last checkpoint, if any, to the last step; keep the best weights.

    Args:
        module: Module to train, changed in place.
        train: Questions to train on.
        weighed: Questions to learn w on.
        kept: Questions held out.
        folder: Folder of the run.
        plan: Training settings; without `evaluate_every` the last weights are kept.
        running: Logging and checkpoint settings.

    Returns:
        Names of the weights that were tuned before.
    """
    before = tune(module.trunk, plan.tune, plan.rank)
    if plan.tune == "head":
        with in_bfloat16(module, plan.bfloat16):
            for lists in filter(len, (train, weighed, kept)):
                lists.compute_once(module.eval())
    with torch.inference_mode():
        first = train.encoded(range(min(64, len(train))))
        _, features = module.inputs(first.pairs) if first.inputs is None else first.inputs
        module.head.standardize(features.clone())
    begin(
        folder,
        plan,
        map(labelled_json, [*train.rows, *weighed.rows]),
        map(labelled_json, kept.rows),
    )
    chosen = epochs(train.lengths, plan.batch or plan.questions, seed=plan.seed)
    settings = Settings(
        plan.steps_over(len(train)),
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

    def held_out() -> float:
        """Return the mean cross-entropy over the held-out labels that are known."""
        logits, labels = held_logits(module, kept, plan.bfloat16), kept.labels
        known = ~labels.isnan()
        return float(F.binary_cross_entropy_with_logits(logits[known], labels[known]))

    def held(step: int) -> Batch | None:
        drawn = draw_pairs(apart.labels, plan.imbalance.pairs, plan.seed * 1_000_003 + step)
        return apart.encoded(drawn.tolist()) if len(drawn) else None

    apart = weighed.apart()
    kind: Any = ModuleTrainer if module.weigher is None else partial(WeighingTrainer, held=held)
    fit_module(kind(module, lambda at: train.encoded(chosen(at)), settings, folder, held_out))
    return before


@torch.inference_mode()
def held_logits(module: BiLabelModule, given: Lists, bfloat16: bool) -> Tensor:
    """Return the logits of all pairs, on the CPU. Shape: (pairs, 2).

    Args:
        module: Module to run.
        given: Questions.
        bfloat16: Whether to run the encoder in bfloat16 where the device supports it.
    """
    module.eval()
    with in_bfloat16(module, bfloat16):
        found = [module.logits(batch).cpu() for batch in given.batches()]
    return torch.cat([torch.zeros(0, 2), *found])


def in_bfloat16(module: BiLabelModule, wanted: bool) -> torch.autocast:
    """Return a context that runs an encoder in bfloat16 if its device supports it.

    Args:
        module: Module whose device counts.
        wanted: Whether to use bfloat16 at all.
    """
    device = device_of(module)
    half = wanted and multiplies_bfloat16(device)
    return torch.autocast(device.type, torch.bfloat16, enabled=half)


def figures(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Compute the count, positive fraction, accuracy, calibration error and AUC of each label.

    Args:
        logits: Logits. Shape: (pairs, 2).
        labels: Labels, 0 or 1; NaN where unknown. Shape: (pairs, 2).

    Returns:
        Figures by name, such as "has_answer AUC"; none of a label without known values.
    """
    found: dict[str, float] = {}
    for i, name in enumerate(LABELS):
        known = ~labels[:, i].isnan()
        gold = labels[known, i].bool().tolist()
        found |= figures_of(name, logits[known, i].sigmoid().tolist(), gold) if gold else {}
    return found
