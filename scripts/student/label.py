"""Write the logits that a scorer gives to the pairs of the training lists.

    PYTHONPATH=OTHER python scripts/student/label.py ROWS/train.jsonl FILE [--lists 100]

The scorer is the embedded one of whatever tree is imported: of commit 70bec94, the first one, which
reads late interaction as well. A row is {"pair": NAME, "logits": [has_answer, llm_prefer]}; lists
come in the file's order, and what is there already is not asked again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from pathlib import Path
from typing import Any

LOT = 4  # lists


def pair_name(question: str, passage: dict[str, Any]) -> str:
    """Name a pair by what stands in it."""
    told = json.dumps([question, passage["title"], passage["text"]])
    return hashlib.sha256(told.encode()).hexdigest()[:20]


def main() -> None:
    """Ask, a few lists at once."""
    from fitrag_integrations.models import BiLabelScorer
    from fitrag_integrations.types import Passage

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lists", type=int, default=None, help="so many at most")
    args = parser.parse_args()
    items = [item for item in map(json.loads, args.rows.open()) if item["kind"] == "rank"]
    known = set()
    if args.out.exists():
        known = {json.loads(line)["pair"] for line in args.out.open()}
    scorer = BiLabelScorer.embedded(dtype="bfloat16")
    left = items[: args.lists]
    with args.out.open("a") as file:
        for at in range(0, len(left), LOT):
            pairs = [
                (item["question"], p)
                for item in left[at : at + LOT]
                for p in item["passages"]
                if pair_name(item["question"], p) not in known
            ]
            found = scorer.score([(q, Passage("", p["text"], p["title"])) for q, p in pairs])
            for (question, passage), scores in zip(pairs, found, strict=True):
                both = [logit(scores.has_answer), logit(scores.llm_prefer)]
                row = {"pair": pair_name(question, passage), "logits": both}
                file.write(json.dumps(row) + "\n")
            file.flush()


def logit(probability: float) -> float:
    """Give the logit, at most 12 in size."""
    return max(-12.0, min(12.0, math.log(probability) - math.log1p(-probability)))


if __name__ == "__main__":
    main()
