"""Fit a one-pass scorer on questions with passages, and save it beside its scorer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor, nn

from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.runtime.folder import read_manifest, read_tensors
from fitrag_integrations.models.scorer.bilabel import BiLabelScorer
from fitrag_integrations.models.scorer.one_pass import save_onepass
from fitrag_integrations.models.scorer.span_head import SpanHead
from fitrag_integrations.training.calibration import fit_temperatures
from fitrag_integrations.training.loop.loop import Loop, LoopSettings, epochs
from fitrag_integrations.training.one_pass.figures import figures
from fitrag_integrations.training.one_pass.head import OnePassModule
from fitrag_integrations.training.one_pass.rows import Asked, Spans, read_rows
from fitrag_integrations.training.options import Rate, Seed, Steps, Validation
from fitrag_integrations.training.splitting import split


@dataclass(frozen=True, slots=True)
class OnePassPlan:
    """Settings for training a one-pass scorer; see `fitrag train onepass --help`."""

    scorer: Annotated[Path, Option("Folder of the bi-label scorer it stands on.")]
    reader: Annotated[
        Path | None,
        Option("Folder of a reader over the same encoder, for a scorer without spans."),
    ] = None
    steps: Steps = 600
    questions: Annotated[int, Option("Questions a step.", min=1)] = 8
    rate: Rate = 3e-3
    hidden: Annotated[int, Option("Units of the head's hidden layer.", min=1)] = 32
    window: Annotated[int, Option("Sentences in a window.", min=1)] = 3
    validation: Validation = 0.2
    seed: Seed = 13
    dtype: Annotated[str | None, Option("What the scorer reads in: float32 or bfloat16.")] = None
    device: Annotated[str | None, Option("What the scorer reads on.", default="cpu")] = None


def fit_onepass(rows: Sequence[Asked], out: Path, plan: OnePassPlan) -> dict[str, float]:
    """Train a head over a scorer's folder and save it to `out`; gives figures on held-out rows.

    What was read is kept in `out/run`, so a second run with other numbers only fits.
    """
    train, held = split(rows, plan.validation, plan.seed)
    torch.manual_seed(plan.seed)
    scorer = BiLabelScorer.from_pretrained(
        plan.scorer, device=plan.device or "cpu", dtype=plan.dtype
    )
    head = SpanHead(scorer._engine.trunk.width, hidden=plan.hidden)
    _take_answers(head, scorer, plan.reader)
    known, unknown = (
        read_rows(some, scorer, head.answers, out / "run", window=plan.window, seed=plan.seed)
        for some in (train, held)
    )
    _standardize(head, known)
    module = OnePassModule(head)
    chosen = epochs([len(each.gold) for each in known], plan.questions, seed=plan.seed)
    settings = LoopSettings(plan.steps, plan.rate, seed=plan.seed, bfloat16=False)
    run = out / "run" / f"fit-{_digest(train, scorer, plan)}"
    Loop(module, lambda step: [known[i] for i in chosen(step)], settings, run).run()
    logits = _logits(module, unknown)
    wanted = torch.cat([each.targets for each in unknown])
    temperatures = fit_temperatures(torch.cat(logits), wanted)
    fields = {"temperatures": list(temperatures), "trained": _plain(plan)}
    save_onepass(out, head, Path(plan.scorer), fields)
    return figures([each / torch.tensor(temperatures) for each in logits], unknown)


def _take_answers(head: SpanHead, scorer: BiLabelScorer, reader: Path | None) -> None:
    """Copy the two token scores from the scorer if it has them, else from a reader."""
    with torch.no_grad():
        if scorer._head.span is not None:
            head.answers.load_state_dict(scorer._head.span.state_dict())
        elif reader is None:
            allowed = "a reader's folder: this scorer has no token scores of its own"
            raise InputError.of("--reader", given=reader, allowed=allowed)
        else:
            manifest = read_manifest(reader, "model.json", kind="reader", needs=("head",))
            tensors = read_tensors(reader, manifest["head"])
            head.answers.weight.copy_(tensors["span.weight"])
            head.answers.bias.copy_(tensors["span.bias"])
    head.answers.requires_grad_(False)  # the numbers were measured with it


def _standardize(head: SpanHead, rows: Sequence[Spans]) -> None:
    numbers = torch.cat([each.numbers for each in rows])
    head.standardize(numbers, torch.cat([each.wholes for each in rows]))
    for line in (head.means, head.pooled, head.mixed):  # it begins as the whole passage's labels
        nn.init.zeros_(line.weight)


@torch.inference_mode()
def _logits(module: OnePassModule, rows: Sequence[Spans]) -> list[Tensor]:
    module.eval()
    return [module.logits(each) for each in rows]


def _digest(rows: Sequence[Asked], scorer: BiLabelScorer, plan: OnePassPlan) -> str:
    """Return a hash of all that a fit depends on, so that only the same fit resumes a
    checkpoint.
    """
    given = [[row.question for row in rows], scorer.manifest["head"]["sha256"], _plain(plan)]
    return hashlib.sha256(json.dumps(given).encode()).hexdigest()[:16]


def _plain(plan: OnePassPlan) -> dict[str, object]:
    """Return the plan as JSON holds it, without where it ran."""
    fields = {name: str(v) if isinstance(v, Path) else v for name, v in asdict(plan).items()}
    del fields["device"]
    return fields
