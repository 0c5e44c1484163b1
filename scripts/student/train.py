"""Train the student, from what ships, on the lists of `lists.py` with the targets of `teach.py`.

    python scripts/student/train.py OUT LISTS.jsonl... [--minutes 120] [--choose DATA HELD.jsonl]

The target of a list is the logits of what ships plus the item's weight times (cosine of the base
less its mean over the list): Kullback-Leibler over the list, cross-entropy of each label, and, with
the cosines of sentences, the distance of `keep`. Where it is known which passages answer, the
target of `has_answer` is half that, the place of the best is learned (ListMLE's first term), and
so are the grade and, where the words of the answer are known, its place. Everything else is held
to what ships, whole for lists of Wikipedia, whose weight is 0.

The upper four layers and the heads train. OUT has the exponential mean of the weights, and a
checkpoint from which a run that is started again goes on, with whatever lists it is given then;
minutes are the processor's. With --choose it prints `choosing.py`'s figures as it goes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from choosing import Choosing  # noqa: E402
from model import (  # noqa: E402
    ANSWER_TOKENS,
    ATTENTION,
    Student,
    batched,
    halved,
    rounded,
    save,
    shipped_student,
)
from teach import encoded, sentences  # noqa: E402

from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer  # noqa: E402
from fitrag_integrations.models.runtime.batching import token_batches  # noqa: E402
from fitrag_integrations.training.rows import read_jsonl  # noqa: E402

LOWEST = 2  # the layers below stay
MICRO = 2048  # padded tokens of one pass
KEEP = 2.5  # a sentence's weight in the target of keep, over its passage's
SHARP = 0.03  # what a known label leaves open
Item = dict[str, Any]


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("lists", type=Path, nargs="+")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--head-rate", type=float, default=6e-4)
    parser.add_argument("--size", type=int, default=2, help="lists a step, and one of Wikipedia")
    parser.add_argument("--rounded", action="store_true", help="products as on a CPU: eight bits")
    parser.add_argument("--warm", type=int, default=40, help="steps until the rate is whole")
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--cool", type=float, default=0.0, help="last minutes, down to a tenth")
    parser.add_argument("--decay", type=float, default=0.996, help="of the mean of the weights")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--save-seconds", type=float, default=180.0)
    parser.add_argument("--choose", type=Path, nargs=2, metavar=("DATA", "HELD"))
    parser.add_argument("--choose-seconds", type=float, default=1500.0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    streams = [Stream(args.lists, wiki, args.seed) for wiki in (True, False)]
    model, tokenizer = shipped_student(attention=ATTENTION)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trains(name))
    if args.rounded:
        rounded(model.encoder)
    model.encoder.forward = halved()(model.encoder.forward)
    own = {n: p for n, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for n, p in own.items() if n.startswith("encoder") is inside], "rate": r}
            for inside, r in ((True, args.rate), (False, args.head_rate))
        ],
        betas=(0.9, 0.98),
        weight_decay=0.01,
    )
    args.out.mkdir(parents=True, exist_ok=True)
    at, spent, mean = resume(own, optimizer, args.out)
    choosing = args.choose and Choosing(*args.choose, tokenizer, 4)
    saved = chosen = time.monotonic()
    shown: dict[str, float] = {}
    while spent < 60 * args.minutes:
        began = time.process_time()
        left = args.minutes - spent / 60
        part = min(1.0, (at + 1) / args.warm, max(0.1, left / args.cool) if args.cool else 1.0)
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * part
        batch = [next(stream) for stream in (streams[0], *[streams[1]] * args.size)]
        parts = losses(model, batch, tokenizer)
        torch.stack([*parts.values()]).sum().backward()
        torch.nn.utils.clip_grad_norm_(own.values(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        at += 1
        with torch.no_grad():
            for name, parameter in own.items():
                mean[name].lerp_(parameter, 1 - min(args.decay, at / (at + 9)))
        spent += time.process_time() - began
        for name, value in parts.items():
            shown[name] = shown.get(name, float(value.detach())) * 0.98 + 0.02 * float(
                value.detach()
            )
        if at % 20 == 0:
            told = " ".join(f"{name} {value:.3f}" for name, value in shown.items())
            print(f"step {at}, {spent:.0f} s: {told}", flush=True)
        now, ends = time.monotonic(), spent >= 60 * args.minutes
        if now - saved > args.save_seconds or ends:
            checkpoint(own, mean, optimizer, args.out, at, spent)
            averaged = kept_aside(model, own, mean)
            options = json.loads(json.dumps(vars(args), default=str))
            save(model, args.out, {**options, "step": at, "seconds": round(spent)})
            if choosing and (now - chosen > args.choose_seconds or ends):
                line = f"step {at}, {spent / 60:.0f} min: {choosing.told(model)}"
                print(line, flush=True)
                with (args.out / "choosing.md").open("a") as file:
                    file.write(f"{line}\n")
                chosen = time.monotonic()
            kept_aside(model, own, averaged)
            saved = time.monotonic()


@dataclass(frozen=True)
class Taught:
    """An item with what `teach.py` stored of it."""

    item: Item
    labels: Tensor
    cosine: Tensor
    tokens: Tensor


class Stream:
    """Lists whose targets are there, epoch by epoch, of Wikipedia or of all else.

    Targets may still be computed: what is new is looked for every five minutes, and comes first.
    """

    def __init__(self, paths: Sequence[Path], wiki: bool, seed: int) -> None:
        self.paths, self.wiki, self.chance = paths, wiki, random.Random(f"{seed} {wiki}")
        self.known, self.every = set[Path](), list[Taught]()
        self.queue, self.looked = list[Taught](), -1e9

    def __next__(self) -> Taught:
        while not self.every or time.monotonic() - self.looked > 300:
            time.sleep(0 if self.every or self.looked < 0 else 20)
            self.looked = time.monotonic()
            found = [one for path in self.paths for one in taught(path, self.known)]
            new = [one for one in found if (one.item["kind"] == "wiki") is self.wiki]
            self.every += new
            self.queue += self.chance.sample(new, len(new))
            if new:
                kinds = Counter(one.item["kind"] for one in self.every)
                print(f"lists: {dict(kinds)}", flush=True)
        if not self.queue:
            self.queue = self.chance.sample(self.every, len(self.every))
        return self.queue.pop()


def taught(path: Path, known: set[Path]) -> Iterator[Taught]:
    """Yield the items whose targets are there and not known yet."""
    from safetensors.torch import load_file

    items, folder = [*read_jsonl(path)], path.with_suffix(".taught")
    size = json.loads((folder / "shards.json").read_text())["size"]
    for file in sorted({*folder.glob("*.safetensors")} - known):
        known.add(file)
        found, at, token = load_file(file), 0, 0
        for item in items[int(file.stem) * size : (int(file.stem) + 1) * size]:
            end = at + len(item["passages"])
            last = token + int(found["lengths"][at:end].sum())
            yield Taught(
                item, found["labels"][at:end], found["cosine"][at:end], found["tokens"][token:last]
            )
            at, token = end, last


def trains(name: str) -> bool:
    """Say whether a parameter trains: heads, and layers from `LOWEST` on."""
    if not name.startswith("encoder."):
        return True
    parts = name.split(".")
    return "layer" in parts and int(parts[parts.index("layer") + 1]) >= LOWEST


def losses(model: Student, batch: Sequence[Taught], tokenizer: PairTokenizer) -> dict[str, Tensor]:
    """Return the named losses of some lists, each a mean over them."""
    pairs = encoded([one.item for one in batch], tokenizer)
    labels, tokens = run(model, pairs)
    every: list[dict[str, Tensor]] = []
    at = 0
    for one in batch:
        end = at + len(one.item["passages"])
        every.append(of_list(one, torch.stack(labels[at:end]), tokens[at:end], pairs[at:end]))
        at = end
    return {n: torch.stack([each[n] for each in every]).mean() for n in every[0]}


def run(model: Student, pairs: Sequence[EncodedPair]) -> tuple[list[Tensor], list[Tensor]]:
    """Run pairs, those of like length together. Returns logits and tokens of each."""
    labels: list[Any] = [None] * len(pairs)
    tokens: list[Any] = [None] * len(pairs)
    for some in token_batches([*map(len, pairs)], budget=MICRO):
        found, marks = model(**batched([pairs[i] for i in some]))
        for row, i in enumerate(some):
            labels[i], tokens[i] = found[row], marks[row, : len(pairs[i])]
    return labels, tokens


def of_list(
    one: Taught, labels: Tensor, tokens: Sequence[Tensor], pairs: Sequence[EncodedPair]
) -> dict[str, Tensor]:
    """Return the losses of one list."""
    weight, passages = one.item["weight"], one.item["passages"]
    old, near = one.labels.float(), weight * (one.cosine.float() - one.cosine.float().mean())
    gold = torch.tensor([float("nan") if p["has"] is None else float(p["has"]) for p in passages])
    known, hard = ~gold.isnan(), gold.nan_to_num()
    if weight == 0:
        known = torch.zeros_like(known)
    own = labels[:, :2].mean(1)
    parts = {
        "list": F.kl_div(
            own.log_softmax(0), (old[:, :2].mean(1) + near).softmax(0), reduction="sum"
        )
    }
    soft = torch.cat([old[:, :2] + near.unsqueeze(1), old[:, 2:]], dim=1).sigmoid()
    sharp = hard.clamp(SHARP, 1 - SHARP)
    share = torch.tensor([0.5, 0.25, 0.75, 0.0]) * known.unsqueeze(1)
    target = (1 - share) * soft + share * sharp.unsqueeze(1)
    each = F.binary_cross_entropy_with_logits(labels, target, reduction="none").mean(0)
    parts["labels"] = each @ torch.tensor([1.0, 0.5, 0.5, 0.3])
    found = known & (hard > 0)
    parts["first"] = own.sum() * 0
    if found.any() and known.sum() > 1:
        for scores, much in ((own, 0.5), (labels[:, 2], 0.15)):
            log = scores[known].log_softmax(0)
            parts["first"] = parts["first"] - much * log[hard[known] > 0].logsumexp(0)
    parts["keep"], parts["span"] = own.sum() * 0, own.sum() * 0
    stored = one.tokens.float().split([*map(len, pairs)])
    inside = [torch.tensor([o is not None for o in pair.offsets]) for pair in pairs]
    middle = torch.cat([s[i, 3] for s, i in zip(stored, inside, strict=True)]).mean()
    for p, marks, told, text, pair in zip(passages, tokens, stored, inside, pairs, strict=True):
        want = told[:, 2] + KEEP * weight * (told[:, 3] - middle)
        spans = place(p.get("spans"), pair) if weight else None
        if spans:
            want = torch.where(answering(pair, p["text"], spans), want.clamp(min=2.0), want)
        if text.any():
            parts["keep"] = parts["keep"] + F.smooth_l1_loss(marks[text, 2], want[text])
        out = torch.where(text, 0.0, -1e4).unsqueeze(1)
        log, was = (
            torch.cat([m.new_zeros(1, 2), m[:, :2] + out]).log_softmax(0) for m in (marks, told)
        )
        if spans is None:
            parts["span"] = parts["span"] + F.kl_div(log, was, log_target=True, reduction="sum")
        else:
            ends = spans or [(-1, -1)]
            fits = [log[a + 1, 0] + log[b + 1, 1] for a, b in ends if b - a < ANSWER_TOKENS]
            if fits:
                parts["span"] = parts["span"] - 0.5 * torch.stack(fits).logsumexp(0)
    parts["keep"] = 0.15 * parts["keep"] / len(pairs)
    parts["span"] = 0.3 * parts["span"] / len(pairs)
    return parts


def place(spans: Any, pair: EncodedPair) -> list[tuple[int, int]] | None:
    """Bring characters to tokens; None where the answer's place is not known, or cut off."""
    if spans is None:
        return None
    found = []
    for first, last in spans:
        inside = [i for i, o in enumerate(pair.offsets) if o and o[0] < last and o[1] > first]
        if inside:
            found.append((inside[0], inside[-1]))
    return found if found or not spans else None


def answering(pair: EncodedPair, text: str, spans: Sequence[tuple[int, int]]) -> Tensor:
    """Mark the tokens of the sentences that hold an answer."""
    marked = torch.zeros(len(pair), dtype=torch.bool)
    for inside in sentences(pair, text):
        if any(inside[0] <= b and inside[-1] >= a for a, b in spans):
            marked[inside] = True
    return marked


def kept_aside(model: Student, own: dict[str, Any], other: dict[str, Tensor]) -> dict[str, Tensor]:
    """Put other weights into a model; returns those that were there."""
    was = {name: parameter.detach().clone() for name, parameter in own.items()}
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(other[name])
    return was


def checkpoint(
    own: dict[str, Any], mean: dict[str, Tensor], optimizer: Any, out: Path, at: int, spent: float
) -> None:
    """Save all that a run goes on from, under another name first."""
    from safetensors.torch import save_file

    tensors = {f"model.{n}": t.detach() for n, t in own.items()}
    tensors |= {f"mean.{n}": t for n, t in mean.items()}
    for i, values in optimizer.state_dict()["state"].items():
        tensors |= {f"state.{i}.{k}": v for k, v in values.items()}
    tensors = {n: t.cpu().contiguous() for n, t in tensors.items()}
    save_file(tensors, out / "checkpoint.new", metadata={"at": str(at), "spent": str(spent)})
    (out / "checkpoint.new").replace(out / "checkpoint.safetensors")


def resume(own: dict[str, Any], optimizer: Any, out: Path) -> tuple[int, float, dict[str, Tensor]]:
    """Take up a checkpoint where there is one. Returns steps, seconds and the mean weights."""
    from safetensors import safe_open

    mean = {name: parameter.detach().clone() for name, parameter in own.items()}
    if not (out / "checkpoint.safetensors").exists():
        return 0, 0.0, mean
    with safe_open(out / "checkpoint.safetensors", "pt") as file:
        told, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    state: dict[int, dict[str, Tensor]] = {}
    with torch.no_grad():
        for name, tensor in tensors.items():
            kind, rest = name.split(".", 1)
            if kind == "state":
                i, what = rest.split(".")
                state.setdefault(int(i), {})[what] = tensor
            else:
                (own if kind == "model" else mean)[rest].copy_(tensor)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    return int(told["at"]), float(told["spent"]), mean


if __name__ == "__main__":
    main()
