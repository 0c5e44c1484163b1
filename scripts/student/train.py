"""Train the student, from what ships, on the rows of `rows.py`.

    python scripts/student/train.py ROWS OUT [--minutes 60]

Its start is the scorer's encoder under the heads of scorer, evaluator and reader; the upper four
layers and the heads train. A step has `--ranks` lists and `--reads` readings, and with `--docs`
`--lists` lists of documentation. Losses: cross-entropy of the labels that are known, the place of
a list's best (ListMLE's first term), whether any of a list holds the answer, where the answer is
or that it is nowhere, and which sentences hold it. In lists of `rows.py` `has_answer` is mixed
with a teacher's, `llm_prefer` is the teacher's alone, and the order is brought to the teacher's
(Hinton et al., 2015): the scorer that ships. Lists of documentation have no teacher. Where an
answer stands is learned from readings alone: in a list it is every place of the string. Started
again with the same folder, a run goes on from its checkpoint; minutes are the processor's.
`fit.py` says how much of the change is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from model import (
    ANSWER_TOKENS,
    ATTENTION,
    Student,
    batched,
    halved,
    kept,
    rounded,
    save,
    shipped_student,
)  # noqa: E402
from synonyms import Synonyms  # noqa: E402
from twists import stuffed  # noqa: E402

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.models.runtime.batching import token_batches
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Passage  # noqa: E402

LOWEST = 2  # the layers below stay
MICRO = {"cpu": 2048, "cuda": 24_576}  # padded tokens of one pass
TAUGHT = torch.tensor([0.7, 1.0])
ORDER = torch.tensor([0.5, 1.0])
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
    parser.add_argument("--docs", type=Path, default=None, help="what documentation_rows.py wrote")
    parser.add_argument("--lists", type=int, default=2, help="lists of documentation a step")
    parser.add_argument("--stuffed", type=float, default=0.0, help="items with a near miss made up")
    parser.add_argument("--synonyms", type=Path, default=None, help="WordNet's files")
    parser.add_argument("--reworded", type=float, default=0.4, help="items asked in other words")
    parser.add_argument("--misled", type=float, default=0.0, help="lists where words mislead")
    parser.add_argument("--rounded", action="store_true", help="products as on a CPU: eight bits")
    parser.add_argument("--full", action="store_true", help="float32 in any case")
    parser.add_argument("--minutes", type=float, default=None, help="end so early, rate and all")
    parser.add_argument("--start", type=Path, default=None, help="a run's end to begin with")
    parser.add_argument("--part", type=float, default=1.0, help="so much of that run's change")
    parser.add_argument("--warm", type=int, default=200, help="steps until the rate is whole")
    parser.add_argument("--skip", type=int, default=0, help="steps whose rows are left out")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--save-seconds", type=float, default=180.0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    items = [json.loads(line) for line in (args.rows / "train.jsonl").open()]
    ranks = [item for item in items if item["kind"] == "rank"]
    reads = [item for item in items if item["kind"] != "rank"]
    documents = [json.loads(line) for line in (args.docs or Path("/dev/null")).open()]
    synonyms = args.synonyms and Synonyms(args.synonyms)
    model, tokenizer = shipped_student(attention=ATTENTION)
    if args.start is not None:
        model, tokenizer = kept(args.start, args.part, attention=ATTENTION)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trains(name))
    teacher = shipped_student(attention=ATTENTION)[0].eval()
    if args.rounded:
        rounded(model.encoder)
    for one in (model, teacher):
        one.to(args.device)
        if not args.full:
            one.encoder.forward = halved(args.device)(one.encoder.forward)
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
    drawing = [
        (ranks, misleading(ranks), args.ranks, args.seed),
        (reads, reads, args.reads, args.seed + 1),
        (documents, misleading(documents), args.lists, args.seed + 2),
    ]
    at, spent = resume(model, optimizer, args.out)
    saved = time.monotonic()
    mean: dict[str, float] = {}
    while (done := progress(at, spent, args)) < 1:
        began = time.process_time()
        part = min((at + 1) / args.warm, max(0.02, (1 - done) / 0.95))
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * part
        chance, place = random.Random(f"{args.seed} {at}"), at + args.skip
        batch = list[Item]()
        for every, hard, size, seed in drawing if documents else drawing[:2]:
            some = hard if chance.random() < args.misled else every
            batch += [some[i] for i in drawn(len(some), size, place, seed)]
        batch = [reworded(item, args.reworded, synonyms, chance) for item in batch]
        batch = [beside(item, args.stuffed, chance) for item in batch]
        chance.shuffle(batch)
        flat, encoded, logits, tokens = asked(model, tokenizer, batch, args.device)
        parts = losses(
            batch, flat, encoded, logits, tokens, told(teacher, flat, tokenizer, args.device)
        )
        torch.stack([*parts.values()]).sum().backward()
        torch.nn.utils.clip_grad_norm_([p for g in groups for p in g["params"]], 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        at, spent = at + 1, spent + time.process_time() - began
        for name, value in parts.items():
            mean[name] = mean.get(name, float(value.detach())) * 0.96 + 0.04 * float(value.detach())
        if at % 20 == 0:
            shown = " ".join(f"{name} {value:.3f}" for name, value in mean.items())
            print(f"step {at} of {args.steps}, {spent:.0f} s: {shown}", flush=True)
        if time.monotonic() - saved > args.save_seconds or progress(at, spent, args) >= 1:
            checkpoint(model, optimizer, args.out, at, spent)
            options = json.loads(json.dumps(vars(args), default=str))
            save(model, args.out, {**options, "step": at, "seconds": round(spent)})
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


def misleading(lists: list[Item]) -> list[Item]:
    """Keep the third of the lists in which a question's words mislead most.

    They do as far as a passage without an answer holds more of them than what answers.
    """

    def gap(item: Item) -> float:
        words = {w for w in re.findall(r"\w+", item["question"].lower()) if len(w) > 3}
        most = {0: 0.0, 1: 0.0}
        for p in item["passages"]:
            there = words & set(re.findall(r"\w+", f"{p['title']} {p['text']}".lower()))
            share = len(there) / max(1, len(words))
            most[int(bool(p["has"]))] = max(most[int(bool(p["has"]))], share)
        return most[0] - most[1] if any(p["has"] for p in item["passages"]) else -1.0

    kept = {id(item) for item in sorted(lists, key=gap)[-(len(lists) // 3) :]}
    return [item for item in lists if id(item) in kept]


def reworded(item: Item, often: float, synonyms: Synonyms | None, chance: random.Random) -> Item:
    """Ask an item in other words than what answers it; the teacher hears the old ones."""
    if synonyms is None or item["kind"] == "twist" or chance.random() >= often:
        return item
    texts = [f"{p['title']} {p['text']}" for p in item["passages"] if p["has"]]
    question = synonyms.reworded(item["question"], texts, item["answers"], chance)
    return {**item, "question": question, "plain": item["question"]}


def beside(item: Item, often: float, chance: random.Random) -> Item:
    """Set beside an item's passages one or two with the question's words that answer nothing."""
    others = [p for p in item["passages"] if not p["has"]] or [{"title": "", "text": ""}]
    made = list[dict[str, Any]]()
    while chance.random() < often and len(made) < 2:
        near = chance.choice(others)["text"] if item["kind"] != "twist" else ""
        found = stuffed(
            chance.choice([item["question"], item.get("plain", item["question"])]), near, chance
        )
        if found and not contains_answer(" ".join(found), item["answers"] or ["\0"]):
            title, text = found
            made.append({"title": title, "text": text, "has": 0, "right": 0, "spans": []})
            made[-1]["made"] = True
        else:
            break
    return {**item, "passages": item["passages"] + made} if made else item


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
    labels, tokens = run(model, encoded, device)
    return flat, encoded, torch.stack(labels), tokens


def run(model: Student, encoded: list[EncodedPair], device: str) -> tuple[list[Any], list[Any]]:
    """Run pairs, those of like length together. Gives logits and tokens of each."""
    labels: list[Any] = [None] * len(encoded)
    tokens: list[Any] = [None] * len(encoded)
    budget = MICRO["cpu" if device == "cpu" else "cuda"]
    for some in token_batches([len(pair) for pair in encoded], budget=budget):
        given = {k: v.to(device) for k, v in batched([encoded[i] for i in some]).items()}
        found, marks = (each.cpu() for each in model(**given))  # once for all of them
        for row, i in enumerate(some):
            labels[i], tokens[i] = found[row], marks[row, : len(encoded[i])]
    return labels, tokens


def told(teacher: Student, flat: list[Any], tokenizer: PairTokenizer, device: str) -> Tensor:
    """Give the teacher's logits of each pair, NaN outside of lists. Shape: (pairs, 2)."""
    made = torch.full((len(flat), 2), float("nan"))
    places = [i for i, (t, p) in enumerate(flat) if t["kind"] == "rank" and "made" not in p]
    pairs = [
        (t.get("plain", t["question"]), Passage("", p["text"], p["title"]))
        for t, p in (flat[i] for i in places)
    ]
    with torch.inference_mode():
        labels, _ = run(teacher, tokenizer.encode_cut(pairs), device)
    made[places] = torch.stack(labels)[:, :2].clone()
    return made


def losses(
    batch: list[Item],
    flat: list[Any],
    encoded: list[EncodedPair],
    logits: Tensor,
    tokens: list[Tensor],
    taught: Tensor,
) -> dict[str, Tensor]:
    """Give the named losses of what the labels say, and the teacher."""
    spans = [place(p["spans"], pair) for (_, p), pair in zip(flat, encoded, strict=True)]
    hard = targets(flat)
    gold, soft = hard.clone(), taught.sigmoid()
    mixed = torch.where(hard[:, :2].isnan(), soft, TAUGHT * soft + (1 - TAUGHT) * hard[:, :2])
    gold[:, :2] = torch.where(soft.isnan(), hard[:, :2], mixed)
    known = ~gold.isnan()
    weights = torch.tensor([1.0, 1.0, 0.8, 0.8]) * known
    each = F.binary_cross_entropy_with_logits(logits, gold.nan_to_num(), reduction="none")
    parts = {"pair": (each * weights).sum() / weights.sum()}
    sizes = [len(item["passages"]) for item in batch]
    parts |= listwise(logits, hard, sizes)
    parts["order"] = ordered(logits, taught, sizes)
    single = [
        None if item["kind"] == "rank" and there else there
        for (item, _), there in zip(flat, spans, strict=True)
    ]
    parts["span"] = 0.5 * located(tokens, single, encoded)
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


def targets(flat: list[Any]) -> Tensor:
    """Give the four labels of each pair, NaN where unknown.

    `llm_prefer` is the teacher's alone, but in lists of documentation, which none teaches: there it
    is whether the passage answers the question, as it is of near misses made up.
    """
    rows = []
    nan = float("nan")
    for item, p in flat:
        has = nan if p["has"] is None else float(p["has"])
        right = nan if p["right"] is None else float(p["right"])
        prefer = right if item["kind"] == "doc" or "made" in p else nan
        rows.append([has, prefer, right if right == right else has, right])
    return torch.tensor(rows)


def listwise(logits: Tensor, gold: Tensor, sizes: list[int]) -> dict[str, Tensor]:
    """Give the losses of whole lists: which is first, and whether any holds the answer."""
    first, some = [], []
    for scores, labels in zip(logits.split(sizes), gold.split(sizes), strict=True):
        if len(scores) < 3:
            continue
        for column, weight in ((0, 0.5), (2, 0.3)):
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


def ordered(logits: Tensor, taught: Tensor, sizes: list[int]) -> Tensor:
    """Bring the order of each list to the teacher's: cross-entropy of their softmaxes."""
    parts = []
    for own, told in zip(logits.split(sizes), taught.split(sizes), strict=True):
        known = ~told[:, 0].isnan()  # all of a list but what was made up, or nothing
        if known.sum() > 1:
            own, told = own[known, :2], told[known]
            parts.append(-(told.softmax(0) * own.log_softmax(0)).sum(0) @ ORDER)
    return torch.stack(parts).mean() if parts else logits.sum() * 0


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


@lru_cache(200_000)
def sentences(text: str) -> list[tuple[int, int]]:
    """Return a text's sentences; rows are drawn many times."""
    return list(split_sentences(text))


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
                s for s in sentences(p["text"]) if any(s[0] < b and s[1] > a for a, b in p["spans"])
            ]
            want = torch.tensor(
                [float(o is not None and any(a <= o[0] < b for a, b in cut)) for o in pair.offsets]
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
