"""Put data, module and loop together, and save what comes out as a model folder."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fitrag_integrations._extras import require_extra
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.calibration import calibration_error
from fitrag_integrations.models.bilabel import write_head
from fitrag_integrations.models.encoders import (
    MAX_LENGTH,
    fold_adapter,
    load_base,
    load_encoder,
    save_encoder,
    tuned_names,
)
from fitrag_integrations.models.evidence import Evidence
from fitrag_integrations.models.folder import read_manifest, write_manifest, write_tensors
from fitrag_integrations.models.heads import BiLabelHead, ReaderHead
from fitrag_integrations.models.late import LateInteraction
from fitrag_integrations.models.lexical import inverse_document_frequency
from fitrag_integrations.models.pairs import PairTokenizer
from fitrag_integrations.models.trunk import Trunk
from fitrag_integrations.training.bilabel import (
    BiLabelModule,
    HeldPairs,
    fit_head,
    fit_temperatures,
    targets,
)
from fitrag_integrations.training.imbalance import Imbalance, Weigher
from fitrag_integrations.training.loop import Loop, LoopSettings, epochs
from fitrag_integrations.training.reader import Group, ReaderModule, crop, group
from fitrag_integrations.training.rows import Labelled, ReadingRow, write_jsonl
from fitrag_integrations.training.weighing import WeighingLoop, held_batches


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """Say how a reader is trained; see `fitrag train reader --help`."""

    base: str
    steps: int
    questions: int
    negatives: int
    words: int
    rate: float
    seed: int
    bfloat16: bool


@dataclass(frozen=True, slots=True)
class BilabelPlan:
    """Say how a scorer is trained; see `fitrag train bilabel --help`."""

    base: str
    tune: str
    steps: int
    questions: int
    rate: float
    hidden: int
    evidence: bool
    validation: float
    seed: int
    bfloat16: bool
    imbalance: Imbalance = field(default_factory=Imbalance)


def fit_reader(rows: Sequence[ReadingRow], out: Path, plan: ReaderPlan) -> None:
    """Train all layers but the embeddings, and save reader and encoder to `out`."""
    if not rows:
        raise InputError.of("rows", given=rows, allowed="at least one reading row")
    torch.manual_seed(plan.seed)
    trunk, tokenizer = load_base(plan.base, attention="eager")  # the fastest backward on a CPU
    _tune_layers(trunk)
    head = ReaderHead(trunk.width)
    module = ReaderModule(trunk, head, PairTokenizer(tokenizer, max_length=MAX_LENGTH))
    lengths = [min(plan.words, len(row.passage.text.split())) for row in rows]
    chosen = epochs(lengths, plan.questions, seed=plan.seed)

    def batch(step: int) -> list[Group]:
        chance = random.Random(f"{plan.seed}-{step}")
        cropped = (crop(rows[i], plan.words, chance) for i in chosen(step))
        return [group(row, plan.negatives, chance) for row in cropped]

    settings = LoopSettings(plan.steps, plan.rate, seed=plan.seed, bfloat16=plan.bfloat16)
    Loop(module, batch, settings, out / "run").run()
    save_encoder(trunk, out / "encoder", base=plan.base)
    entry = write_tensors(out, "head.safetensors", head.state_dict())
    fields = {"base": plan.base, "encoder": "encoder", "head": entry, "trained": asdict(plan)}
    write_manifest(out, "model.json", kind="reader", fields=fields)


def fit_bilabel(rows: Sequence[Labelled], out: Path, plan: BilabelPlan) -> dict[str, float]:
    """Train a scorer, calibrate it on the rows held out, save it, and give their figures."""
    torch.manual_seed(plan.seed)
    train, held = _split(rows, plan)
    train, weighed = _split(train, plan) if plan.imbalance.learns else (train, [])
    trunk, tokenizer, base = _start(plan)
    evidence = _evidence(train, tokenizer, base, plan)
    head = BiLabelHead(trunk.width, features=evidence.count, hidden=plan.hidden)
    weigher = None if plan.imbalance.mode == "none" else Weigher(plan.imbalance, targets(train))
    module = BiLabelModule(trunk, head, tokenizer, evidence=evidence, weigher=weigher)
    if plan.tune == "head":
        _fit_on_frozen(_rounded(module, plan), train, weighed, out, plan)
    else:
        _fit_through(module, train, weighed, out, plan)
    logits, labels = _logits(_rounded(module, plan), held), targets(held)
    temperatures = fit_temperatures(logits, labels)
    _save_scorer(module, out, plan, base=base, temperatures=temperatures)
    return _figures(logits / torch.tensor(temperatures), labels)


def _start(plan: BilabelPlan) -> tuple[Trunk, PairTokenizer, str]:
    """Load the encoder to start from: a model folder's, tuned, or a base by name."""
    folder = Path(plan.base)
    if (folder / "model.json").is_file():
        manifest = read_manifest(folder, "model.json", kind="reader")
        trunk, tokenizer = load_encoder(folder / manifest["encoder"], attention="eager")
        return trunk, tokenizer, manifest["base"]
    trunk, plain = load_base(plan.base, attention="eager")
    return trunk, PairTokenizer(plain, max_length=MAX_LENGTH), plan.base


def _rounded(module: BiLabelModule, plan: BilabelPlan) -> BiLabelModule:
    """Copy the encoders in bfloat16 where the plan says so; the head stays the module's own."""
    if not plan.bfloat16:
        return module
    trunk = copy.deepcopy(module.trunk).bfloat16()
    interaction = module.evidence.interaction
    if interaction is not None:
        interaction = copy.deepcopy(interaction)
        interaction.trunk.bfloat16()
    evidence = replace(module.evidence, interaction=interaction)
    return BiLabelModule(
        trunk, module.head, module.tokenizer, evidence=evidence, weigher=module.weigher
    )


def _fit_on_frozen(
    module: BiLabelModule,
    rows: Sequence[Labelled],
    weighed: Sequence[Labelled],
    out: Path,
    plan: BilabelPlan,
) -> None:
    fitted, sizes = _frozen(module, rows)
    held = _frozen(module, weighed)[0] if weighed else None
    seen = fit_head(
        module.head,
        fitted.pooled,
        fitted.features,
        fitted.labels,
        sizes,
        rate=plan.rate,
        seed=plan.seed,
        weigher=module.weigher,
        held=held,
    )
    if module.weigher is not None:
        steps = ({"step": step, **losses} for step, losses in enumerate(seen, start=1))
        (out / "run").mkdir(parents=True, exist_ok=True)
        write_jsonl(out / "run" / "log.jsonl", steps)


def _frozen(module: BiLabelModule, rows: Sequence[Labelled]) -> tuple[HeldPairs, list[int]]:
    with torch.inference_mode():
        parts = [module.inputs(rows[i : i + 8]) for i in range(0, len(rows), 8)]
    sizes = [size for part in parts for size in part[2]]
    pooled = torch.cat([part[0] for part in parts]).clone()
    features = torch.cat([part[1] for part in parts]).clone()
    return HeldPairs(pooled, features, targets(rows)), sizes


def _fit_through(
    module: BiLabelModule,
    rows: Sequence[Labelled],
    weighed: Sequence[Labelled],
    out: Path,
    plan: BilabelPlan,
) -> None:
    tuned = tuned_names(module.trunk.encoder)
    if plan.tune == "lora":
        module.trunk.encoder = _with_lora(module.trunk.encoder)
    else:
        _tune_layers(module.trunk)
    with torch.inference_mode():
        module.head.standardize(module.features(rows[:64]).clone())
    _loop(module, rows, weighed, out, plan).run()
    if plan.tune == "lora" and tuned:  # a reader's own layers are saved with what is added
        module.trunk.encoder = fold_adapter(module.trunk.encoder, tuned)


def _loop(
    module: BiLabelModule,
    rows: Sequence[Labelled],
    weighed: Sequence[Labelled],
    out: Path,
    plan: BilabelPlan,
) -> Loop[list[Labelled]]:
    lengths = [max(len(passage.text) for passage in row.passages) for row in rows]
    chosen = epochs(lengths, plan.questions, seed=plan.seed)
    settings = LoopSettings(plan.steps, plan.rate, seed=plan.seed, bfloat16=plan.bfloat16)

    def batch(step: int) -> list[Labelled]:
        return [rows[i] for i in chosen(step)]

    if module.weigher is None:
        return Loop(module, batch, settings, out / "run")
    held = held_batches(weighed, plan.imbalance.pairs, seed=plan.seed)
    return WeighingLoop(module, batch, settings, out / "run", weigher=module.weigher, held=held)


def _with_lora(encoder: Any) -> Any:
    """Add adapters with the paper's numbers: rank 16, alpha 32, dropout 0.05 (FIT-RAG 5.1)."""
    from peft import LoraConfig, get_peft_model

    targets = ["q", "v"] if encoder.config.model_type in ("t5", "mt5", "umt5") else "all-linear"
    config = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=targets)
    return get_peft_model(encoder, config)


def _tune_layers(trunk: Trunk) -> None:
    """Train everything but the embeddings, without dropout: it costs a fifth of the time."""
    trunk.requires_grad_(True)
    embeddings: nn.Module = trunk.encoder.get_input_embeddings()  # type: ignore[operator]
    frozen = getattr(trunk.encoder, "embeddings", embeddings)
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    for module in trunk.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


def _split(rows: Sequence[Labelled], plan: BilabelPlan) -> tuple[list[Labelled], list[Labelled]]:
    """Hold out a share of the questions; equal questions stay on one side."""
    questions = sorted({row.question for row in rows})
    random.Random(plan.seed).shuffle(questions)
    held = set(questions[: round(plan.validation * len(questions))])
    train = [row for row in rows if row.question not in held]
    if not train or not held:
        raise InputError.of("rows", given=len(rows), allowed="enough questions to hold some out")
    return train, [row for row in rows if row.question in held]


def _evidence(
    rows: Sequence[Labelled], tokenizer: PairTokenizer, base: str, plan: BilabelPlan
) -> Evidence:
    """Count how rare tokens are in the passages at hand, and load the base for late interaction."""
    if not plan.evidence:
        return Evidence()
    texts = {f"{p.title} {p.text}" for row in rows for p in row.passages}
    sets = tokenizer.vocabularies(sorted(texts))
    rarity = inverse_document_frequency(sets, tokenizer.vocabulary)
    untouched, _ = load_base(base, attention="eager")
    return Evidence(rarity, LateInteraction(untouched, rarity, pad_id=tokenizer.pad_id))


@torch.inference_mode()
def _logits(module: BiLabelModule, rows: Sequence[Labelled]) -> torch.Tensor:
    module.eval()
    parts = (module.inputs(rows[i : i + 8]) for i in range(0, len(rows), 8))
    return torch.cat([module.head(pooled, extra) for pooled, extra, _ in parts])


def _figures(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    roc = require_extra("sklearn.metrics", extra="train", feature="the AUC of a fitted scorer")
    figures = {}
    for i, name in enumerate(("has_answer", "llm_prefer")):
        known = ~labels[:, i].isnan()
        scores, gold = logits[known, i].sigmoid().tolist(), labels[known, i].int().tolist()
        if 0 < sum(gold) < len(gold):  # labels of one kind have none
            figures[f"{name} AUC"] = round(float(roc.roc_auc_score(gold, scores)), 4)
        figures[f"{name} ECE"] = round(calibration_error(scores, gold), 4)
    return figures


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
