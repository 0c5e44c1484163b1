"""What the package is worth beside what people use today: compression and ranking, by one command.

    python benchmarks/worth.py [DATA] [-n 50] [--seed 7] [--sets nq docs] [--rows FILE ...]
        [--json out.json] [--plot docs/images/worth.svg]

Compression: of lists of retrieved passages that hold an answer, how many still do when `FitRag()`
keeps a fraction of the words, and when others keep as many. Ranking: where the first passage with
an answer stands, beside the dense order. DATA is the folder of shared sets (../shared/data);
--rows adds files of JSON Lines with question, answers and passages. LangChain's `EmbeddingsFilter`
is run where langchain-classic and langchain-community are installed, else its rule.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from compression_rows import Asked
from worth_peers import Scores, ways
from worth_rows import ELSEWHERE, WIKIPEDIA, Vectors, load, titled

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.ranking import recall_at, reciprocal_rank
from fitrag_integrations.evaluation.table import Measured, Table
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.fitrag.options import score_port
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.text.bm25 import BM25

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
OURS, DENSE, KEPT = "ours", "dense", "kept at"
SHARED = Path(__file__).parents[1] / ".." / "shared" / "data"
METRICS = {
    "MRR": reciprocal_rank,
    "recall@1": lambda labels: recall_at(labels, 1),
    "recall@5": lambda labels: recall_at(labels, 5),
}
HIGHLIGHT, COLORS = (
    "#c2410c",
    ("#1d4ed8", "#0f766e", "#7c3aed", "#64748b", "#0891b2", "#94a3b8", "#a16207"),
)
FUSION = 60  # the constant of reciprocal rank fusion (Cormack et al., 2009)


def main() -> None:
    """Measure each set, print the tables, and write the files asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, nargs="?", default=SHARED)
    parser.add_argument("--sets", nargs="*", default=[*WIKIPEDIA, *ELSEWHERE])
    parser.add_argument("--rows", nargs="*", default=[], help="JSON Lines files")
    parser.add_argument("-n", type=int, default=50, help="lists a set, 0 for all")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    vectors, scorer = Vectors(Encoder.embedded()), Scores(score_port().owner)
    kept, orders = list[Measured](), list[Measured]()
    names = [*args.sets, *args.rows]
    for name in names:
        rows = load(name, args.data, vectors, n=args.n, seed=args.seed)
        kept += compressed(name, rows, ways(vectors, scorer))
        orders += ranked(name, rows, scorer)
        print(
            f"{name}: {len(rows)} lists, {time.process_time():.0f} s of processor time", flush=True
        )
    about = (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, seed {args.seed}, "
        f"EmbeddingsFilter: {'class' if find_spec('langchain_community') else 'rule'}"
    )
    groups = {"all": names, "Wikipedia": WIKIPEDIA, "elsewhere": {*names} - {*WIKIPEDIA}}
    tables = [
        Table(f"{what}: {group}", some)
        for what, rows in (("Answers kept", kept), ("Ranking", orders))
        for group, inside in groups.items()
        if (some := [replace(row, set="") for row in rows if row.set in inside])
    ]
    two = [f"{KEPT} {part:g}" for part in (0.2, 0.4)]
    by_set = [replace(row, values={each: row.values[each] for each in two}) for row in kept]
    tables.append(Table("Answers kept, by set", by_set))
    print("\n\n".join(["", about, *(table.text() for table in tables)]))
    if args.json is not None:
        args.json.write_text(f"[{', '.join(table.json() for table in tables)}]\n")
    if args.plot is not None:
        draw(tables[0], args.plot)


def compressed(name: str, rows: Sequence[Asked], all_ways: Any) -> Iterator[Measured]:
    """Yield what each way keeps of each list at each fraction, and the fraction that it spends."""
    for way, run in all_ways.items():
        columns = run(rows, FRACTIONS)
        for at, row in enumerate(rows):
            found = {part: column[at] for part, column in zip(FRACTIONS, columns, strict=True)}
            values = {f"{KEPT} {part:g}": float(one.answer) for part, one in found.items()}
            values |= {f"words at {part:g}": one.fraction for part, one in found.items()}
            yield Measured(f"{name}: {row.question}", values, way, name)


def ranked(name: str, rows: Sequence[Asked], scorer: Scores) -> Iterator[Measured]:
    """Yield each order's metrics of each list."""
    score = BM25(titled(passage) for row in rows for passage in row.passages)
    default = FitRag().weight
    for row in rows:
        labels = [contains_answer(titled(passage), row.answers) for passage in row.passages]
        scores = scorer.wholes(row)
        places = {
            DENSE: np.arange(len(labels)),
            "BM25": _places([score(row.question, titled(p)) for p in row.passages]),
        }
        for weight in (0.0, 0.5):
            order = f"{OURS}, weight {weight:g}" + " (default)" * (weight == default)
            places[order] = _places([one.combine(weight) for one in scores])
        ours = _places([one.combine(default) for one in scores])
        for other, place in (("BM25", places["BM25"]), (OURS, ours)):
            fused = sum(1 / (FUSION + 1 + each) for each in (places[DENSE], place))
            places[f"fusion of dense and {other}"] = _places(fused)
        for order, place in places.items():
            ordered = [int(labels[i]) for i in np.argsort(place)]
            values = {metric: measure(ordered) for metric, measure in METRICS.items()}
            yield Measured(f"{name}: {row.question}", values, order, name)


def _places(scores: Any) -> Any:
    """Return the place of each passage, best first; equals keep the dense order."""
    return np.argsort(np.argsort(-np.asarray(scores), kind="stable"))


def draw(table: Table, path: Path) -> None:
    """Draw answers kept over the fraction of the words, over all sets, ours on top."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    curves: dict[str, list[float]] = {}
    for figure in table.figures:
        if figure.measure.startswith(KEPT) and figure.value is not None:
            curves.setdefault(figure.system, []).append(figure.value)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "worth", "font.size": 10}):
        drawing = Figure(figsize=(8, 4.2), layout="constrained", facecolor="white")
        axes = drawing.subplots()
        others = iter(zip(COLORS, 3 * ("o", "s", "^"), strict=False))
        for way, curve in sorted(curves.items(), key=lambda each: -fmean(each[1])):
            color, marker = (HIGHLIGHT, "o") if way == OURS else next(others)
            width, order = (3.2, 3) if way == OURS else (1.3, 2)
            name = "ours: FitRag()" if way == OURS else way
            axes.plot(
                FRACTIONS, curve, marker, ls="-", color=color, lw=width, zorder=order,
                markersize=2 * width**0.8, label=name,
            )  # fmt: skip
        axes.set(xlabel="words kept", ylabel="answers kept", xticks=FRACTIONS, ylim=(None, 1.0))
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_title(f"Answers kept in {table.figures[0].questions} lists of retrieved passages")
        axes.grid(color="#e6e6e6", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        drawing.legend(loc="outside right center", frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
