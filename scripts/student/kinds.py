"""Measure runs on held-out projects, on papers and on Wikipedia, by kind of text.

    python scripts/student/kinds.py DATA LISTS/held.jsonl WIKI/held.jsonl shipped [RUN...]
        [-n 25] [--choose] [--parts 0.3 0.5 0.7] [--out FILE]

The first run is what the others are compared with; --parts adds, of the last run, as much of its
change from what ships as each part says, heads and all. Kinds are those of the rows, "paper"
(COVID-QA, passages of 300 words) and "wiki". With --choose the rows are of one half of the
projects, without papers; else of the other half. Prints MRR by has_answer beside the orders of
MiniLM and BM25, the fraction of answers kept at fractions of the words, calibration error and mean
probability beside the base rate; in brackets 95 % of bootstrap samples of the lists, of the
difference where there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from dense import dense_search  # noqa: E402
from measure import chosen_sentences  # noqa: E402
from model import keep, shipped_lines  # noqa: E402
from quick import Quick  # noqa: E402
from reference import sigmoid  # noqa: E402

from fitrag_integrations.evaluation.answers import contains_answer  # noqa: E402
from fitrag_integrations.evaluation.outcomes import calibration_error  # noqa: E402
from fitrag_integrations.evaluation.ranking import reciprocal_rank  # noqa: E402
from fitrag_integrations.evaluation.table import bootstrap  # noqa: E402
from fitrag_integrations.text.sentences import split_sentences  # noqa: E402
from fitrag_integrations.training.negatives import searching  # noqa: E402
from fitrag_integrations.training.rows import read_jsonl  # noqa: E402
from fitrag_integrations.types import Passage  # noqa: E402

FRACTIONS = (0.2, 0.3, 0.4)
WORDS, LIST = 300, 14
Row = dict[str, Any]


def main() -> None:
    """Ask every run of every row, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("docs", type=Path)
    parser.add_argument("wiki", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("-n", type=int, default=25, help="lists of a kind")
    parser.add_argument("--parts", type=float, nargs="*", default=[])
    parser.add_argument("--choose", action="store_true", help="rows to choose by")
    parser.add_argument("--out", type=Path, help="what was found before is read from here")
    args = parser.parse_args()
    rows = drawn(args)
    names = {str(run): run for run in args.runs}
    with tempfile.TemporaryDirectory() as folder:
        for part in args.parts:
            run = Path(folder) / f"{part:g}"
            keep(args.runs[-1], run, part, heads=True)
            (run / "fitted.json").write_text(json.dumps(shipped_lines()))
            names[f"{args.runs[-1]}, {part:g} of the change"] = run
        first: dict[str, Any] = {}
        there = read_jsonl(args.out) if args.out and args.out.exists() else ()
        known = {one["run"]: one["rows"] for one in there}
        for name, run in names.items():
            figures = known.get(name) or measured(rows, Quick(run))
            if args.out and name not in known:
                with args.out.open("a") as file:
                    file.write(json.dumps({"run": name, "rows": figures}) + "\n")
            print(f"\n{name}")
            for kind in ("all but wiki", *dict.fromkeys(row["kind"] for row in rows)):
                print(line(kind, figures, first))
                sys.stdout.flush()
            first = first or figures


def drawn(args: argparse.Namespace) -> list[Row]:
    """Draw rows of each kind, projects in turn, each with the orders of MiniLM and BM25."""
    chance = random.Random(5)
    rows: list[Row] = []
    by: dict[str, list[Row]] = {}
    for row in read_jsonl(args.docs):
        own = chooses(row["set"]) is args.choose
        if own and row["answers"] and any(p["has"] for p in row["passages"]):
            by.setdefault(row["kind"], []).append(row)
    for some in by.values():
        chance.shuffle(some)
        seen: dict[str, int] = {}
        for row in some:
            row["turn"] = seen[row["set"]] = seen.get(row["set"], 0) + 1
        rows += sorted(some, key=lambda row: row["turn"])[: args.n]
    wiki = [row for row in read_jsonl(args.wiki) if row["kind"] == "rank"]
    rows += [{**row, "kind": "wiki"} for row in wiki[: 2 * args.n]]
    rows += [] if args.choose else papers(args.data, args.n, chance)
    every = [(row, p) for row in rows for p in row["passages"]]
    given = [Passage(str(i), p["text"], p["title"]) for i, (_, p) in enumerate(every)]
    with tempfile.TemporaryDirectory() as folder:
        vectors = Path(folder) / "vectors"
        dense = dense_search(given, vectors, depth=len(given))([row["question"] for row in rows])
    for row, found in zip(rows, dense, strict=True):
        these: list[Passage] = [
            one for one, (other, _) in zip(given, every, strict=True) if other is row
        ]
        inside = {one.id for one in these}
        lexical = searching(these, depth=len(these))([row["question"]])[0]
        row["gold"] = [int(bool(p["has"])) for p in row["passages"]]
        for name, order in (("dense", [p for p in found if p.id in inside]), ("BM25", lexical)):
            first = int(these[0].id)
            row[name] = reciprocal_rank([row["gold"][int(p.id) - first] for p in order])
    return rows


def chooses(project: str) -> bool:
    """Check whether a held-out project is of the half to choose by."""
    return hashlib.sha1(project.encode()).digest()[0] % 2 == 0


def papers(data: Path, count: int, chance: random.Random) -> list[Row]:
    """Build lists of COVID-QA: passages of a paper near the question, and what answers."""
    texts = {
        r["doc_id"]: r["text"] for r in read_jsonl(data / "covidqa" / "covidqa_documents.jsonl.gz")
    }
    asked = [*read_jsonl(data / "covidqa" / "covidqa_questions.jsonl.gz")]
    chance.shuffle(asked)
    made: list[Row] = []
    for row in asked:
        words = texts[row["doc_id"]].split()
        cut = [" ".join(words[i : i + WORDS]) for i in range(0, len(words), WORDS)]
        given = [Passage(str(i), text, "") for i, text in enumerate(cut)]
        found = searching(given, depth=min(LIST, len(given)))([row["question"]])[0]
        passages = [
            {"title": "", "text": p.text, "has": contains_answer(p.text, row["answers"])}
            for p in found
        ]
        if len(passages) > 7 and 0 < sum(bool(p["has"]) for p in passages) < 4:
            made.append({**row, "passages": passages, "kind": "paper"})
        if len(made) == count:
            break
    return made


def measured(rows: list[Row], model: Quick) -> dict[str, list[Any]]:
    """Return what each figure is made of, list by list."""
    figures: dict[str, list[Any]] = {name: [] for name in ("kind", "MRR", "dense", "BM25", "pairs")}
    figures |= {f"kept at {f:g}": [] for f in FRACTIONS}
    for row in rows:
        triples = [(row["question"], p["title"], p["text"]) for p in row["passages"]]
        judged = model.judge(triples, split_sentences)
        scores = [one.has_answer for one in judged]
        order = np.argsort([-s for s in scores], kind="stable")
        figures["kind"].append(row["kind"])
        figures["MRR"].append(reciprocal_rank([row["gold"][i] for i in order]))
        figures["dense"].append(row["dense"])
        figures["BM25"].append(row["BM25"])
        figures["pairs"].append([[sigmoid(s), g] for s, g in zip(scores, row["gold"], strict=True)])
        told = [{"spans": [[*span, logit] for span, logit in one.sentences]} for one in judged]
        shown = {"passages": [[p["title"], p["text"]] for p in row["passages"]], "told": told}
        for fraction in FRACTIONS:
            texts = chosen_sentences(shown, fraction)[0]
            figures[f"kept at {fraction:g}"].append(
                float(any(contains_answer(t, row["answers"]) for t in texts))
            )
    return figures


def _mean_of(values: Any, drawn: Any) -> float:
    return float(values[drawn].mean())


def line(kind: str, figures: dict[str, list[Any]], first: dict[str, Any]) -> str:
    """Return a line of a table: the figures of a kind, differences from the first run."""
    at = [
        i
        for i, k in enumerate(figures["kind"])
        if k == kind or (kind == "all but wiki" and k != "wiki")
    ]
    parts = [f"{kind} ({len(at)})"]
    for name in ("dense", "BM25"):
        parts.append(f"{name} {np.mean([figures[name][i] for i in at]):.3f}")
    for name in ("MRR", *(f"kept at {f:g}" for f in FRACTIONS)):
        values = np.array([figures[name][i] for i in at])
        parts.append(f"{name} {values.mean():.3f}")
        if first:
            other = values - np.array([first[name][i] for i in at])
            parts[-1] += f" ({other.mean():+.3f} {ends(partial(_mean_of, other), len(at))})"
    pairs = [figures["pairs"][i] for i in at]

    def error(drawn: Any) -> float:
        return float(
            calibration_error(*map(list, zip(*(p for i in drawn for p in pairs[i]), strict=True)))
        )

    chances, gold = zip(*(p for some in pairs for p in some), strict=True)
    parts.append(f"calibration {error(range(len(at))):.3f} {ends(error, len(at), 200)}")
    parts.append(f"says {np.mean(chances):.3f} of {np.mean(gold):.3f}")
    return "; ".join(parts)


def ends(value: Callable[[Any], float], size: int, times: int = 1000) -> str:
    """Write where 95 % of bootstrap samples lie."""
    low, high = bootstrap(value, size, resamples=times) or (0.0, 0.0)
    return f"[{low:+.3f}, {high:+.3f}]"


if __name__ == "__main__":
    main()
