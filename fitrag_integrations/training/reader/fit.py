"""Train the extractive reader, and save it as a model folder."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch

from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.encoder.encoders import MAX_LENGTH, load_base, save_encoder
from fitrag_integrations.models.encoder.heads import ReaderHead
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.runtime.folder import write_manifest, write_tensors
from fitrag_integrations.models.runtime.sources import MINILM
from fitrag_integrations.training.loop.batches import epochs
from fitrag_integrations.training.loop.device import training_device
from fitrag_integrations.training.loop.loop import Loop
from fitrag_integrations.training.loop.running import Running
from fitrag_integrations.training.loop.tuning import tune_layers
from fitrag_integrations.training.options import Bfloat16, EncoderBase, Rate, Seed, Steps
from fitrag_integrations.training.reader.module import Group, ReaderModule, crop, group
from fitrag_integrations.training.rows import ReadingRow


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """Settings for training a reader."""

    base: EncoderBase = MINILM
    steps: Steps = 2000
    questions: Annotated[int, Option("Questions a step.")] = 16
    negatives: Annotated[int, Option("Negative passages a question.")] = 2
    words: Annotated[int, Option("Longest passage; longer ones are cropped.")] = 130
    rate: Rate = 2e-4
    seed: Seed = 13
    bfloat16: Bfloat16 = True


def fit_reader(
    rows: Sequence[ReadingRow],
    out: Path,
    plan: ReaderPlan,
    running: Running = Running(),  # noqa: B008 (it is frozen)
) -> None:
    """Train all layers but the embeddings, and save reader and encoder to `out`."""
    if not rows:
        raise InputError.of("rows", given=rows, allowed="at least one reading row")
    torch.manual_seed(plan.seed)
    trunk, tokenizer = load_base(plan.base, attention="eager")  # the fastest backward on a CPU
    tune_layers(trunk)
    head = ReaderHead(trunk.width)
    module = ReaderModule(trunk, head, PairTokenizer(tokenizer, max_length=MAX_LENGTH))
    module.to(training_device(running.device))
    lengths = [min(plan.words, len(row.passage.text.split())) for row in rows]
    chosen = epochs(lengths, plan.questions, seed=plan.seed)

    def batch(step: int) -> list[Group]:
        chance = random.Random(f"{plan.seed}-{step}")
        cropped = (crop(rows[i], plan.words, chance) for i in chosen(step))
        return [group(row, plan.negatives, chance) for row in cropped]

    settings = running.settings(plan, plan.steps)
    Loop(module, batch, settings, out / "run").run()
    save_encoder(trunk, out / "encoder", base=plan.base)
    entry = write_tensors(out, "head.safetensors", head.state_dict())
    fields = {"base": plan.base, "encoder": "encoder", "head": entry, "trained": asdict(plan)}
    write_manifest(out, "model.json", kind="reader", fields=fields)
