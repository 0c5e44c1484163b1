"""Say how runs order the lists that models are chosen by, beside what ships and the base's cosine.

    python scripts/student/choosing.py DATA HELD.jsonl [RUN...] [-n 6] [--sum 8]

MRR by the mean of both raw logits, nothing calibrated: real questions (the choosing half of
`benchmarks/real_questions.py`, by kind), entries of FAQ pages that do not train, asked word for
word in four layouts, really retrieved lists of Wikipedia, and HELD, lists of `lists.py` out of
projects that do not train. Also how many passages that answer an entry's question the grade takes
for relevant. Passages are cut at 1,000 characters. "Sum" adds so many times the cosine to what
ships.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

HOME = Path(__file__).resolve().parent
sys.path[:0] = [str(HOME), str(HOME.parents[1] / "benchmarks")]

from model import (  # noqa: E402
    ATTENTION,  # noqa: E402
    SHIPPED,
    Student,
    batched,
    halved,
    load,
)
from real_questions import drawn, lists  # noqa: E402

from fitrag_integrations.evaluation.answers import contains_answer  # noqa: E402
from fitrag_integrations.evaluation.ranking import reciprocal_rank  # noqa: E402
from fitrag_integrations.evaluation.table import paired_interval  # noqa: E402
from fitrag_integrations.models.encoder.pairs import PairTokenizer  # noqa: E402
from fitrag_integrations.models.runtime.batching import token_batches  # noqa: E402
from fitrag_integrations.training.rows import read_jsonl  # noqa: E402
from fitrag_integrations.types import Passage  # noqa: E402

CUT = 1000
LAYOUTS = ("Q: {q}\nA: {a}", "## {q}\n\n{a}", "Question: {q}\nAnswer: {a}", "**{q}**\n{a}")
WIKI = ("nq_top5", "triviaqa_top5", "popqa_top5")


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("held", type=Path)
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("-n", type=int, default=6, help="lists of a kind")
    parser.add_argument("--sum", type=float, default=8.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    shipped, tokenizer = fast(SHIPPED)
    choosing = Choosing(args.data, args.held, tokenizer, args.n)
    old, cosine = choosing.logits(shipped), choosing.cosine()
    found = {"what ships": old, "cosine": cosine}
    found[f"ships + {args.sum:g} x cosine"] = old[:, :2].mean(1) + args.sum * cosine
    for run in args.runs:
        found[str(run)] = choosing.logits(fast(run)[0])
    print("\n".join(choosing.page(found)))


def fast(folder: Path) -> tuple[Student, PairTokenizer]:
    """Load a run, its encoder in bfloat16 where that is faster."""
    model, tokenizer = load(folder, attention=ATTENTION)
    model.encoder.forward = halved()(model.encoder.forward)
    return model, tokenizer


class Choosing:
    """The lists, encoded once."""

    def __init__(self, data: Path, held: Path, tokenizer: PairTokenizer, count: int = 6) -> None:
        every = [*questions(data, count), *faq(data, 4 * count), *wikipedia(data, 5 * count)]
        every += documentation(held, 5 * count)
        self.kinds, self.golds = [k for k, *_ in every], [g for *_, g in every]
        self.pairs = [(q, p) for _, q, some, _ in every for p in some]
        self.tokens = tokenizer.encode_cut(self.pairs)

    @torch.inference_mode()
    def logits(self, model: Student) -> torch.Tensor:
        """Return the logits of each pair."""
        made = torch.zeros(len(self.tokens), 4)
        for some in token_batches([*map(len, self.tokens)], budget=4096):
            made[list(some)] = model(**batched([self.tokens[i] for i in some]))[0]
        return made

    def cosine(self) -> torch.Tensor:
        """Return the base's cosine of each pair."""
        from fitrag_integrations.retrieval import Encoder

        base = Encoder.embedded()
        texts = [f"{p.title}. {p.text}" if p.title else p.text for _, p in self.pairs]
        both = [torch.tensor(base.encode(some)) for some in ([q for q, _ in self.pairs], texts)]
        return (both[0] * both[1]).sum(1)

    def figures(self, logits: torch.Tensor) -> dict[str, list[float]]:
        """Return the figure of each list, by kind, by the logits of all pairs or one score each."""
        scores = logits[:, :2].mean(1) if logits.ndim == 2 else logits
        by = defaultdict[str, list[float]](list)
        at = 0
        for kind, gold in zip(self.kinds, self.golds, strict=True):
            own = scores[at : at + len(gold)].tolist()
            order = sorted(range(len(gold)), key=lambda i: -own[i])
            value = reciprocal_rank([bool(gold[i]) for i in order])
            group = kind.split(" ")[0]
            for name in (f"{group}, all", kind) if group in ("real", "faq", "wiki") else (kind,):
                by[name].append(value)
            if logits.ndim == 2 and group == "faq":
                right = logits[at + gold.index(1), 2] > 0
                by["faq, answers that the grade calls relevant"].append(float(right))
            at += len(gold)
        return by

    def page(self, found: dict[str, torch.Tensor]) -> Iterator[str]:
        """Yield a table, each row's difference from the first with its interval."""
        rows = {name: self.figures(logits) for name, logits in found.items()}
        first, *others = rows.values()
        yield f"| kind | lists | {' | '.join(rows)} |"
        yield "| --- " * (len(rows) + 2) + "|"
        for kind, values in first.items():
            cells = [f"{fmean(values):.3f}"]
            for row in others:
                if kind not in row:
                    cells.append("")
                    continue
                low, high = paired_interval(row[kind], values)
                cells.append(f"{fmean(row[kind]):.3f} [{low:+.3f}, {high:+.3f}]")
            yield f"| {kind} | {len(values)} | {' | '.join(cells)} |"

    def told(self, model: Student) -> str:
        """Return a model's figures in a line."""
        found = self.figures(self.logits(model))
        return ", ".join(f"{kind} {fmean(values):.3f}" for kind, values in found.items())


def questions(data: Path, count: int) -> Iterator[Any]:
    """Yield real questions by kind."""
    for one in drawn(data, "choose", count, 11):
        yield f"real {one.kind}", one.row.question, [*map(short, one.row.passages)], one.gold


def faq(data: Path, count: int) -> Iterator[Any]:
    """Yield entries of pages of the choosing half that do not train, word for word."""
    pages = defaultdict[str, dict[str, Passage]](dict)
    for one in lists(data):
        apart = one.half() == "choose" and not one.trains()
        if one.kind == "faq_docs" and apart and sum(one.gold) == 1:
            pages[one.page][one.row.question] = one.row.passages[one.gold.index(1)]
    chance = random.Random(4)
    asked = [(page, q) for page, some in sorted(pages.items()) if len(some) > 4 for q in some]
    for page, question in chance.sample(asked, min(count, len(asked))):
        own = pages[page]
        some = [question, *chance.sample([q for q in own if q != question], min(9, len(own) - 1))]
        chance.shuffle(some)
        for form in LAYOUTS:
            shown = [Passage("", form.format(q=q, a=own[q].text[:500]), "") for q in some]
            yield f"faq {form[:4].strip()}", question, shown, [int(q == question) for q in some]


def wikipedia(data: Path, count: int) -> Iterator[Any]:
    """Yield retrieved lists that hold an answer."""
    for name in WIKI:
        rows = [*read_jsonl(data / "odqa_retrieved" / f"{name}.jsonl.gz")]
        left = count // len(WIKI)
        for row in random.Random(2).sample(rows, len(rows)):
            some = [Passage("", p["text"], p["title"]) for p in row["passages"]]
            gold = [int(contains_answer(f"{p.title} {p.text}", row["answers"])) for p in some]
            if left and 0 < sum(gold) < len(gold):
                left -= 1
                yield f"wiki {name}", row["question"], [*map(short, some)], gold


def documentation(held: Path, count: int) -> Iterator[Any]:
    """Yield lists of projects that are held out, where it is known what answers."""
    by = defaultdict[str, list[Any]](list)
    for item in read_jsonl(held):
        if any(p["has"] for p in item["passages"]):
            by[item["kind"]].append(item)
    for kind, items in by.items():
        for item in random.Random(3).sample(items, min(count, len(items))):
            some = [Passage("", p["text"], p["title"]) for p in item["passages"]]
            gold = [int(bool(p["has"])) for p in item["passages"]]
            yield f"held {kind}", item["question"], [*map(short, some)], gold


def short(passage: Passage) -> Passage:
    """Return a passage cut."""
    return Passage("", passage.text[:CUT], passage.title)


if __name__ == "__main__":
    main()
