"""Measure `fitrag calibrate scores` on held-out lists: calibration error before and after, by kind.

    python scripts/student/calibration.py DATA KINDS.jsonl RUN STUDENT.json

KINDS.jsonl is what `kinds.py --out` wrote and RUN its run, STUDENT.json what `measure.py ask
student` wrote, of the retrieved lists. Of each kind, whole lists with about fifty labels are drawn
a hundred times; figures are of the lists left. "refused" is how often the fit found no gain on
lists left out, so that the scores stay. Then the same lists with other rates of answers: with the
answer taken from three lists in four, or three in four of the passages without it left out, half
of the lists labeled before and half unlabeled after. At last, what expectation maximization makes
of unlabeled lists alone, whose prior is that of the lists that the scorer was calibrated on.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from measure import RETRIEVED, key, retrieved  # noqa: E402

from fitrag_integrations.evaluation.outcomes import calibration_error  # noqa: E402
from fitrag_integrations.evaluation.thresholds.scores import (  # noqa: E402
    LABELS,
    chances,
    fit_line,
    left_out,
    prior_shift,
)

DRAWS = 100
PRIOR = 0.1  # of the lists that has_answer was calibrated on
List = tuple[Any, Any]  # logits and labels


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("kinds", type=Path)
    parser.add_argument("run")
    parser.add_argument("student", type=Path)
    args = parser.parse_args()
    by = of_kinds(args.kinds, args.run) | of_sets(args.data, args.student)
    print("lists | base rate | before | after, 50 labels | 95 % of draws | refused | prior alone")
    for name, lists in by.items():
        print(f"{name} | {len(lists)} | {' | '.join(labeled(lists))} | {alone(lists):.3f}")
    print("\nanother rate of answers | base rate | before | labels | and prior shift")
    for name in ("documentation", "wiki", *RETRIEVED):
        for change in ("three in four lists without", "a quarter of the others"):
            print(f"{name}, {change} | {' | '.join(moved(by[name], change))}")


def of_kinds(path: Path, run: str) -> dict[str, list[Any]]:
    """Read the lists of each kind, and all of documentation."""
    figures = next(r["rows"] for r in map(json.loads, path.open()) if r["run"] == run)
    made: dict[str, list[Any]] = {"documentation": []}
    for kind, pairs in zip(figures["kind"], figures["pairs"], strict=True):
        chance, gold = np.array(pairs, dtype=float).T
        chance = chance.clip(1e-6, 1 - 1e-6)
        one = np.log(chance / (1 - chance)), gold
        made.setdefault(kind, []).append(one)
        if kind not in ("wiki", "paper"):
            made["documentation"].append(one)
    return made


def of_sets(data: Path, path: Path) -> dict[str, list[Any]]:
    """Read the retrieved lists of five."""
    known, made = json.loads(path.read_text()), dict[str, list[Any]]()
    for name in RETRIEVED:
        rows = [
            ([key("retrieved", row["question"], *p) for p in row["passages"]], row["gold"])
            for row in retrieved(data, name)
        ]
        made[name] = [
            (np.array([known[one]["has"] for one in names]), np.array(gold, dtype=float))
            for names, gold in rows
            if all(one in known for one in names)
        ]
    return made


def error(lists: list[Any], slope: float = 1.0, shift: float = 0.0) -> float:
    """Compute the calibration error of lists after a correction."""
    x, y = (np.concatenate(each) for each in zip(*lists, strict=True))
    return float(calibration_error(chances(slope * x + shift).tolist(), y.astype(int).tolist()))


def labeled(lists: list[Any]) -> list[str]:
    """Return base rate, errors before and after fifty labels, their range, and refusals."""
    rng, before, after, refused = np.random.default_rng(0), [], [], 0
    for _ in range(DRAWS):
        order = rng.permutation(len(lists))
        sizes = np.cumsum([len(lists[i][0]) for i in order])
        cut = min(int(np.searchsorted(sizes, LABELS)) + 1, len(lists) - 1)
        some, rest = ([lists[i] for i in part] for part in (order[:cut], order[cut:]))
        x, y = zip(*some, strict=True)
        _, (without, corrected) = left_out(x, y)
        keep = corrected >= without
        refused += keep
        before.append(error(rest))
        line = (1.0, 0.0) if keep else fit_line(np.concatenate(x), np.concatenate(y))
        after.append(error(rest, *line))
    low, high = np.quantile(after, [0.025, 0.975])
    rate = np.concatenate([y for _, y in lists]).mean()
    return [
        f"{rate:.3f}",
        f"{np.mean(before):.3f}",
        f"{np.mean(after):.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{refused / DRAWS:.2f}",
    ]


def alone(lists: list[Any]) -> float:
    """Compute the error after expectation maximization without labels."""
    prior = np.array([np.log(PRIOR / (1 - PRIOR))])
    return error(lists, 1.0, prior_shift(prior, np.concatenate([x for x, _ in lists])))


def moved(lists: list[Any], change: str) -> list[str]:
    """Return rate and errors of changed lists: uncorrected, by labels of others, by prior shift."""
    rng, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        order = rng.permutation(len(lists))
        some, rest = ([lists[i] for i in order[at::2]] for at in (0, 1))
        other = []
        for x, y in rest:
            if change.startswith("three"):
                kept = (y == 0) | (rng.random() < 0.25)
            else:
                kept = (y == 1) | (rng.random(len(y)) < 0.25)
            other.append((x[kept], y[kept]))
        x, y = (np.concatenate(each) for each in zip(*some, strict=True))
        slope, shift = fit_line(x, y)
        new = np.concatenate([x for x, _ in other])
        more = prior_shift(slope * x + shift, slope * new + shift)
        rate = np.concatenate([y for _, y in other]).mean()
        found.append(
            (rate, error(other), error(other, slope, shift), error(other, slope, shift + more))
        )
    return [f"{value:.3f}" for value in np.mean(found, axis=0)]


if __name__ == "__main__":
    main()
