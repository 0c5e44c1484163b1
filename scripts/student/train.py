"""Train the student, from what ships, on the rows of `rows.py`.

    python scripts/student/train.py ROWS OUT [--minutes 60]

Its start is the scorer's encoder under the heads of scorer, evaluator and reader; the upper four
layers and the heads train. A step has `--ranks` lists and `--reads` readings. Losses: cross-entropy
of the labels that are known, the place of a list's best (ListMLE's first term), whether any of a
list holds the answer, where the answer is or that it is nowhere, and which sentences hold it.
`llm_prefer` is whether the student itself, as it reads at that step, marks the right answer: it
is the reader that ships. Started again with the same folder, a run goes on from its checkpoint.
`fit.py` says how much of the change is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from model import ANSWER_TOKENS, Student, batched, save, shipped_student  # noqa: E402

from fitrag_integrations.models.encoder.heads import best_spans
from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Passage  # noqa: E402

LOWEST = 2  # the layers below stay
MICRO = 16
WARM = 200  # steps
Item = dict[str, Any]


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2200)
    parser.add_argument("--rate", type=float, default=1.2e-4)
    parser.add_argument("--head-rate", type=float, default=1e-3)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--reads", type=int, default=12)
    parser.add_argument("--full", action="store_true", help="float32 instead of bfloat16")
    parser.add_argument("--minutes", type=float, default=None, help="end so early, rate and all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--save-seconds", type=float, default=180.0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    items = [json.loads(line) for line in (args.rows / "train.jsonl").open()]
    ranks = [item for item in items if item["kind"] == "rank"]
    reads = [item for item in items if item["kind"] != "rank"]
    model, tokenizer = shipped_student(attention="eager")  # faster than fused ones in bfloat16
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trains(name))
    model.to(args.device)
    if not args.full:
        model.encoder.forward = torch.autocast(args.device, torch.bfloat16)(model.encoder.forward)
    groups = [
        {
            "params": [
                p
                for n, p in model.named_parameters()
                if p.requires_grad and n.startswith("encoder") is inside
            ],
            "rate": rate,
        }
        for inside, rate in ((True, args.rate), (False, args.head_rate))
    ]
    optimizer = torch.optim.AdamW(groups, lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01)
    args.out.mkdir(parents=True, exist_ok=True)
    at, spent = resume(model, optimizer, args.out)
    saved = time.monotonic()
    mean: dict[str, float] = {}
    while (done := progress(at, spent, args)) < 1:
        began = time.monotonic()
        part = min((at + 1) / WARM, max(0.02, (1 - done) / 0.95))
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * part
        chance = random.Random(f"{args.seed} {at}")
        batch = [ranks[i % len(ranks)] for i in drawn(len(ranks), args.ranks, at, args.seed)]
        batch += [reads[i % len(reads)] for i in drawn(len(reads), args.reads, at, args.seed + 1)]
        chance.shuffle(batch)
        flat, encoded, logits, tokens = asked(model, tokenizer, batch, args.device)
        parts = losses(batch, flat, encoded, logits, tokens)
        torch.stack([*parts.values()]).sum().backward()
        torch.nn.utils.clip_grad_norm_([p for g in groups for p in g["params"]], 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        at, spent = at + 1, spent + time.monotonic() - began
        for name, value in parts.items():
            mean[name] = mean.get(name, float(value.detach())) * 0.96 + 0.04 * float(value.detach())
        if at % 20 == 0:
            shown = " ".join(f"{name} {value:.3f}" for name, value in mean.items())
            print(f"step {at} of {args.steps}, {spent:.0f} s: {shown}", flush=True)
        if time.monotonic() - saved > args.save_seconds or progress(at, spent, args) >= 1:
            checkpoint(model, optimizer, args.out, at, spent)
            told = json.loads(json.dumps(vars(args), default=str))
            save(model, args.out, {**told, "step": at, "seconds": round(spent)})
            saved = time.monotonic()


def progress(at: int, spent: float, args: argparse.Namespace) -> float:
    """Give how much of the run is behind, by steps or by time, whichever is more."""
    by_time = 0.0 if args.minutes is None else spent / (60 * args.minutes)
    return float(max(at / args.steps, by_time))


def trains(name: str) -> bool:
    """Say whether a parameter trains: heads, and layers from `LOWEST` on."""
    if not name.startswith("encoder."):
        return True
    parts = name.split(".")
    return "layer" in parts and int(parts[parts.index("layer") + 1]) >= LOWEST


def drawn(count: int, size: int, at: int, seed: int) -> list[int]:
    """Give the rows of a step: epoch by epoch, each in an order of its own."""
    places = range(at * size, (at + 1) * size)
    return [epoch(count, f"{seed} {p // count}")[p % count] if p >= count else p for p in places]


@cache
def epoch(count: int, seed: str) -> list[int]:
    """Give the order of an epoch; the first is the file's, which is shuffled."""
    made = list(range(count))
    random.Random(seed).shuffle(made)
    return made


def asked(
    model: Student, tokenizer: PairTokenizer, batch: list[Item], device: str
) -> tuple[list[Any], list[EncodedPair], Tensor, list[Tensor]]:
    """Run all pairs of some items, those of like length together."""
    flat = [(item, p) for item in batch for p in item["passages"]]
    encoded = tokenizer.encode_cut(
        [(i["question"], Passage("", p["text"], p["title"])) for i, p in flat]
    )
    order = sorted(range(len(flat)), key=lambda i: len(encoded[i]))
    labels: list[Any] = [None] * len(flat)
    tokens: list[Any] = [None] * len(flat)
    for lot in range(0, len(order), MICRO):
        some = order[lot : lot + MICRO]
        given = {k: v.to(device) for k, v in batched([encoded[i] for i in some]).items()}
        found, marks = model(**given)
        for row, i in enumerate(some):
            labels[i] = found[row].cpu()
            tokens[i] = marks[row, : len(encoded[i])].cpu()
    return flat, encoded, torch.stack(labels), tokens


def losses(
    batch: list[Item],
    flat: list[Any],
    encoded: list[EncodedPair],
    logits: Tensor,
    tokens: list[Tensor],
) -> dict[str, Tensor]:
    """Give the named losses of what the labels say."""
    spans = [place(p["spans"], pair) for (_, p), pair in zip(flat, encoded, strict=True)]
    gold = targets(flat, spans, tokens, encoded)
    known = ~gold.isnan()
    weights = torch.tensor([1.0, 1.0, 0.8, 0.8]) * known
    each = F.binary_cross_entropy_with_logits(logits, gold.nan_to_num(), reduction="none")
    parts = {"pair": (each * weights).sum() / weights.sum()}
    parts |= listwise(logits, gold, [len(item["passages"]) for item in batch])
    parts["span"] = 0.5 * located(tokens, spans, encoded)
    parts["keep"] = 0.25 * kept_sentences(flat, tokens, spans, encoded)
    return parts


def place(spans: Any, pair: EncodedPair) -> Any:
    """Bring characters to tokens; None where the answer's place is not known, or cut off."""
    if spans is None:
        return None
    found = []
    for first, last in spans:
        inside = [i for i, o in enumerate(pair.offsets) if o and o[0] < last and o[1] > first]
        if inside:
            found.append((inside[0], inside[-1]))
    return found if found or not spans else None


def targets(
    flat: list[Any], spans: list[Any], tokens: list[Tensor], encoded: list[EncodedPair]
) -> Tensor:
    """Give the four labels of each pair, NaN where unknown."""
    rows = []
    nan = float("nan")
    for (_, p), gold, marks, pair in zip(flat, spans, tokens, encoded, strict=True):
        has = nan if p["has"] is None else float(p["has"])
        right = nan if p["right"] is None else float(p["right"])
        prefer = 0.0 if has == 0 else nan
        if gold:
            allowed = torch.tensor([o is not None for o in pair.offsets]).unsqueeze(0)
            _, first, last = best_spans(marks.detach()[:, :2].unsqueeze(0), allowed)
            best = (int(first), int(last))
            prefer = float(
                any(
                    a >= best[0] - 1 and b <= best[1] + 1 and abs(best[1] - best[0] - b + a) <= 1
                    for a, b in gold
                )
            )
        grade = right if right == right else has
        rows.append([has, prefer, grade, right])
    return torch.tensor(rows)


def listwise(logits: Tensor, gold: Tensor, sizes: list[int]) -> dict[str, Tensor]:
    """Give the losses of whole lists: which is first, and whether any holds the answer."""
    first, some = [], []
    for scores, labels in zip(logits.split(sizes), gold.split(sizes), strict=True):
        if len(scores) < 3:
            continue
        for column, weight in ((0, 0.5), (1, 0.4), (2, 0.3)):
            own = labels[:, column].nan_to_num()
            if 0 < own.sum() < len(own):
                log = scores[:, column].log_softmax(0)
                first.append(-weight * (log + (1 - own) * -1e4).logsumexp(0))
        some.append(
            F.binary_cross_entropy_with_logits(scores[:, 2].max(), labels[:, 2].nan_to_num().max())
        )
    nothing = logits.sum() * 0
    return {
        "rank": torch.stack(first).sum() / max(1, len(some)) if first else nothing,
        "any": 0.2 * torch.stack(some).mean() if some else nothing,
    }


def located(tokens: list[Tensor], spans: list[Any], encoded: list[EncodedPair]) -> Tensor:
    """Fit where the answer begins and ends, beside 0 for nowhere."""
    parts = []
    for marks, gold, pair in zip(tokens, spans, encoded, strict=True):
        if gold is None:
            continue
        out = torch.tensor([0.0 if o is not None else -1e4 for o in pair.offsets]).unsqueeze(1)
        log = torch.cat([marks.new_zeros(1, 2), marks[:, :2] + out]).log_softmax(0)
        each = [
            log[a + 1, 0] + log[b + 1, 1] for a, b in gold or [(-1, -1)] if b - a < ANSWER_TOKENS
        ]
        if each:
            parts.append(-torch.stack(each).logsumexp(0) / 2)
    return torch.stack(parts).mean()


def kept_sentences(
    flat: list[Any], tokens: list[Tensor], spans: list[Any], encoded: list[EncodedPair]
) -> Tensor:
    """Fit which tokens stand in a sentence with an answer; a passage counts as one."""
    parts = []
    for (_, p), marks, gold, pair in zip(flat, tokens, spans, encoded, strict=True):
        if gold is None:
            continue
        inside = torch.tensor([o is not None for o in pair.offsets])
        want = torch.zeros(len(pair))
        if gold:
            cut = [
                s
                for s in split_sentences(p["text"])
                if any(s[0] < b and s[1] > a for a, b in p["spans"])
            ]
            want = torch.tensor(
                [float(bool(o) and any(a <= o[0] < b for a, b in cut)) for o in pair.offsets]
            )
        parts.append(F.binary_cross_entropy_with_logits(marks[inside, 2], want[inside]))
    return torch.stack(parts).mean()


def checkpoint(model: Student, optimizer: Any, out: Path, at: int, spent: float) -> None:
    """Save all that a run goes on from, under another name first."""
    from safetensors.torch import save_file

    tensors = {
        f"model.{n}": t.detach().cpu().contiguous()
        for n, t in model.named_parameters()
        if t.requires_grad
    }
    state = optimizer.state_dict()["state"]
    for i, values in state.items():
        tensors |= {f"state.{i}.{k}": v.detach().cpu().contiguous() for k, v in values.items()}
    save_file(tensors, out / "checkpoint.new", metadata={"at": str(at), "spent": str(spent)})
    (out / "checkpoint.new").replace(out / "checkpoint.safetensors")


def resume(model: Student, optimizer: Any, out: Path) -> tuple[int, float]:
    """Take up a checkpoint where there is one."""
    from safetensors import safe_open

    if not (out / "checkpoint.safetensors").exists():
        return 0, 0.0
    with safe_open(out / "checkpoint.safetensors", "pt") as file:
        told, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name.startswith("model."):
                own[name.removeprefix("model.")].copy_(tensor)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("state."):
            _, i, kind = name.split(".")
            state.setdefault(int(i), {})[kind] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return int(told["at"]), float(told["spent"])


if __name__ == "__main__":
    main()
