"""Compare ways of weighting pairs in bi-label learning (FIT-RAG 4.2.2) on held-out questions.

    python benchmarks/imbalance.py features LABELLED --base runs/reader --out features.safetensors
    python benchmarks/imbalance.py table features.safetensors [--seeds 3] [--folds 3]

LABELLED holds rows of `fitrag label bilabel`. Only the head is fitted, on vectors computed once;
questions with an unknown label are left out. Each seed splits the questions into folds; each fold
is measured by a head fitted on the others, of which 15 % fit the temperatures and, where w is
learnt, 15 % of the rest are held out for w. `none, fewer` leaves out the same questions.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import torch
from safetensors.torch import load_file, save_file
from sklearn.metrics import roc_auc_score
from torch import Tensor

from fitrag_integrations.evaluation.outcomes import calibration_error
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.evidence.evidence import Evidence, LateInteraction
from fitrag_integrations.training.bilabel.fit import (
    BilabelPlan,
    _frozen,
    as_run,
)
from fitrag_integrations.training.bilabel.module import (
    BiLabelModule,
    HeldPairs,
    Lists,
    fit_head,
)
from fitrag_integrations.training.calibration import fit_temperatures
from fitrag_integrations.training.encoder import rarity_of, start_encoder
from fitrag_integrations.training.losses.imbalance import Imbalance, Weigher, label_groups
from fitrag_integrations.training.rows import labelled_row, read_jsonl

WAYS = {
    "none": Imbalance(),
    "none, fewer": Imbalance(),
    "fixed, w 0.25": Imbalance("fixed", 0.25),
    "fixed, balanced": Imbalance("fixed"),
    "corrected": Imbalance("corrected"),
    "corrected, sgd": Imbalance("corrected", direction="sgd"),
    "literal": Imbalance("literal"),
    "literal, sgd": Imbalance("literal", direction="sgd"),
}
NAMES = ("AUC has", "AUC prefer", "AUC within", "ECE has", "ECE prefer", "MRR sum", "w")


@dataclass(frozen=True)
class Data:
    """Hold vectors, features and labels of all pairs, and how many pairs each question has."""

    pairs: HeldPairs
    sizes: list[int]

    def of(self, questions: list[int]) -> Data:
        """Give the pairs of some questions."""
        chosen = [[part.split(self.sizes)[i] for i in questions] for part in self._parts()]
        sizes = [self.sizes[i] for i in questions]
        return Data(HeldPairs(*(torch.cat(part) for part in chosen)), sizes)

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.pairs.pooled, self.pairs.features, self.pairs.labels


def main() -> None:
    """Write the vectors, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("features", "table"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--base", default="runs/reader")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--alpha", type=float, default=Imbalance().alpha)
    parser.add_argument("--only", default="", help="ways whose name holds this")
    args = parser.parse_args()
    {"features": features, "table": table}[args.what](args)


def features(args: argparse.Namespace) -> None:
    """Encode all pairs whose labels are known, as `fitrag train bilabel --tune head` does."""
    rows = [labelled_row(row) for row in read_jsonl(args.file)]
    known = [row for row in rows if None not in row.llm_prefer]
    plan = BilabelPlan(args.base, "head", 0, 0, 0.0, 0, True, 0.0, 0, True)
    trunk, tokenizer, base = start_encoder(plan.base)
    given = Lists(known, tokenizer)
    rarity = rarity_of(given.texts, tokenizer)
    untouched, _ = load_base(base, attention="eager")
    evidence = Evidence(rarity, LateInteraction(untouched, rarity, pad_id=tokenizer.pad_id))
    head = BiLabelHead(trunk.width, features=evidence.count)
    module = BiLabelModule(trunk, head, tokenizer, evidence=evidence)
    pairs = _frozen(as_run(module, plan).eval(), given)
    parts = {"pooled": pairs.pooled.float(), "features": pairs.features, "labels": pairs.labels}
    save_file(parts | {"sizes": torch.tensor(given.sizes)}, args.out)


def table(args: argparse.Namespace) -> None:
    """Fit and measure every way under every seed, and print mean and deviation over seeds."""
    parts = load_file(args.file)
    data = Data(
        HeldPairs(parts["pooled"], parts["features"], parts["labels"]), parts["sizes"].tolist()
    )
    matched, mismatched = (int(mask.sum()) for mask in label_groups(data.pairs.labels))
    print(f"{len(data.sizes)} questions, {matched} matched and {mismatched} mismatched pairs")
    print("way".ljust(16), *(name.rjust(14) for name in NAMES))
    for name, way in WAYS.items():
        if args.only in name:
            seeds = [_seed(data, args, name, way, seed) for seed in range(args.seeds)]
            print(
                name.ljust(16), *(_cell(column) for column in zip(*seeds, strict=True)), flush=True
            )


def _cell(values: tuple[float, ...]) -> str:
    spread = stdev(values) if len(values) > 1 else 0.0
    return f"{fmean(values):.4f} ±{spread:.4f}".rjust(14)


def _seed(
    data: Data, args: argparse.Namespace, name: str, way: Imbalance, seed: int
) -> tuple[float, ...]:
    """Measure all questions, each by a head that was not fitted on it. Values as in NAMES."""
    way = Imbalance(way.mode, way.weight, args.alpha, way.clip, way.pairs, way.direction)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(data.sizes), generator=generator).tolist()
    probabilities, labels, sizes, ends = [], [], [], []
    for fold in range(args.folds):
        tested = data.of(order[fold :: args.folds])
        rest = [q for at, q in enumerate(order) if at % args.folds != fold]
        scored, w = _fold(data, rest, tested, name, way, seed)
        probabilities.append(scored)
        labels.append(tested.pairs.labels)
        sizes += tested.sizes
        ends.append(w)
    return (*_figures(torch.cat(probabilities), torch.cat(labels), sizes), fmean(ends))


def _fold(
    data: Data, rest: list[int], tested: Data, name: str, way: Imbalance, seed: int
) -> tuple[Tensor, float]:
    cut = round(0.15 * len(rest))
    calibration, rest = data.of(rest[:cut]), rest[cut:]
    cut = round(0.15 * len(rest)) if way.learns or name == "none, fewer" else 0
    train, held = data.of(rest[cut:]), data.of(rest[:cut]) if way.learns else None
    torch.manual_seed(seed)
    head = BiLabelHead(train.pairs.pooled.shape[1], features=train.pairs.features.shape[1])
    weigher = None if way.mode == "none" else Weigher(way, train.pairs.labels)
    fit_head(
        head,
        train.pairs.pooled,
        train.pairs.features,
        train.pairs.labels,
        train.sizes,
        seed=seed,
        weigher=weigher,
        held=held and held.pairs,
    )
    found = fit_temperatures(_logits(head, calibration), calibration.pairs.labels)
    scored = (_logits(head, tested) / torch.tensor(found)).sigmoid()
    return scored, 0.5 if weigher is None else weigher.w.item()


@torch.no_grad()
def _logits(head: BiLabelHead, data: Data) -> Tensor:
    logits: Tensor = head(data.pairs.pooled, data.pairs.features)
    return logits


def _figures(scored: Tensor, labels: Tensor, sizes: list[int]) -> list[float]:
    columns = list(zip(scored.T.tolist(), labels.T.int().tolist(), strict=True))
    aucs = [float(roc_auc_score(gold, scores)) for scores, gold in columns]
    held = labels[:, 0] == 1  # among the passages that hold the answer, which ones help?
    within = float(roc_auc_score(labels[held, 1].tolist(), scored[held, 1].tolist()))
    errors = [calibration_error(scores, gold) for scores, gold in columns]
    lists = zip(scored.sum(1).split(sizes), labels[:, 1].split(sizes), strict=True)
    ranks = [
        gold[order.argsort(descending=True)].argmax().item() for order, gold in lists if gold.any()
    ]
    return [*aucs, within, *errors, fmean(1 / (1 + rank) for rank in ranks)]


if __name__ == "__main__":
    main()
