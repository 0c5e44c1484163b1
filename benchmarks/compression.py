"""Measure compression: is the answer still inside, at which share of the words?

    python benchmarks/compression.py DATA [--sets nq squad_dev] [-n 60] [--seed 7]
        [--json out.json] [--plot out.png] [--dtype bfloat16]

One curve for each of this package's ways to choose: windows of three sentences with the detector
(FIT-RAG, section 4.4.2, its threshold swept), single sentences, windows judged in one pass, and
CRAG's strips. Passages that hold an answer only; intervals by bootstrap over questions. Beside
them, as shipped: the answers kept, the share, and the accuracy of the embedded reader against
reading everything (McNemar's test). Other libraries' ways are compared in `worth.py`, and the cost
beside reranking is in `compression_cost.py`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from compression_rows import SETS, Asked, curve, load

from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.evaluation.figures.figure import mcnemar, mean_interval
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods.crag.refiner import strips
from fitrag_integrations.methods.fitrag.reducer import TokenReducer, score_port
from fitrag_integrations.models import (
    BiLabelScorer,
    EligibilityDetector,
    ExtractiveReader,
    RetrievalEvaluator,
)
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.windows import merge

Levels = list[tuple[float, bool, float]]  # (level, answer kept, share), least kept first
SENTENCES: dict[str, Any] = {"window": 1, "per_passage": None}
PAIRS = TokenReducer(
    scoring="windows",
    max_share=DEFAULTS.plain.max_share,
    min_tokens=DEFAULTS.plain.min_tokens,
    detector=False,
)
"""What a scorer of pairs alone is called for within the default share of tokens, cut in ways."""
SHIPPED = {
    "default": TokenReducer(),
    "windows": TokenReducer(scoring="windows"),
    "windows, no detector": TokenReducer(scoring="windows", detector=False),
    "pairs alone: windows of three": replace(
        PAIRS, window=DEFAULTS.plain.window, per_passage=DEFAULTS.plain.per_passage
    ),
    "pairs alone: any windows of three": replace(PAIRS, window=3, per_passage=None),
    "pairs alone: sentences": replace(PAIRS, window=1, per_passage=None),
}
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
AT_ONCE = 16


def main() -> None:
    """Measure each set, print it, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("-n", type=int, default=60, help="questions a set, 0 for all")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--plot", type=Path, default=None)
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--only", nargs="+", default=None, help="ways to choose")
    args = parser.parse_args()
    scorer = BiLabelScorer.embedded(dtype=args.dtype)
    reader = ExtractiveReader.embedded(dtype=args.dtype)
    ways = {k: v for k, v in _ways(scorer, args.dtype).items() if k in (args.only or [k])}
    found: dict[str, Any] = {}
    for name in args.sets:
        rows = load(args.data, name, n=args.n, seed=args.seed)
        found[name] = {"questions": len(rows), "curves": {}, "shipped": {}}
        for way, levels in ways.items():
            found[name]["curves"][way] = _points(curve([levels(row) for row in rows]))
            _tell(name, way, found[name]["curves"][way])
        for way, reducer in SHIPPED.items():
            found[name]["shipped"][way] = _shipped(rows, reducer, reader)
            print(f"{name} as shipped, {way}: {found[name]['shipped'][way]}", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    if args.plot is not None:
        _draw(found, args.plot)


def _ways(scorer: BiLabelScorer, dtype: str | None) -> dict[str, Callable[[Asked], Levels]]:
    """Give each way to choose: from a question to its levels."""
    score, ways = score_port(scorer), dict[str, Callable[[Asked], Levels]]()

    def reduced(detector: EligibilityDetector | None, port: Any, **options: Any) -> Any:
        reducer = TokenReducer(scorer=port, top_n=None, detector=False, **options)

        def levels(row: Asked) -> Levels:
            (traced,) = run_many([reducer.reduction(row.question, row.passages)])
            ranked = list(traced.value[1].ranked)
            return _prefixes(row, ranked, None if detector is None else _chances(detector, ranked))

        return levels

    ways["windows, by number"] = reduced(None, score, scoring="windows")
    ways["windows + detector"] = reduced(EligibilityDetector.embedded(), score, scoring="windows")
    ways["sentences, by number"] = reduced(None, score, scoring="windows", **SENTENCES)
    ways["one-pass"] = reduced(None, score, scoring="one_pass", window=3)
    ways["one-pass sentences"] = reduced(None, score, scoring="one_pass", **SENTENCES)
    ways["strips"] = _strips(RetrievalEvaluator.embedded(dtype=dtype))
    return ways


def _prefixes(row: Asked, ranked: Sequence[Excerpt], chances: Sequence[float] | None) -> Levels:
    """Give every prefix of a ranked list; its level is the part of the list, or a probability."""
    levels: Levels = []
    for length in range(1, len(ranked) + 1):
        kept = merge(ranked[:length])
        level = length / len(ranked) if chances is None else chances[length - 1]
        levels.append((level, row.holds(kept), row.share(kept)))
    return levels


def _chances(detector: EligibilityDetector, ranked: Sequence[Excerpt]) -> list[float]:
    labels = [excerpt.labels for excerpt in ranked]
    return detector.eligible_among([(labels[:i], labels[i:]) for i in range(1, len(labels) + 1)])


def _strips(evaluator: RetrievalEvaluator) -> Callable[[Asked], Levels]:
    def levels(row: Asked) -> Levels:
        cut = [piece for passage in row.passages for piece in strips(passage, sentences=1)]
        grades = evaluator.evaluate([(row.question, piece.as_passage()) for piece in cut])
        order = sorted(zip(grades, range(len(cut)), strict=True), key=lambda one: -one[0])
        ranked = [cut[i] for _, i in order]
        return _prefixes(row, ranked, [-grade for grade, _ in order])

    return levels


def _points(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep the best point at or under each share, with its interval."""
    chosen = []
    for share in SHARES:
        under = [point for point in points if point["share"] <= share + 1e-9]
        if under:
            best = under[-1]
            low, high = mean_interval(np.array(best["flags"], float), resamples=500)
            plain = {k: v for k, v in best.items() if k != "flags"}
            chosen.append({"at_most": share, **plain, "low": low, "high": high})
    return chosen


def _tell(name: str, way: str, points: Sequence[dict[str, Any]]) -> None:
    told = ", ".join(f"{p['kept']:.3f} at {p['share']:.2f}" for p in points)
    print(f"{name} {way}: {told}", flush=True)


def _shipped(
    rows: Sequence[Asked], reducer: TokenReducer, reader: ExtractiveReader
) -> dict[str, float]:
    """Compress as a user would without arguments, and read before and after."""
    reducer = replace(reducer, top_n=None)
    flows = [reducer.context(row.question, row.passages) for row in rows]
    kept = [list(context.excerpts) for context in _lots(flows)]
    before = _right(rows, [[Excerpt.whole(p) for p in row.passages] for row in rows], reader)
    after = _right(rows, kept, reader)
    flags = [row.holds(own) for row, own in zip(rows, kept, strict=True)]
    low, high = mean_interval(np.array(flags, float), resamples=500)
    return {
        "kept": fmean(flags),
        "low": low,
        "high": high,
        "share": fmean(row.share(own) for row, own in zip(rows, kept, strict=True)),
        "accuracy_of_all": fmean(before),
        "accuracy": fmean(after),
        "p": mcnemar(after, before),
    }


def _lots(flows: Sequence[Any]) -> Iterator[Any]:
    for start in range(0, len(flows), AT_ONCE):
        yield from (traced.value for traced in run_many(flows[start : start + AT_ONCE]))


def _right(
    rows: Sequence[Asked], kept: Sequence[Sequence[Excerpt]], reader: ExtractiveReader
) -> list[float]:
    """Answer from the passage the reader trusts most, what is left of it read as one text."""
    right = []
    for row, own in zip(rows, kept, strict=True):
        answers = reader.read([(row.question, passage) for passage in _grouped(own)])
        best = max(answers, key=lambda answer: answer.score)
        right.append(float(row.is_right(best.text)))
    return right


def _grouped(excerpts: Sequence[Excerpt]) -> list[Passage]:
    """Put what is kept of each passage together, in its order, as a prompt shows it."""
    groups: dict[Passage, list[Excerpt]] = {}
    for excerpt in excerpts:
        groups.setdefault(excerpt.passage, []).append(excerpt)
    placed = {passage: sorted(own, key=lambda one: one.start) for passage, own in groups.items()}
    return [
        replace(passage, text=" ".join(excerpt.text for excerpt in own))
        for passage, own in placed.items()
    ]


def _draw(found: dict[str, Any], path: Path) -> None:
    from matplotlib.figure import Figure

    sets = list(found)
    drawing = Figure(figsize=(5 * len(sets), 4), layout="constrained")
    for name, axes in zip(sets, drawing.subplots(1, len(sets), squeeze=False)[0], strict=True):
        for way, points in found[name]["curves"].items():
            if not points:  # one short passage: even the best window is more than any share
                continue
            shares, kept = zip(*((p["share"], p["kept"]) for p in points), strict=True)
            axes.plot(shares, kept, marker="o", markersize=3, label=way)
        axes.axhline(0.95, linestyle=":", color="grey")
        axes.set(title=name, xlabel="share of the words kept", ylabel="answers kept")
    drawing.axes[0].legend(fontsize=7)
    drawing.savefig(path)


if __name__ == "__main__":
    main()
