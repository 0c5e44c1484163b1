"""Measure the embedded IK gate against gates that need no training, on the closed-book model.

    python -m scripts.closed_book.gate_rows ROWS        # once: drafts, labels, retrieved answers
    python benchmarks/gates.py ROWS [--model DIR] [--plots DIR] [--without FILE]

`knowing`: does the gate know what the model knows? Accuracy at the threshold that is best on the
validation questions, for every gate alike, and AUC, both on the test questions; then how far IK
with a draft is ahead in AUC, drawing the same questions for both. `answering`: what that is worth
where the extractive reader answers from the first passage, from five, and from five that FIT-RAG
has reranked and cut, for the questions that have it. Brackets hold 95 % of 1000 bootstrap samples.
`--without` names rows whose questions are left out of the test questions. Needs the extras
`evaluate` and, for --plots, `plots`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fitrag_integrations.evaluation.figures.figure import bootstrap, paired_interval
from fitrag_integrations.evaluation.outcomes import (
    Curve,
    Outcomes,
    Sweep,
    area,
    gate_accuracy,
    gate_auc,
)
from fitrag_integrations.evaluation.plots import plot_histogram, plot_sweep
from fitrag_integrations.evaluation.thresholds.gate import choose_threshold
from fitrag_integrations.methods.ik.gates import (
    EntropyGate,
    LikelihoodGate,
    MarginGate,
    PTrueGate,
)
from fitrag_integrations.models import IKClassifier
from fitrag_integrations.training.rows import read_jsonl

Row = dict[str, Any]
Scores = dict[str, list[float]]
READ = {
    "with": "the first passage",
    "five": "five passages",
    "reranked": "five passages, reranked and cut by FIT-RAG",
}
OURS, ALONE = "IK, 32 tokens", "IK, question alone"


def main() -> None:
    """Score the questions with every gate, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--model", default=None, help="folder of an IK gate; the embedded one")
    parser.add_argument("--plots", type=Path, default=None)
    parser.add_argument("--without", type=Path, default=None)
    args = parser.parse_args()
    gate = IKClassifier.from_pretrained(args.model) if args.model else IKClassifier.embedded()
    valid = list(read_jsonl(args.rows / "gate_valid.jsonl"))
    test = list(read_jsonl(args.rows / "test.jsonl"))
    if args.without is not None:
        seen = {row["question"] for row in read_jsonl(args.without)}
        test = [row for row in test if row["question"] not in seen]
    fitted, scores = scored(gate, valid), scored(gate, test)
    for line in (*knowing(valid, fitted, test, scores), *answering(test, scores, gate.threshold)):
        print(line, flush=True)
    if args.plots is not None:
        draw(test, scores, args.plots)


def scored(gate: IKClassifier, rows: Sequence[Row]) -> Scores:
    """Give every gate's p_known, the drafts being the same for all."""
    questions, drafts = [row["question"] for row in rows], [row["draft"] for row in rows]
    drafter: Any = gate.drafter
    free: dict[str, Any] = {
        "entropy": EntropyGate(drafter),
        "likelihood": LikelihoodGate(drafter),
        "margin": MarginGate(drafter),
        "P(True)": PTrueGate(drafter),
    }
    told = {name: each.p_known(questions, drafts) for name, each in free.items()}
    blank = [""] * len(rows)
    return {
        OURS: gate.p_known(questions, drafts),
        ALONE: gate.p_known(questions, blank),
        **told,
    }


def knowing(
    valid: Sequence[Row], fitted: Scores, test: Sequence[Row], scores: Scores
) -> Iterator[str]:
    """Compare the gates by what they know."""
    known = float(np.mean([row["known"] for row in test]))
    yield f"{len(test)} test questions, known {known:.3f}; thresholds fitted on {len(valid)} others"
    ours = about_known(test, scores[OURS])
    for name in scores:
        before, outcomes = about_known(valid, fitted[name]), about_known(test, scores[name])
        limit = choose_threshold(before, resamples=0).value
        accuracy = _figure(outcomes, partial(gate_accuracy, threshold=limit))
        line = f"  {name:20} accuracy {accuracy}  AUC {_figure(outcomes, gate_auc)}"
        if name != OURS:
            line += f"  {OURS} ahead by {_ahead(ours, outcomes)}"
        yield line
    yield f"  {OURS} at 0.5: accuracy {_figure(ours, gate_accuracy)}"


def about_known(rows: Sequence[Row], p_known: Sequence[float]) -> Outcomes:
    """Put the scores of a gate beside what is known."""
    pairs = zip(rows, p_known, strict=True)
    return Outcomes.of([{"p_known": p, "known": row["known"]} for row, p in pairs])


def answering(test: Sequence[Row], scores: Scores, threshold: float) -> Iterator[str]:
    """Tell what the embedded gate is worth at its own threshold, and at all others."""
    for column, told in READ.items():
        outcomes = about_answers(test, scores[OURS], f"right_{column}")
        if outcomes is None or outcomes.right_with is None:
            continue
        sweep = Sweep.of(outcomes)
        answers = np.where(outcomes.p_known > threshold, outcomes.without, outcomes.right_with)
        low, high = paired_interval(answers, outcomes.right_with)
        yield (
            f"{len(outcomes)} questions, {told}: never {sweep.never:.3f}, "
            f"always {sweep.always:.3f}, oracle {sweep.oracle:.3f}"
        )
        yield (
            f"  at {threshold:.3f}, as fitted: accuracy "
            f"{_figure(outcomes, lambda o: o.accuracy(threshold))}, share of retrieval "
            f"{_figure(outcomes, lambda o: o.share(threshold))}, against always "
            f"{float(np.mean(answers - outcomes.right_with)):+.3f} [{low:+.3f}, {high:+.3f}]"
        )
        best, half = (
            sweep.best_point,
            max((p for p in sweep.points if p.share <= 0.5), key=lambda p: p.accuracy),
        )
        assert sweep.always is not None  # with retrieval every question was tried
        as_good = [p for p in sweep.points if p.accuracy >= sweep.always]
        least = min(as_good, key=lambda p: p.share)
        yield (
            f"  best point: {best.accuracy:.3f} at a share of {best.share:.3f}; retrieving for at "
            f"most half: {_figure(outcomes, _at_half)} ({half.accuracy:.3f} at {half.share:.3f}); "
            f"as right as always from a share of {least.share:.3f}"
        )
        for name, p_known in scores.items():
            each = about_answers(test, p_known, f"right_{column}")
            assert each is not None
            yield f"  sweep area, {name:20} {_figure(each, area)}"


def about_answers(rows: Sequence[Row], p_known: Sequence[float], column: str) -> Outcomes | None:
    """Put the scores of a gate beside the answers, of the questions that were answered so."""
    chosen = [
        {
            "p_known": p,
            "known": row["known"],
            "right_without": row["right_without"],
            "right_with": row[column],
        }
        for row, p in zip(rows, p_known, strict=True)
        if row.get(column) is not None
    ]
    return Outcomes.of(chosen) if chosen else None


def draw(test: Sequence[Row], scores: Scores, folder: Path) -> None:
    """Draw the sweep of every gate and the histogram of IK's scores."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = {name: scores[name] for name in (OURS, ALONE, "entropy")}
    named = {name: about_answers(test, p, "right_with") for name, p in shown.items()}
    sweeps = {name: Sweep.of(outcomes) for name, outcomes in named.items() if outcomes is not None}
    axes = {"sweep": plot_sweep(sweeps, title="Closed-book model, first passage")}
    axes["sweep"].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axes["histogram"] = plot_histogram(about_known(test, scores[OURS]), title=OURS)
    for name, drawn in axes.items():
        figure: Any = drawn.figure
        figure.savefig(folder / f"{name}.png", dpi=120)


def _at_half(outcomes: Outcomes) -> float:
    curve = Curve.of(outcomes)
    return float(curve.accuracy[curve.share <= 0.5].max())


def _ahead(ours: Outcomes, other: Outcomes) -> str:
    def figure(places: Any) -> float | None:
        one, two = gate_auc(ours.take(places)), gate_auc(other.take(places))
        return None if one is None or two is None else one - two

    return _told(figure(np.arange(len(ours))), bootstrap(figure, len(ours)), "+.3f")


def _figure(outcomes: Outcomes, figure: Callable[[Outcomes], float | None]) -> str:
    bounds = bootstrap(lambda places: figure(outcomes.take(places)), len(outcomes))
    return _told(figure(outcomes), bounds, ".3f")


def _told(value: float | None, bounds: Any, form: str) -> str:
    if value is None or bounds is None:
        return "-"
    return f"{value:{form}} [{bounds[0]:{form}}, {bounds[1]:{form}}]"


if __name__ == "__main__":
    main()
