"""Compare weights of `llm_prefer` against `has_answer`: what the default order should be.

    python benchmarks/weights.py DATA [-n 150] [--sets medquad,covidqa] [--windows]

Twenty candidates of BM25 for each question are scored once by the bundled scorer and ordered by
each weight. Reported are the reciprocal rank of the first passage that holds the answer (or is the
question's own), and how often one of these is among the first ten; both against weight 0.5, with a
paired bootstrap of 95 %. With --windows also the answers kept by the paper's windows of three in
200 tokens. nq_open_gold, hotpotqa, popqa and triviaqa are Wikipedia; covidqa (articles), medquad
(medical advice), pubmedqa (abstracts) and tatqa (financial reports) are not.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.figures.summaries import Draws, difference
from fitrag_integrations.evaluation.ranking import reciprocal_rank
from fitrag_integrations.flow import run
from fitrag_integrations.methods.defaults import default_model
from fitrag_integrations.methods.fitrag.reducer import TokenReducer
from fitrag_integrations.training.negatives import searching
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.windows import windows

WEIGHTS, BASE = (0.5, 0.25, 0.0, 1.0), 0.5
DEPTH, POOL, BUDGET = 20, 3000, 200
WIKIPEDIA = ("nq_open_gold", "hotpotqa", "popqa", "triviaqa")
OTHERS = ("covidqa", "medquad", "pubmedqa", "tatqa")


@dataclass(frozen=True)
class Listed:
    """Question with its candidates, and which of these are right; answers where there are texts."""

    question: str
    passages: list[Passage]
    right: list[int]
    answers: tuple[str, ...] = ()


@dataclass(eq=False)
class Once:
    """Scorer that reads each pair once, however many weights ask for it."""

    known: dict[Any, BiLabelScore] = field(default_factory=dict)

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> list[BiLabelScore]:
        keys = [(question, one.title, one.text) for question, one in pairs]
        new = {k: pair for k, pair in zip(keys, pairs, strict=True) if k not in self.known}
        self.known |= zip(new, default_model("scorer").score([*new.values()]), strict=True)
        return [self.known[key] for key in keys]


def main() -> None:
    """Print a row for each set and weight, and one for all sets of a kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=150, help="questions a set")
    parser.add_argument("--sets", default=",".join((*WIKIPEDIA, *OTHERS)))
    parser.add_argument("--windows", action="store_true")
    args = parser.parse_args()
    every: dict[str, dict[str, dict[float, list[float]]]] = {"Wikipedia": {}, "other": {}}
    for name in args.sets.split(","):
        rows = lists(args.data, name, args.n)
        found = measured(rows, args.windows)
        told(f"{name}, {len(rows)} questions", found)
        kind = every["Wikipedia" if name in WIKIPEDIA else "other"]
        for figure, values in found.items():
            for weight, column in values.items():
                kind.setdefault(figure, {}).setdefault(weight, []).extend(column)
    for group, figures in every.items():
        if figures:
            told(f"all of {group}", figures)


def measured(rows: Sequence[Listed], cut: bool) -> dict[str, dict[float, list[float]]]:
    """Return for each figure and weight a value for each question."""
    once, found = Once(), dict[str, dict[float, list[float]]]()
    for row in rows:
        labels = once.score([(row.question, one) for one in row.passages])
        for weight in WEIGHTS:
            scores = [label.combine(weight) for label in labels]
            order = sorted(range(len(scores)), key=lambda i: -scores[i])
            ranked = [row.right[i] for i in order]
            values = {"reciprocal rank": reciprocal_rank(ranked)}
            values["recall at 10"] = float(any(ranked[: DEFAULTS.top_n]))
            if cut and row.answers:
                chosen = [row.passages[i] for i in order[: DEFAULTS.top_n]]
                values[f"kept in {BUDGET} tokens"] = float(kept(row, chosen, once, weight))
            for name, value in values.items():
                found.setdefault(name, {}).setdefault(weight, []).append(value)
    return found


def kept(row: Listed, passages: Sequence[Passage], scorer: Once, weight: float) -> bool:
    """Check whether the paper's windows keep an answer within the budget."""
    how = {"scorer": scorer, "weight": weight, "top_n": None, "max_tokens": BUDGET}
    reducer = TokenReducer(**how, scoring="windows", detector=False)
    excerpts = run(reducer.context(row.question, passages)).value.excerpts
    return any(contains_answer(f"{e.passage.title} {e.text}", row.answers) for e in excerpts)


def told(name: str, found: dict[str, dict[float, list[float]]]) -> None:
    """Print the figures of a set: each weight's mean, and its difference to the base."""
    print(name)
    for figure, values in found.items():
        print(f"  {figure}: {fmean(values[BASE]):.3f} at weight {BASE}")
        for weight in WEIGHTS:
            if weight != BASE:
                change = difference(values[BASE], values[weight], Draws(), test=False)
                print(f"    {weight}: {change.value:+.3f} {change.details()}", flush=True)


def lists(data: Path, name: str, n: int) -> list[Listed]:
    """Return up to `n` questions whose candidates hold a right passage and a wrong one."""
    made = _pooled(data, name) if name in WIKIPEDIA else _searched(data, name, n)
    chance, rows = random.Random(7), list(made)
    chance.shuffle(rows)
    return [row for row in rows if 0 < sum(row.right) < len(row.right)][:n]


def _pooled(data: Path, name: str) -> Iterator[Listed]:
    texts = {r["id"]: r for r in read_jsonl(data / "wikipool" / "passages.jsonl.gz")}
    for row in read_jsonl(data / "wikipool" / "bm25_top20.jsonl.gz"):
        if row["dataset"] == name:
            found = [texts[each] for each in row["candidates"][:DEPTH]]
            passages = [Passage(each["id"], each["text"], each["title"]) for each in found]
            yield _listed(row["question"], passages, tuple(row["answers"]))


def _searched(data: Path, name: str, n: int) -> Iterator[Listed]:
    asked, pool = {"covidqa": _covid, "pubmedqa": _pubmed}.get(name, _paired)(data, name)
    chance = random.Random(7)
    if len(pool) > POOL:  # the questions' own passages, and others to get lost among
        some = chance.sample(asked, min(len(asked), 2 * n))
        own = {key for _, key, _ in some}
        rest = chance.sample([one for one in pool if one.id not in own], POOL)
        asked, pool = some, [one for one in pool if one.id in own] + rest
    for (question, gold, answers), found in zip(
        asked, searching(pool, depth=DEPTH)([each[0] for each in asked]), strict=True
    ):
        if answers:
            yield _listed(question, found, answers, gold)
        else:
            yield Listed(question, found, [int(one.id == gold) for one in found])


def _listed(
    question: str, passages: list[Passage], answers: tuple[str, ...], own: str | None = None
) -> Listed:
    right = [
        int(
            contains_answer(f"{one.title} {one.text}", answers)
            and (own is None or one.id.partition("#")[0] == own)
        )
        for one in passages
    ]
    return Listed(question, passages, right, answers)


Asked = tuple[str, str, tuple[str, ...]]  # question, its own passage or document, answers


def _covid(data: Path, _: str) -> tuple[list[Asked], list[Passage]]:
    folder, pool = data / "covidqa", list[Passage]()
    for row in read_jsonl(folder / "covidqa_documents.jsonl.gz"):
        cut: list[Excerpt] = windows(Passage(row["doc_id"], row["text"]), size=5, stride=5)
        pool += [Passage(f"{row['doc_id']}#{at}", one.text) for at, one in enumerate(cut)]
    questions = read_jsonl(folder / "covidqa_questions.jsonl.gz")
    return [(r["question"], r["doc_id"], tuple(r["answers"])) for r in questions], pool


def _pubmed(data: Path, _: str) -> tuple[list[Asked], list[Passage]]:
    rows = list(read_jsonl(data / "pubmedqa" / "pubmedqa_labeled.jsonl.gz"))
    pool = [Passage(row["id"], " ".join(row["contexts"])) for row in rows]
    return [(row["question"], row["id"], ()) for row in rows], pool


def _paired(data: Path, name: str) -> tuple[list[Asked], list[Passage]]:
    file = {"medquad": "medquad_pairs", "tatqa": "tatqa_text"}[name]
    asked, pool = list[Asked](), dict[tuple[str, str], Passage]()
    for row in read_jsonl(data / "reading" / f"{file}.jsonl.gz"):
        each = row["passage"]["title"], row["passage"]["text"]
        own = pool.setdefault(each, Passage(str(len(pool)), each[1], each[0]))
        asked.append((row["question"], own.id, tuple(row["answers"])))
        for other in row.get("negatives", ()):
            both = other["title"], other["text"]
            pool.setdefault(both, Passage(str(len(pool)), both[1], both[0]))
    return asked, list(pool.values())


if __name__ == "__main__":
    main()
