"""Compare skipping retrieval for what the model seems to know with always retrieving.

    python -m scripts.closed_book.sweep [--questions N]

Retrieval is the embedded encoder, a flat index and the embedded reader on the first passage. The
gate is the mean log-probability of the model's draft, which needs no training.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.models import ExtractiveReader
from fitrag_integrations.models.causal.loading import load_causal
from fitrag_integrations.retrieval import FaissIndex, read_corpus
from scripts.closed_book.demo_facts import read_rows
from scripts.closed_book.measure import HOME, drafts

SHARES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


def main() -> None:
    """Print accuracy against the share of questions retrieved for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, help="only the first of the test questions")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for row in read_rows(HOME / "questions.jsonl") if row["split"] == "test"]
    rows = rows[: args.questions]
    model, tokenizer = load_causal(str(HOME))
    said = drafts(model, tokenizer, [row["question"] for row in rows])
    alone = matched(rows, [each.text for each in said])
    read = matched(rows, retrieved(rows))
    print(f"never retrieving {alone.mean():.3f}, always {read.mean():.3f}")
    print(f"oracle {np.maximum(alone, read).mean():.3f}, retrieving for {1 - alone.mean():.3f}")
    unsure = np.argsort([each.logprob for each in said], kind="stable")
    for share in SHARES:
        asked = unsure[: round(share * len(rows))]
        right = alone.copy()
        right[asked] = read[asked]
        print(f"  mean log-probability, retrieving for {share:.1f}: {right.mean():.3f}")


def matched(rows: Sequence[dict[str, Any]], texts: Sequence[str]) -> NDArray[np.float64]:
    """Say, as 1 or 0, which texts hold an answer."""
    pairs = zip(rows, texts, strict=True)
    return np.array([float(contains_answer(text, row["answers"])) for row, text in pairs])


def retrieved(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Read each question's answer out of the passage that is found first."""
    asked = [row["question"] for row in rows]
    index = FaissIndex.build(read_corpus(HOME / "passages.jsonl"))
    first = [found[0] for found in index.search(asked, k=1)]
    answers = ExtractiveReader.embedded().read(list(zip(asked, first, strict=True)))
    return [answer.text for answer in answers]


if __name__ == "__main__":
    main()
