"""How much of the scorer is worth fitting to how many labels: nothing, a temperature, a head, LoRA?

    python benchmarks/fit_scorer.py ROWS.jsonl.gz [--labels 150 300 600] [--held 300] [--lora 0]

Rows hold a question, its answers and its passages. The embedded reader labels the passages as
`fitrag fit` would. Of the passages held out, which hold the answer and are answered from: the area
under the ROC curve of the embedded scorer, of it with temperatures and the weight fitted, of a head
over the plain encoder and over the embedded reader's, and with `--lora` steps of an adapter over
that; each with the 95 % interval of its difference to the embedded scorer, over the questions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.evaluation.ranking import Area
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.models.runtime.sources import MINILM
from fitrag_integrations.training.bilabel.fit import BilabelPlan, fit_bilabel
from fitrag_integrations.training.collecting import Question, Told, passage_labels
from fitrag_integrations.training.losses import fit_temperatures
from fitrag_integrations.training.rows import Labelled, passage_row

WEIGHTS = (0.5, 0.25, 0.75, 0.0, 1.0)
RESAMPLES = 1000


def main() -> None:
    """Print a line for each way and number of labels."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--labels", type=int, nargs="+", default=[150, 300, 600])
    parser.add_argument("--held", type=int, default=300)
    parser.add_argument("--lora", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    most = max(args.labels) + args.held
    rows = labelled(args.rows, most, args.seed)
    held = upto(rows, args.held)
    rest = rows[len(held) :]
    scorer = BiLabelScorer.embedded()
    own = logits(scorer, held)
    base = sums(own, 0.5)
    print(json.dumps({"questions held": len(held), "embedded": area(base, held)}), flush=True)
    for count in args.labels:
        part = upto(rest, count)
        seen = logits(scorer, part)
        labels = torch.tensor(
            [[h, p] for row in part for h, p in zip(row.has_answer, row.llm_prefer, strict=True)],
            dtype=torch.float,
        )
        heat = np.array(fit_temperatures(torch.tensor(seen), labels))
        weight = max(WEIGHTS, key=lambda one: area(sums(seen / heat, one), part))
        told(count, "temperatures and weight", sums(own / heat, weight), base, held)
        ways = {"head, plain encoder": (MINILM, "head"), "head, reader's": (READER, "head")}
        ways |= {"LoRA, reader's": (READER, "lora")} if args.lora else {}
        for name, (encoder, tune) in ways.items():
            plan = BilabelPlan(base=encoder, tune=tune, seed=args.seed, steps=args.lora or 1)
            with tempfile.TemporaryDirectory() as folder:
                fit_bilabel(part, Path(folder) / "made", plan)
                made = logits(BiLabelScorer.from_pretrained(Path(folder) / "made"), held)
            told(count, name, sums(made, 0.5), base, held)


READER = str(embedded_folder("reader"))


def labelled(path: Path, most: int, seed: int) -> list[Labelled]:
    """Label as many passages, all of a question's or none."""
    given = list(read_jsonl(path))
    mixed = [given[at] for at in np.random.default_rng(seed).permutation(len(given))]
    asked = [
        Question(row["question"], tuple(row["answers"]), tuple(map(passage_row, row["passages"])))
        for row in mixed
    ]
    asked = upto(asked, most)
    pairs = [(one.text, passage) for one in asked for passage in one.passages]
    answers = iter(ExtractiveReader.embedded().read(pairs))
    rows = []
    for one in asked:
        labels = passage_labels(one, [Told(next(answers).text) for _ in one.passages])
        has, prefer = ([each[name] for each in labels] for name in ("has_answer", "llm_prefer"))
        rows.append(Labelled(one.text, one.passages, tuple(has), tuple(prefer)))
    return rows


def upto(rows: Sequence[Any], count: int) -> list[Any]:
    """Take rows until they hold so many passages."""
    ends = np.cumsum([len(row.passages) for row in rows])
    return list(rows[: int(np.searchsorted(ends, count)) + 1])


def logits(scorer: Any, rows: Sequence[Labelled]) -> Any:
    """Give the logits of both labels, a row a passage."""
    scores = scorer.score([(row.question, one) for row in rows for one in row.passages])
    return np.array([[one.has_answer_logit, one.llm_prefer_logit] for one in scores])


def sums(given: Any, weight: float) -> Any:
    """Mix both probabilities."""
    both = 1 / (1 + np.exp(-given))
    return (1 - weight) * both[:, 0] + weight * both[:, 1]


def good(rows: Sequence[Labelled]) -> list[list[int]]:
    """Say which passages hold the answer and are answered from."""
    return [
        [int(bool(h and p)) for h, p in zip(row.has_answer, row.llm_prefer, strict=True)]
        for row in rows
    ]


def ranked(values: Any, rows: Sequence[Labelled]) -> list[list[float]]:
    """Give the values question by question."""
    ends = np.cumsum([len(row.passages) for row in rows])[:-1]
    return [part.tolist() for part in np.split(values, ends)]


def area(values: Any, rows: Sequence[Labelled]) -> float:
    """Give the area under the ROC curve over all passages."""
    return float(Area(ranked(values, rows), good(rows))(np.arange(len(rows))) or 0.0)


def told(count: int, name: str, values: Any, base: Any, rows: Sequence[Labelled]) -> None:
    """Print the area and the interval of its difference to the embedded scorer's."""
    one, other = (Area(ranked(each, rows), good(rows)) for each in (values, base))
    chance, drawn = np.random.default_rng(0), []
    for _ in range(RESAMPLES):
        places = chance.integers(0, len(rows), len(rows))
        drawn.append((one(places) or 0.0) - (other(places) or 0.0))
    low, high = np.quantile(drawn, [0.025, 0.975])
    line = {"labels": count, "way": name, "area": area(values, rows), "gain": [low, high]}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
