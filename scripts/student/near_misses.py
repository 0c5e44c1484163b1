"""Measure runs on near misses: the question's words without the answer, beside the answer.

    python scripts/student/near_misses.py RUN... [--lists benchmarks/near_misses.jsonl]

A run is a folder of weights, as fit.py writes it, or "shipped". Prints by kind how many lists have
the passage with the answer first, by each label and by the first two together, and the mean
probability of has_answer of what answers and of what does not.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from quick import Quick  # noqa: E402
from reference import LABELS, sigmoid  # noqa: E402

from fitrag_integrations.text.sentences import split_sentences  # noqa: E402
from fitrag_integrations.training.rows import read_jsonl  # noqa: E402

LISTS = Path(__file__).resolve().parents[2] / "benchmarks" / "near_misses.jsonl"


def main() -> None:
    """Ask every run of every list and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--lists", type=Path, default=LISTS)
    args = parser.parse_args()
    rows = [dict(row) for row in read_jsonl(args.lists)]
    for run in args.runs:
        model = Quick(run)
        first: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
        chances: dict[bool, list[float]] = {True: [], False: []}
        for row in rows:
            triples = [(row["question"], p["title"], p["text"]) for p in row["passages"]]
            judged = model.judge(triples, split_sentences)
            holds = np.array([bool(p["has"]) for p in row["passages"]])
            scores = {name: np.array([getattr(one, name) for one in judged]) for name in LABELS}
            scores["both"] = scores["has_answer"] + scores["llm_prefer"]
            for name, values in scores.items():
                for kind in ("all", row["kind"]):
                    first[kind][name].append(bool(holds[values.argmax()]))
            for hold, value in zip(holds, scores["has_answer"], strict=True):
                chances[bool(hold)].append(sigmoid(value))
        print(f"\n{run}")
        for kind, by in first.items():
            shown = ", ".join(f"{name} {sum(right)}" for name, right in by.items())
            print(f"{kind} ({len(by['both'])}): {shown}")
        print(f"answers {np.mean(chances[True]):.3f}, others {np.mean(chances[False]):.3f}")


if __name__ == "__main__":
    main()
