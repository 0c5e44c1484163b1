"""Train a causal model to write a few words, by LoRA: shared by IK and the necessity judge."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.checks import Checked
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.causal.language_model import CausalEngine
from fitrag_integrations.models.causal.loading import causal_source, load_causal
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.placing import sent
from fitrag_integrations.models.words import common_prefix
from fitrag_integrations.training.encoder import recompute
from fitrag_integrations.training.options import (
    Accumulate,
    Checkpointing,
    Device,
    Dropout,
    Rate,
    Seed,
    Validation,
)
from fitrag_integrations.training.trainer import (
    ModuleTrainer,
    Settings,
    epochs,
    fit_module,
    steps_over,
)

NO_TARGET = -100  # torch's mark of a place that no loss is taken of


@dataclass(frozen=True, slots=True)
class Example:
    """Ids of a prompt and the ids that should follow it."""

    ids: list[int]
    targets: list[int]


class CausalModule(nn.Module):
    """Causal model with its loss on the target words."""

    def __init__(self, engine: CausalEngine) -> None:
        super().__init__()
        self.model = engine.model
        self._engine = engine

    def forward(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        """Return cross-entropy over the vocabulary, averaged over target tokens, then examples."""
        keep = max(len(example.targets) for example in batch)
        rows = [[*example.ids, *example.targets[:-1]] for example in batch]
        logits = self._engine.passed(rows, keep=keep).logits
        padded = [[*[NO_TARGET] * (keep - len(e.targets)), *e.targets] for e in batch]
        targets = sent(torch.tensor(padded), logits.device)
        each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return {"word": (each.view_as(targets).sum(1) / (targets != NO_TARGET).sum(1)).mean()}


def own_engine(
    base: str, device: str | None = None, *, four_bit: bool = False, device_map: str | None = None
) -> CausalEngine:
    """Load a base model for training, as an engine that is not shared.

    Args:
        base: Hub name or folder.
        device: Device; a GPU if there is one by default.
        four_bit: Load the weights in 4 bits (QLoRA, Dettmers et al., 2023), to train an adapter on
            a GPU. On a CPU, bitsandbytes loses gradients after a pass without them.
        device_map: Device map of accelerate, such as "auto".

    Raises:
        MissingExtraError: If bitsandbytes or accelerate is missing and needed.
        InputError: For 4 bits on a CPU.
    """
    source, name, manifest = causal_source(base)
    options = Options(device)
    where, dtype, _ = options.resolved()
    placing: dict[str, Any] = {}
    if four_bit:
        refuse_if(where.type == "cpu", "four_bit", True, "a GPU, where gradients are kept")
        require_extra("bitsandbytes", extra="quantize", feature="a base in 4 bits")
        from transformers import BitsAndBytesConfig

        placing["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
    if device_map is not None:
        require_extra("accelerate", extra="train", feature="a device map")
        placing["device_map"] = device_map
    model, tokenizer = load_causal(source, dtype=dtype, **placing)
    return CausalEngine(model, tokenizer, options, name=name, manifest=manifest).retain()


def base_from(out: Path, base: str) -> str:
    """Return the name of a base for a manifest; a relative path for a neighboring folder.

    Args:
        out: Folder of the manifest.
        base: Hub name or folder of the base.
    """
    folder = Path(base).expanduser()
    if not folder.is_dir():
        return base
    folder, out = folder.resolve(), out.resolve()
    return os.path.relpath(folder, out) if folder.parent == out.parent else str(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalPlan(Checked):
    """Settings for training on top of a causal model."""

    batch: Annotated[int, Option("Rows per batch.", min=1)] = 16
    rank: Annotated[int, Option("Rank of the LoRA adapter.", min=1)] = 16
    alpha: Annotated[int, Option("Scale of the LoRA adapter (lora_alpha).", min=1)] = 32
    dropout: Dropout = 0.05
    validation: Validation = 0.1
    seed: Seed = 13
    device: Device = None
    accumulate: Accumulate = 1
    checkpointing: Checkpointing = False
    four_bit: Annotated[
        bool, Option("Load the base in 4 bits with bitsandbytes and train an adapter (QLoRA).")
    ] = False
    device_map: Annotated[
        str | None,
        Option("Device map of the base: auto, balanced or sequential.", default="one device"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterPlan(CausalPlan):
    """Settings for training an adapter; by default the paper's: one epoch at 1e-4 (IK, section
    3.2).
    """

    epochs: Annotated[float, Option("Passes over the rows.")] = 1.0
    rate: Rate = 1e-4


@dataclass(frozen=True, slots=True)
class Lesson:
    """Training data: `example(i, chance)` builds the example of row i, `held` is for validation.

    `lengths` are the lengths of the rows; rows of similar length share a batch.
    """

    example: Callable[[int, random.Random], Example]
    held: Sequence[Example]
    lengths: Sequence[int]

    @classmethod
    def of(cls, taught: Sequence[Example], held: Sequence[Example]) -> Lesson:
        """Build the training data from fixed examples.

        Args:
            taught: Examples to train on.
            held: Examples held out.
        """
        lengths = [len(example.ids) + len(example.targets) for example in taught]
        return cls(lambda i, _: taught[i], held, lengths)


def written(engine: CausalEngine, text: str, target: str, *, raw: bool) -> Example:
    """Encode a prompt and its target text, split where the prompt ends, with an end token.

    Args:
        engine: Base model.
        text: Prompt.
        target: Text to be written.
        raw: Whether the prompt bypasses the chat template.
    """
    prompt, whole = engine.encode([text, text + target], raw=raw)
    at = common_prefix(prompt, whole)
    return Example(whole[:at], [*whole[at:], *engine.eos_ids[:1]])


def fit_words(
    engine: CausalEngine, lesson: Lesson, folder: Path, plan: AdapterPlan, *, whole: bool = False
) -> str:
    """Train an adapter, or all weights; a stopped run in `folder` continues.

    Args:
        engine: Base model, changed in place.
        lesson: Examples to train on and to validate on.
        folder: Folder of the run.
        plan: Training settings; without 4 bits if all weights are trained.
        whole: Whether to train all weights.

    Returns:
        Name of the adapter in the engine; blank if all weights are trained.
    """
    refuse_if(whole and plan.four_bit, "four_bit", True, "False where all weights are trained")
    torch.manual_seed(plan.seed)
    name = ""
    if whole:
        engine.model.requires_grad_(True)
    else:
        config = causal_adapters.lora_config(
            engine.model, rank=plan.rank, alpha=plan.alpha, dropout=plan.dropout
        )
        name = engine.attach(config, {})
        causal_adapters.switch(engine.model, name)
    for parameter in engine.model.parameters():
        if parameter.requires_grad:  # small steps are lost in half precision
            parameter.data = parameter.data.float()
    module = CausalModule(engine)
    chosen = epochs(lesson.lengths, plan.batch, seed=plan.seed)

    def batch(step: int) -> list[Example]:
        chance = random.Random(f"{plan.seed}-{step}")
        return [lesson.example(i, chance) for i in chosen(step)]

    if plan.checkpointing:
        recompute(engine.model)
    steps = steps_over(len(lesson.lengths), plan.batch * plan.accumulate, plan.epochs)
    settings = Settings(
        steps,
        plan.rate,
        seed=plan.seed,
        bfloat16=False,
        evaluate_every=max(1, steps // 10),
        accumulate=plan.accumulate,
    )
    held_out = partial(mean_loss, module, lesson.held, plan.batch)
    fit_module(ModuleTrainer(module, batch, settings, folder, held_out))
    return name


def mean_loss(module: CausalModule, held: Sequence[Example], batch: int) -> float:
    """Return the loss over examples, in nats per token.

    Args:
        module: Model.
        held: Examples.
        batch: Examples per pass.
    """
    losses = (float(module(part)["word"]) * len(part) for part in chunks(held, batch))
    return sum(losses) / len(held)
