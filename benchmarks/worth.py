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
from keywords import bm25, words
from worth_peers import Kept, Scores, ways
from worth_rows import ELSEWHERE, WIKIPEDIA, Vectors, load, titled

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.figures.intervals import paired_interval
from fitrag_integrations.evaluation.ranking import recall_at, reciprocal_rank
from fitrag_integrations.methods import FitRag
from fitrag_integrations.methods.fitrag.reducer import score_port
from fitrag_integrations.retrieval import Encoder

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5)
OURS, DENSE = "ours", "dense"
SHARED = Path(__file__).parents[1] / ".." / "shared" / "data"
METRICS = {
    "MRR": reciprocal_rank,
    "recall@1": lambda labels: recall_at(labels, 1),
    "recall@5": lambda labels: recall_at(labels, 5),
}
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
        print(f"{name}: {len(rows)} lists, {time.process_time():.0f} s of processor time", flush=True)
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
    score = bm25([words(titled(passage)) for row in rows for passage in row.passages])
    default = FitRag().weight
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        labels = [contains_answer(titled(passage), row.answers) for passage in row.passages]
        scores = scorer.wholes(row)
        places = {
            DENSE: np.arange(len(labels)),
            "BM25": _places([score(words(row.question), words(titled(p))) for p in row.passages]),
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
        cells = [_number(fmean(flags[way]), bold=way == OURS) for way in all_ways]
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
    """Draw answers kept over the fraction of the words, over all sets."""
    from matplotlib.figure import Figure

    names, lines = list(found), []
    for way in found[names[0]]["kept"]:
        kept = [fmean(_flags(found, names, way, i)) for i in range(len(FRACTIONS))]
        lines.append((way, kept))
    drawing = Figure(figsize=(7, 4), layout="constrained", facecolor="white")
    axes = drawing.subplots()
    for way, kept in lines:
        axes.plot(FRACTIONS, kept, label=way)
    drawing.savefig(path)


if __name__ == "__main__":
    main()
