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
import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from compression_rows import Asked
from worth_peers import Kept, Scores, ways
from worth_rows import ELSEWHERE, WIKIPEDIA, Vectors, load, titled

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.ranking import recall_at, reciprocal_rank
from fitrag_integrations.evaluation.table import paired_interval
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.fitrag.options import score_port
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.text.bm25 import BM25

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
OURS, DENSE = "ours", "dense"
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
    parser.add_argument("--backend", default="onnx", help="of the encoder: onnx or torch")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    vectors, scorer = Vectors(Encoder.embedded(backend=args.backend)), Scores(score_port().owner)
    found: dict[str, Any] = {}
    for name in (*args.sets, *args.rows):
        rows = load(name, args.data, vectors, n=args.n, seed=args.seed)
        kept = {way: run(rows, FRACTIONS) for way, run in ways(vectors, scorer).items()}
        found[name] = {"lists": len(rows), "kept": kept, "ranked": ranked(rows, scorer)}
        print(
            f"{name}: {len(rows)} lists, {time.process_time():.0f} s of processor time", flush=True
        )
    groups = {
        "all": list(found),
        "Wikipedia": [name for name in found if name in WIKIPEDIA],
        "elsewhere": [name for name in found if name not in WIKIPEDIA],
    }
    about = (
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, seed {args.seed}, "
        f"EmbeddingsFilter: {'class' if find_spec('langchain_community') else 'rule'}"
    )
    print("\n".join(["", about, *page(found, groups)]))
    if args.json is not None:
        args.json.write_text(json.dumps({"about": about, "sets": found}) + "\n")
    if args.plot is not None:
        draw(found, args.plot)


def ranked(rows: Sequence[Asked], scorer: Scores) -> dict[str, dict[str, list[float]]]:
    """Return each order's metrics, a number for each list."""
    score = BM25(titled(passage) for row in rows for passage in row.passages)
    default = FitRag().weight
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        labels = [contains_answer(titled(passage), row.answers) for passage in row.passages]
        scores = scorer.wholes(row)
        places = {
            DENSE: np.arange(len(labels)),
            "BM25": _places([score(row.question, titled(p)) for p in row.passages]),
        }
        for weight in (0.0, 0.5):
            name = f"{OURS}, weight {weight:g}" + " (default)" * (weight == default)
            places[name] = _places([one.combine(weight) for one in scores])
        places[OURS] = _places([one.combine(default) for one in scores])
        for other in ("BM25", OURS):
            fused = sum(1 / (FUSION + 1 + places[each]) for each in (DENSE, other))
            places[f"fusion of dense and {other}"] = _places(fused)
        del places[OURS]
        for name, place in places.items():
            ordered = [int(labels[i]) for i in np.argsort(place)]
            for metric, measure in METRICS.items():
                found.setdefault(name, {}).setdefault(metric, []).append(measure(ordered))
    return found


def _places(scores: Any) -> Any:
    """Return the place of each passage, best first; equals keep the dense order."""
    return np.argsort(np.argsort(-np.asarray(scores), kind="stable"))


def page(found: dict[str, Any], groups: dict[str, list[str]]) -> Iterator[str]:
    """Return the tables in Markdown."""
    for group, names in groups.items():
        if names:
            yield from ("", f"### Answers kept: {group}, {_count(found, names)} lists", "")
            yield from compression(found, names)
    for fraction in (0.2, 0.4):
        yield from ("", f"### Answers kept for {fraction:g} of the words, by set", "")
        yield from by_set(found, FRACTIONS.index(fraction))
    for group, names in groups.items():
        if names:
            yield from ("", f"### Ranking: {group}, {_count(found, names)} lists", "")
            yield from ranking(found, names)


def compression(found: dict[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Return the rows of one table: a line for each fraction."""
    all_ways = list(found[names[0]]["kept"])
    yield _line("fraction", *all_ways, "ours less the best other")
    yield _line(*["---"] * (len(all_ways) + 2))
    for i, fraction in enumerate(FRACTIONS):
        flags = {way: _flags(found, names, way, i) for way in all_ways}
        best = max((way for way in all_ways if way != OURS), key=lambda way: fmean(flags[way]))
        cells = [
            _number(fmean(flags[way]), bold=way == OURS) + _short(found, names, way, i)
            for way in all_ways
        ]
        yield _line(f"{fraction:g}", *cells, _gain(flags[OURS], flags[best]))


def by_set(found: dict[str, Any], place: int) -> Iterator[str]:
    """Return the rows of one table: a line for each set."""
    all_ways = list(next(iter(found.values()))["kept"])
    yield _line("set", "lists", *all_ways)
    yield _line(*["---"] * (len(all_ways) + 2))
    for name in found:
        means = [fmean(_flags(found, [name], way, place)) for way in all_ways]
        cells = [_number(mean, bold=mean == max(means)) for mean in means]
        yield _line(name, str(found[name]["lists"]), *cells)


def ranking(found: dict[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Return the rows of one table: a line for each order, with its gain over the dense one."""
    yield _line("order", *METRICS, "MRR less dense")
    yield _line(*["---"] * (len(METRICS) + 2))
    for order in found[names[0]]["ranked"]:
        values = {
            who: [np.concatenate([found[n]["ranked"][who][m] for n in names]) for m in METRICS]
            for who in (order, DENSE)
        }
        gain = "" if order == DENSE else _gain(values[order][0], values[DENSE][0])
        yield _line(order, *(_number(float(each.mean())) for each in values[order]), gain)


def _flags(found: dict[str, Any], names: Sequence[str], way: str, place: int) -> list[float]:
    return [float(Kept(*one).answer) for name in names for one in found[name]["kept"][way][place]]


def _short(found: dict[str, Any], names: Sequence[str], way: str, place: int) -> str:
    """Return the fraction spent, in brackets, where a way does not spend all that it may."""
    spent = fmean(Kept(*one).fraction for n in names for one in found[n]["kept"][way][place])
    return f" ({spent:.2f})" if spent < FRACTIONS[place] - 0.01 else ""


def _count(found: dict[str, Any], names: Sequence[str]) -> int:
    return sum(found[name]["lists"] for name in names)


def _number(value: float, *, bold: bool = False) -> str:
    text = f"{value:.3f}"
    return f"**{text}**" if bold else text


def _gain(first: Any, second: Any) -> str:
    low, high = paired_interval(first, second)
    return f"{fmean(first) - fmean(second):+.3f} [{low:+.3f}, {high:+.3f}]"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw answers kept over the fraction of the words, over all sets, ours on top."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    names, every = list(found), range(len(FRACTIONS))
    curves = {
        way: [fmean(_flags(found, names, way, i)) for i in every] for way in found[names[0]]["kept"]
    }
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
        axes.set_title(f"Answers kept in {_count(found, names)} lists of retrieved passages")
        axes.grid(color="#e6e6e6", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        drawing.legend(loc="outside right center", frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        drawing.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
