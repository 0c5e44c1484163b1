"""Train a bi-label scorer that also marks answers, from a retrieval evaluator.

The evaluator has learnt whether a passage holds the answer and where. Its head is given a second
output for `llm_prefer`, and a LoRA adapter goes on from its own. FIT-RAG (section 4.2) trains the
two outputs alone; the lists and the spans are ours.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from fitrag_integrations.errors import TrainingError
from fitrag_integrations.models.encoder.encoders import MANIFEST, factors, load_encoder
from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.encoder.pairs import EncodedPair
from fitrag_integrations.models.evidence.lexical import COUNT, Clues
from fitrag_integrations.models.runtime.folder import (
    read_manifest,
    read_tensors,
    write_manifest,
    write_tensors,
)
from fitrag_integrations.models.scorer.bilabel import write_head
from fitrag_integrations.models.scorer.items import FURTHEST
from fitrag_integrations.training.encoder import adapt
from fitrag_integrations.training.evaluator.module import (
    EvaluatorModule,
    gold_spans,
)
from fitrag_integrations.training.loop.loop import Loop, LoopSettings, epochs
from fitrag_integrations.training.loop.parallel import training_device
from fitrag_integrations.training.losses import list_loss, span_or_nowhere_loss
from fitrag_integrations.training.rows import Judged

SPAN_SCALE = 0.2  # brings a span's score, about -20 to 20, near the other features
RARER = 0.7  # how much lower llm_prefer begins than has_answer, in logits


@dataclass(frozen=True, slots=True)
class Preferred:
    """Hold a judged question and, per passage, whether the reader answers right from it."""

    judged: Judged
    prefers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SpanPlan:
    """Say how the scorer is trained.

    `kept` is the share of the learnt change that the saved encoder takes, in (0, 1]: between the
    weights before and after, ranking suffers less on questions unlike those of the training
    (Wortsman et al., 2022).
    """

    base: str
    rank: int = 32
    steps: int = 640
    questions: int = 16
    rate: float = 1e-3
    kept: float = 0.6
    seed: int = 13
    bfloat16: bool = True
    device: str | None = None


class SpanScorerModule(EvaluatorModule):
    """An evaluator's trunk under a head of two labels, and their losses over judged questions."""

    def forward(self, rows: Sequence[Preferred]) -> dict[str, Tensor]:  # type: ignore[override]
        """Give the losses of pairs, lists and spans."""
        judged = [row.judged for row in rows]
        encoded = self.encoded(judged)
        logits, spans = self.logits(encoded)
        gold = torch.tensor(
            [
                [float(has), float(prefer)]
                for row in rows
                for has, prefer in zip(row.judged.holds, row.prefers, strict=True)
            ],
            device=logits.device,
        )
        sizes = [len(row.prefers) for row in rows]
        return {
            "pair": F.binary_cross_entropy_with_logits(logits, gold),
            "rank": 0.5 * list_loss(logits, gold, sizes),
            "span": 0.2 * span_or_nowhere_loss(spans, [*gold_spans(judged, encoded)]),
        }

    def graded(self, pooled: Tensor, batch: Sequence[EncodedPair], best: Tensor) -> Tensor:
        """Run the head on a batch whose best spans score `best`. Shape: (batch, 2)."""
        found = best.clamp(max=FURTHEST).unsqueeze(-1)
        clues = self.clues.features(batch).to(pooled.device)
        logits: Tensor = self.head(pooled, torch.cat([clues, found], dim=1))
        return logits


def fit_span_scorer(rows: Sequence[Preferred], out: Path, plan: SpanPlan) -> None:
    """Train from the evaluator in the folder `plan.base`, and save a scorer to `out`.

    Started again with the same folder it goes on from its last checkpoint.
    """
    torch.manual_seed(plan.seed)
    module = _start(Path(plan.base))
    adapt(module.trunk, plan.rank)
    module.to(training_device(plan.device))
    lengths = [max(len(p.text) for p in row.judged.passages) for row in rows]
    chosen = epochs(lengths, plan.questions, seed=plan.seed)
    settings = LoopSettings(plan.steps, plan.rate, seed=plan.seed, bfloat16=plan.bfloat16)
    Loop(module, lambda step: [rows[i] for i in chosen(step)], settings, out / "run").run()
    save_span_scorer(module, out, plan)


def _start(folder: Path) -> SpanScorerModule:
    manifest = read_manifest(folder, "model.json", kind="evaluator", needs=("encoder", "head"))
    trunk, tokenizer = load_encoder(folder / manifest["encoder"], attention="eager")
    tensors = read_tensors(folder, manifest["head"])
    rarity = tensors.pop("rarity").float().tolist()
    head = BiLabelHead(
        trunk.width, features=COUNT + 1, units=len(tensors["head.hidden.bias"]), spans=True
    )
    _take(head, {name.removeprefix("head."): tensor for name, tensor in tensors.items()})
    return SpanScorerModule(trunk, head, tokenizer, clues=Clues.of(tokenizer, rarity))


@torch.no_grad()
def _take(head: BiLabelHead, given: dict[str, Tensor]) -> None:
    """Begin both labels as the evaluator's one."""
    assert head.span is not None and head.units is not None and head.mixed is not None
    for part, name in ((head.span, "span"), (head.units, "hidden")):
        part.load_state_dict({one: given[f"{name}.{one}"] for one in ("weight", "bias")})
    head.shift.copy_(F.pad(given["shift"], (0, 1)))
    head.scale.copy_(F.pad(given["scale"], (0, 1), value=SPAN_SCALE))
    head.mixed.weight.copy_(given["mixed.weight"].expand(2, -1))
    head.out.weight.copy_(given["out.weight"].expand(2, -1))
    head.out.bias.copy_(given["out.bias"] + given["mixed.bias"] - torch.tensor([0.0, RARER]))


def save_span_scorer(module: SpanScorerModule, out: Path, plan: SpanPlan) -> None:
    """Save the adapter with the one it began from, as one of both ranks together, and the head."""
    base = Path(plan.base)
    source = base / read_manifest(base, "model.json", kind="evaluator", needs=())["encoder"]
    given = read_manifest(source, MANIFEST, kind="encoder")
    folder = out / "encoder"
    folder.mkdir(parents=True, exist_ok=True)
    fields = {key: given[key] for key in ("base", "pooling", "max_length")}
    if given.get("tuned"):
        shutil.copyfile(source / given["tuned"]["file"], folder / "tuned.safetensors")
        fields["tuned"] = {**given["tuned"], "file": "tuned.safetensors"}
    own = {
        name: plan.kept * tensor if name.endswith(".B") else tensor
        for name, tensor in factors(module.trunk.encoder).items()
    }
    earlier = read_tensors(source, given["factors"]) if given.get("factors") else {}
    fields["factors"] = write_tensors(folder, "factors.safetensors", _joined(earlier, own))
    write_manifest(folder, MANIFEST, kind="encoder", fields=fields)
    head = module.head
    assert isinstance(head, BiLabelHead)
    units = head.units.out_features if head.units else 0
    entry: dict[str, object] = {"hidden": 0, "units": units, "spans": True, "clues": True}
    entry |= write_head(out, head, module.clues.rarity)
    named = {"base": given["base"], "encoder": "encoder", "head": entry, "trained": asdict(plan)}
    write_manifest(out, "model.json", kind="bilabel", fields=named)


def _joined(first: dict[str, Tensor], second: dict[str, Tensor]) -> dict[str, Tensor]:
    """Stack two adapters: the sum of both products is one product of the stacked factors."""
    both = {}
    for name in sorted(first.keys() | second.keys()):
        parts = [part[name] for part in (first, second) if name in part]
        both[name] = torch.cat(parts, dim=0 if name.endswith(".A") else 1)
    return both


@dataclass(frozen=True, slots=True)
class Calibration:
    """Bring logits to honest probabilities: `logit / temperature + shift`."""

    temperature: float
    shift: float


def calibrated(logits: Sequence[float], labels: Sequence[int]) -> Calibration:
    """Fit temperature and shift by cross-entropy on held-out pairs (Platt, 1999).

    Args:
        logits: Logits.
        labels: Labels, 0 or 1.

    Raises:
        TrainingError: If higher logits do not go with the label 1.
    """
    x = torch.tensor(logits, dtype=torch.float64)
    y = torch.tensor(labels, dtype=torch.float64)
    both = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([both], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.binary_cross_entropy_with_logits(x * both[0] + both[1], y)
        value.backward()
        return value

    optimizer.step(loss)
    slope, shift = both.tolist()
    if not (slope > 0 and math.isfinite(shift)):
        raise TrainingError(
            f"the held-out logits do not follow the labels (slope {slope:.3g}), so no temperature "
            "fits: train longer, or on more rows of both kinds"
        )
    return Calibration(1 / slope, shift)
