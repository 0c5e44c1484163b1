"""Fit an evaluator on judged rows, and save it as a model folder."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import torch

from fitrag_integrations.core.checks import Checked
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.encoder.heads import write_head
from fitrag_integrations.models.encoder.lexical import Clues
from fitrag_integrations.models.evaluator.head import EvaluatorHead
from fitrag_integrations.models.evaluator.sequence_classifier import InputFormat
from fitrag_integrations.models.runtime.folder import read_manifest, read_tensors, write_manifest
from fitrag_integrations.models.runtime.sources import MINILM
from fitrag_integrations.training.calibration import figures_of
from fitrag_integrations.training.encoder import (
    rarity_of,
    recompute,
    save_tuned,
    start_encoder,
    tune,
)
from fitrag_integrations.training.evaluator.module import (
    EvaluatorModule,
    RegressionModule,
    labelled_pairs,
    start_regression,
)
from fitrag_integrations.training.options import (
    Accumulate,
    Bfloat16,
    Checkpointing,
    EncoderBase,
    Epochs,
    EvaluateEvery,
    Rate,
    Seed,
    Steps,
    Validation,
)
from fitrag_integrations.training.rows import Judged, judged_json, split
from fitrag_integrations.training.trainer import (
    ModuleTrainer,
    Running,
    Settings,
    begin,
    epochs,
    first_process,
    fit_module,
    only_run,
    steps_over,
    training_device,
)

HIDDEN = 16


@dataclass(frozen=True, slots=True)
class EvaluatorPlan(Checked):
    """Settings for training an evaluator.

    The paper's (CRAG, appendix B.3): `loss` "regression", `tune` "full", a rate of 1e-4, batches of
    12 pairs, 8 epochs. The defaults are those of the bundled evaluator. `epochs` counts instead of
    `steps`, of questions or, for the regression, of pairs.
    """

    base: EncoderBase = MINILM
    name: Annotated[str, Option("Name, stored with thresholds.", default="the folder's")] = ""
    rank: Annotated[int, Option("Rank of the LoRA adapter, 0 for none.", min=0)] = 16
    steps: Steps = 1000
    questions: Annotated[int, Option("Questions per batch; not for the regression.", min=1)] = 16
    rate: Rate = 7e-4
    seed: Seed = 13
    bfloat16: Bfloat16 = True
    loss: Annotated[
        str,
        Option(
            "Loss: lists (pairs, lists, spans) or regression (the paper's, to +1 and -1).",
            among=("lists", "regression"),
        ),
    ] = "lists"
    tune: Annotated[
        str,
        Option(
            "What trains: upper (adapters on the upper layers), lora, full or head.",
            among=("upper", "lora", "full", "head"),
        ),
    ] = "upper"
    epochs: Epochs = None
    batch: Annotated[int, Option("Pairs per batch of the regression.", min=1)] = 12
    accumulate: Accumulate = 1
    checkpointing: Checkpointing = False
    validation: Validation = 0.0
    evaluate_every: EvaluateEvery = 0
    input_format: Annotated[
        str,
        Option(
            "Input of the regression: plain (the text) or titled (title // text).",
            among=get_args(InputFormat),
        ),
    ] = "plain"

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        refuse_if(
            self.loss == "regression" and self.tune == "upper",
            "tune",
            self.tune,
            "full (the paper's), lora or head with the regression",
        )
        refuse_if(
            self.evaluate_every and not self.validation,
            "evaluate_every",
            self.evaluate_every,
            "0, or a share of questions to hold out",
        )

    def steps_over(self, count: int) -> int:
        """Return the number of steps over `count` questions or, for the regression, pairs."""
        size = (self.batch if self.loss == "regression" else self.questions) * self.accumulate
        return self.steps if self.epochs is None else steps_over(count, size, self.epochs)


@only_run
def fit_evaluator(
    rows: Sequence[Judged],
    out: Path,
    plan: EvaluatorPlan,
    running: Running = Running(),  # noqa: B008 (it is frozen)
) -> dict[str, float]:
    """Train an evaluator and save it; a stopped run continues from its last checkpoint.

    Args:
        rows: Judged questions, from `judged_row`.
        out: Folder to write.
        plan: Training settings. `base` is a hub name or a folder of an encoder. Except for the
            regression, it may also be the folder of a reader, whose span scores initialize the
            head.
        running: Device, logging and checkpoint settings.

    Returns:
        Figures on the held-out questions, if there are any. Only the first process saves and
        returns them; the result of the others is empty.

    Raises:
        InputError: If the run in `out` was started with another plan or other rows.
    """
    refuse_if(not rows, "rows", rows, "at least one judged row")
    train, held = split(rows, plan.validation, plan.seed) if plan.validation else (list(rows), [])
    device = training_device(running.device)
    torch.manual_seed(plan.seed)
    begin(out / "run", plan, map(judged_json, train), map(judged_json, held))
    module: EvaluatorModule | RegressionModule
    given: Sequence[Any]
    kept: Sequence[Any]
    if plan.loss == "regression":
        input_format = cast(InputFormat, plan.input_format)
        module = start_regression(
            plan.base, tune=plan.tune, rank=plan.rank, input_format=input_format
        )
        encoder, base, size = module.model, plan.base, plan.batch
        given, kept = labelled_pairs(train), labelled_pairs(held)
        lengths = [len(passage.text) for _, passage, _ in given]
    else:
        module, base, before = _start(train, plan)
        encoder, size = module.trunk.encoder, plan.questions
        given, kept = train, held
        lengths = [max(len(passage.text) for passage in row.passages) for row in train]
    if plan.checkpointing:
        recompute(encoder)
    module.to(device)
    chosen = epochs(lengths, size, seed=plan.seed)
    settings = Settings(
        plan.steps_over(len(given)),
        plan.rate,
        seed=plan.seed,
        bfloat16=plan.bfloat16,
        save_seconds=running.save_seconds,
        evaluate_every=plan.evaluate_every,
        log_every=running.log_every,
        accumulate=plan.accumulate,
    )

    def held_out() -> float:
        losses = (float(sum(module(part).values())) * len(part) for part in chunks(kept, size))
        return sum(losses) / len(kept)

    fit_module(
        ModuleTrainer(
            module,
            lambda number: [given[i] for i in chosen(number)],
            settings,
            out / "run",
            held_out,
        )
    )
    if not first_process():
        return {}
    figures = _figures(cast(Any, module).grades(kept), held) if held else {}
    trained = asdict(plan)
    if isinstance(module, RegressionModule):
        module.save(out, {"name": plan.name, "trained": trained})
        return figures
    save_tuned(
        module.trunk,
        out / "encoder",
        before,
        base=base,
        max_length=module.tokenizer.max_length,
    )
    fields = {
        "base": base,
        "name": plan.name,
        "encoder": "encoder",
        "head": {**write_head(out, module.head, module.clues.rarity), "hidden": HIDDEN},
        "trained": trained,
    }
    write_manifest(out, "model.json", kind="evaluator", fields=fields)
    return figures


def _figures(grades: Sequence[float], held: Sequence[Judged]) -> dict[str, float]:
    """Judge the pairs, and the best of each question: is there a right passage at all?"""
    rest = iter(grades)
    best = [max(next(rest) for _ in row.passages) for row in held]
    pairs = [bool(holds) for row in held for holds in row.holds]
    return {
        **figures_of("pairs", [(grade + 1) / 2 for grade in grades], pairs),
        **figures_of("questions", [(one + 1) / 2 for one in best], [any(r.holds) for r in held]),
    }


def _start(rows: Sequence[Judged], plan: EvaluatorPlan) -> tuple[EvaluatorModule, str, set[str]]:
    """Return the module, the name of its base, and the weights that were tuned before."""
    trunk, tokenizer, base = start_encoder(plan.base)
    texts = {f"{p.title} {p.text}" for row in rows for p in row.passages}
    clues = Clues.of(tokenizer, rarity_of(texts, tokenizer))
    head, folder = EvaluatorHead(trunk.width, hidden=HIDDEN), Path(plan.base)
    if (folder / "model.json").is_file():
        entry = read_manifest(folder, "model.json", kind="reader", needs=("head",))["head"]
        tensors = read_tensors(folder, entry)
        head.span.load_state_dict({name: tensors[f"span.{name}"] for name in ("weight", "bias")})
    before = tune(trunk, plan.tune, plan.rank)
    module = EvaluatorModule(trunk, head, tokenizer, clues=clues)
    chance = random.Random(plan.seed)
    head.standardize(clues.features(module.encoded(chance.sample(rows, min(300, len(rows))))))
    return module, base, before
