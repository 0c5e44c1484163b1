"""Measure how often the bundled reader is right, and how sure it then is, by kind of question.

    python scripts/student/reading.py LISTS/held.jsonl WIKI/held.jsonl [-n 320]

Each list is ordered by the bundled scorer; the answer is the reader's best over the first five
passages. It is right if it contains a gold answer or shares half of its words with one (F1). Prints
for documentation, by the rule that made the question, and for Wikipedia: how many are right, how
many answers are at or above `abstain_below`, and how many of those are right; then, for the scores
of each tenth, how many are right; and for thresholds how often to answer or to abstain is right,
which it is below the threshold if none of the five passages holds the answer. No answer to a
twisted question of rows.py is right.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from fitrag_integrations.evaluation.answers import contains_answer, token_f1
from fitrag_integrations.methods.defaults import default_model
from fitrag_integrations.training.rows import read_jsonl
from fitrag_integrations.types import Passage

READ = 5
THRESHOLDS = [step / 20 for step in range(15)]
Found = tuple[float, bool, bool]  # an answer's score, whether it is right and could have been


def main() -> None:
    """Read the rows and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("docs", type=Path)
    parser.add_argument("wiki", type=Path)
    parser.add_argument("-n", type=int, default=320, help="questions of a file")
    args = parser.parse_args()
    least = default_model("reader").abstain_below
    print(f"| questions | | right | answered (>= {least}) | of them right |\n|---|---|---|---|---|")
    tenths, decided = {}, {}
    for name, path in (("documentation", args.docs), ("Wikipedia", args.wiki)):
        rows = [dict(row) for row in read_jsonl(path)]
        random.Random(3).shuffle(rows)
        found: dict[str, list[Found]] = defaultdict(list)
        for row in rows[: args.n]:
            found[str(row.get("rule", ""))].append(answered(row))
        everything = [one for each in found.values() for one in each]
        groups = {name: everything} | ({} if len(found) == 1 else dict(sorted(found.items())))
        for group, each in groups.items():
            above = [right for score, right, _ in each if score >= least]
            print(
                f"| {group} | {len(each)} | {share([one[1] for one in each])} | {len(above)} | "
                f"{share(above)} |"
            )
        tenths[name] = [
            share([right for score, right, _ in everything if int(10 * score) == tenth])
            for tenth in range(10)
        ]
        decided[name] = [
            share([right if score >= at else not held for score, right, held in everything])
            for at in THRESHOLDS
        ]
    for name, shares in tenths.items():
        print(f"right by tenths of the score, {name}: {' '.join(shares)}")
    print(f"thresholds: {' '.join(map(str, THRESHOLDS))}")
    for name, shares in decided.items():
        print(f"answered or abstained rightly, {name}: {' '.join(shares)}")


def answered(row: dict[str, Any]) -> Found:
    """Read a list's best passages."""
    passages = [
        Passage(str(number), one["text"], one.get("title") or "")
        for number, one in enumerate(row["passages"])
    ]
    pairs = [(row["question"], passage) for passage in passages]
    scores = default_model("scorer").score(pairs)
    order = sorted(range(len(pairs)), key=lambda i: -scores[i].combine())[:READ]
    best = max(default_model("reader").read([pairs[i] for i in order]), key=lambda one: one.score)
    golds = row["answers"]
    near = token_f1(best.text, golds) >= 0.5
    asked = row["kind"] != "twist"  # what is asked by a twist has no answer in its passage
    held = asked and any(row["passages"][i].get("has") for i in order)
    return best.score, asked and (near or contains_answer(best.text, golds)), held


def share(right: list[bool]) -> str:
    """Write a share of right answers."""
    return f"{sum(right) / len(right):.2f}" if right else "-"


if __name__ == "__main__":
    main()
