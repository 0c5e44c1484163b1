"""Measure how often the bundled reader is right, and how sure it then is, by kind of question.

    python scripts/student/reading.py DOCS/docs_held.jsonl WIKI/held.jsonl [-n 320]

Each list is ordered by the bundled scorer; the answer is the reader's best over the first five
passages. It is right if it contains a gold answer or shares half of its words with one (F1). Prints
for documentation, by the rule that made the question, and for Wikipedia: how many are right, how
many answers are at or above `abstain_below`, and how many of those are right; then, for the scores
of each tenth, how many are right.
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
Found = tuple[float, bool]  # the score of an answer, and whether it is right


def main() -> None:
    """Read the rows and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("docs", type=Path)
    parser.add_argument("wiki", type=Path)
    parser.add_argument("-n", type=int, default=320, help="questions of a file")
    args = parser.parse_args()
    least = default_model("reader").abstain_below
    print(f"| questions | | right | answered (>= {least}) | of them right |\n|---|---|---|---|---|")
    tenths = {}
    for name, path in (("documentation", args.docs), ("Wikipedia", args.wiki)):
        rows = [dict(row) for row in read_jsonl(path)]
        random.Random(3).shuffle(rows)
        found: dict[str, list[Found]] = defaultdict(list)
        for row in rows[: args.n]:
            found[str(row.get("rule", ""))].append(answered(row))
        everything = [one for each in found.values() for one in each]
        groups = {name: everything} | ({} if len(found) == 1 else dict(sorted(found.items())))
        for group, each in groups.items():
            above = [right for score, right in each if score >= least]
            print(
                f"| {group} | {len(each)} | {share([right for _, right in each])} | {len(above)} | "
                f"{share(above)} |"
            )
        tenths[name] = [
            share([right for score, right in everything if int(10 * score) == tenth])
            for tenth in range(10)
        ]
    for name, shares in tenths.items():
        print(f"right by tenths of the score, {name}: {' '.join(shares)}")


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
    return best.score, near or contains_answer(best.text, golds)


def share(right: list[bool]) -> str:
    """Write a share of right answers."""
    return f"{sum(right) / len(right):.2f}" if right else "-"


if __name__ == "__main__":
    main()
