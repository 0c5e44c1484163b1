"""Say what a scorer that ships, or once did, thinks of the lists, for the student to learn from.

    python scripts/student/label.py ROWS OUT.jsonl [--lists 0 7000]
    git worktree add OLD 70bec94 && PYTHONPATH=OLD python scripts/student/label.py ROWS FIRST.jsonl

The second line asks the first scorer, of late interaction, which the second has replaced. Goes on
from what OUT.jsonl has; each line holds a list's question and the two logits of each passage.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.types import Passage

TOGETHER = 20  # lists


def main() -> None:
    """Label the lists in the order in which they are trained on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lists", type=int, nargs=2, default=(0, 7000), help="from, to")
    args = parser.parse_args()
    torch.set_num_threads(1)
    scorer = BiLabelScorer.embedded(dtype="bfloat16")
    lists = [i for i in map(json.loads, (args.rows / "train.jsonl").open()) if i["kind"] == "rank"]
    first, last = args.lists
    first += sum(1 for _ in args.out.open()) if args.out.exists() else 0
    with args.out.open("a") as file:
        for at in range(first, min(last, len(lists)), TOGETHER):
            some = lists[at : min(at + TOGETHER, last)]
            pairs = [
                (i["question"], Passage("", p["text"], p["title"]))
                for i in some
                for p in i["passages"]
            ]
            found = iter(scorer.score(pairs))
            for item in some:
                said = [next(found) for _ in item["passages"]]
                logits = [[one.has_answer_logit, one.llm_prefer_logit] for one in said]
                file.write(json.dumps({"question": item["question"], "logits": logits}) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
