"""Is what `fitrag fit` promises kept on questions it never saw, and what of synthetic ones?

    python benchmarks/fit_splits.py CORPUS QUESTIONS [--count 300] [--k 5] [--drop 0.05 0.1]

Every setting is tried once on every question (the embedded models; answers are kept in --out).
Then, for each of many splits in three, a setting is chosen on one third, certified on the second,
and looked at on the last: the share of right answers lost against the plain retriever, which may
be above --drop in a share of 1 - confidence of the splits. What was fitted is told with intervals
over the questions, each as it was in the splits that had not chosen on it. `--made` questions are
made of the corpus besides, and a setting chosen and certified on those is looked at on the real
ones.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fitrag_integrations.evaluation.table import mean_interval
from fitrag_integrations.evaluation.thresholds.risk import Choice, Places, Tried, cheapest
from fitrag_integrations.models import ExtractiveReader
from fitrag_integrations.retrieval import FaissIndex, QuestionBank
from fitrag_integrations.retrieval.corpus.documents import read_passages
from fitrag_integrations.training.asking_llm import AskReader
from fitrag_integrations.training.fitted.fitting import finder
from fitrag_integrations.training.fitted.oracle import Oracle
from fitrag_integrations.training.fitted.questions import Asked, questions_from, questions_in
from fitrag_integrations.training.fitted.trying import (
    DEFAULT,
    PLAIN,
    Trials,
    ask_bank,
    ask_model,
    behind_gates,
    recipes,
    try_all,
)
from fitrag_integrations.training.journal import AnswerCache

SEEN = ("lost", "right", "tokens")


@dataclass(frozen=True)
class Bench:
    """Hold what all splits share."""

    ways: dict[str, Any]
    drop: float
    confidence: float

    def chosen(self, table: Trials, order: Places, test: Places) -> tuple[Choice, dict[str, Tried]]:
        """Choose on `order`, certify on `test`; gives every setting's outcome with it."""
        known = [bool(right) for right in table.bare.right[order]]
        asked = [table.questions[at].question for at in order]
        ask_bank(table, QuestionBank.build(asked, known), order.tolist())
        tried, _ = behind_gates(table, self.ways, order)
        wish = {"max_drop": self.drop, "confidence": self.confidence}
        return cheapest(tried, PLAIN, order=order, test=test, **wish), tried


def main() -> None:
    """Tell the splits, and what came of made questions."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--out", type=Path, default=Path("fit-splits"))
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--made", type=int, default=0)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--drop", type=float, nargs="+", default=[0.05])
    parser.add_argument("--confidence", type=float, default=0.9)
    args = parser.parse_args()
    benches = [Bench(recipes(args.k, 0.5), drop, args.confidence) for drop in args.drop]
    passages = read_passages(args.corpus, [])
    find = finder(FaissIndex.build(passages).as_retriever(args.k), args.k)
    cache = AnswerCache(args.out / "answers.asked", {"llm": "embedded"})
    oracle = Oracle(AskReader(ExtractiveReader.embedded()), cache, print)

    def table_of(asked: list[Asked]) -> Trials:
        texts = [one.question for one in asked]
        table = try_all(asked, dict(zip(texts, find(texts), strict=True)), benches[0].ways, oracle)
        ask_model(table, oracle)
        return table

    real = table_of(
        list({q.question: q for q in questions_in(args.questions, args.count)}.values())
    )
    made = table_of(questions_from(passages, args.made)) if args.made else None
    for bench in benches:
        print(json.dumps(splits(bench, real, args.splits)))
        if made is not None:
            print(json.dumps(on_real(bench, made, real)))


def splits(bench: Bench, table: Trials, count: int) -> dict[str, Any]:
    """Choose, certify and look, over and over."""
    kept, passed = 0, 0
    looked: dict[str, list[list[float]]] = {name: [[] for _ in table.questions] for name in SEEN}
    for seed in range(count):
        mixed = np.random.default_rng(seed).permutation(len(table.questions))
        order, test, fresh = np.array_split(mixed, 3)
        choice, tried = bench.chosen(table, order, test)
        columns = seen(tried, choice)
        for name, column in columns.items():
            for at in fresh.tolist():
                looked[name][at].append(float(column[at]))
        kept += float(columns["lost"][fresh].mean()) <= bench.drop
        passed += choice.passed > 0
    every = np.arange(len(table.questions))
    alone = {name: told(table.tried[name], every) for name in (PLAIN, DEFAULT)}
    means = {name: np.array([np.mean(m) for m in each if m]) for name, each in looked.items()}
    fitted = {name: [float(m.mean()), *mean_interval(m)] for name, m in means.items()}
    head = {"drop": bench.drop, "splits": count, "kept": kept, "certified": passed}
    return {**head, "fitted": fitted, **alone}


def on_real(bench: Bench, made: Trials, real: Trials) -> dict[str, Any]:
    """Choose and certify on made questions, and look at the real ones."""
    mixed = np.random.default_rng(0).permutation(len(made.questions))
    order, test = np.array_split(mixed, 2)
    choice, _ = bench.chosen(made, order, test)
    known = [bool(right) for right in made.bare.right[order]]
    bank = QuestionBank.build([made.questions[at].question for at in order], known)
    ask_bank(real, bank, [])
    way, _, gate = choice.chosen.partition("; ")
    own = real.tried[way]
    if gate:
        name, _, cut = gate.partition(" > ")
        skipped = real.p_known[name] > float(cut)
        own = Tried(
            np.where(skipped, real.bare.right, own.right),
            np.where(skipped, real.bare.cost, own.cost),
        )
    every = np.arange(len(real.questions))
    lost = (real.tried[PLAIN].right - own.right)[every]
    return {
        "drop": bench.drop,
        "made": len(made.questions),
        "chosen": choice.chosen,
        "certified": choice.passed > 0,
        "plain on made": told(made.tried[PLAIN], np.arange(len(made.questions))),
        "real": told(own, every),
        "lost on real": [float(lost.mean()), *mean_interval(lost)],
    }


def seen(tried: dict[str, Tried], choice: Choice) -> dict[str, Any]:
    """Give what the chosen setting loses, answers right and costs, question by question."""
    plain, own = tried[PLAIN], tried[choice.chosen]
    return dict(zip(SEEN, (plain.right - own.right, own.right, own.cost), strict=True))


def told(one: Tried, places: Places) -> dict[str, Any]:
    """Tell accuracy and tokens with the bootstrap's intervals."""
    columns = {"right": one.right[places], "tokens": one.cost[places]}
    return {name: [float(c.mean()), *mean_interval(c)] for name, c in columns.items()}


if __name__ == "__main__":
    main()
