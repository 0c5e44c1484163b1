"""Do keywords find the passage that holds the answer, ours and those of `yake`?

    pip install yake
    python benchmarks/keywords.py DATA [-n 150]

The twenty passages of a question (the layout of `wikipool`) are ranked by BM25 for the question
itself, for the keywords `Crag` takes from it without a language model, and for yake's best three;
told are the mean reciprocal rank of the first that holds the answer, and the words of a query.
"""

from __future__ import annotations

import argparse
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from fitrag_integrations.evaluation.ranking import reciprocal_rank
from fitrag_integrations.methods.crag.search import extract_keywords
from fitrag_integrations.training.rows import read_jsonl

SETS = ("nq_open_gold", "hotpotqa", "popqa", "triviaqa")


def main() -> None:
    """Tell each set in a line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=150, help="questions a set")
    args = parser.parse_args()
    folder = args.data / "wikipool"
    texts = {
        row["id"]: words(f"{row['title']} {row['text']}")
        for path in sorted(folder.glob("passages*.jsonl.gz"))
        for row in read_jsonl(path)
    }
    asked = list(read_jsonl(folder / "bm25_top20.jsonl.gz"))
    for name in SETS:
        rows = [row for row in asked if row["dataset"] == name]
        random.Random(7).shuffle(rows)
        told = [tell(way, query, rows[: args.n], texts) for way, query in queries()]
        print(f"{name}: {', '.join(told)}", flush=True)


def queries() -> Iterator[tuple[str, Callable[[str], str]]]:
    """Name the ways from a question to a query."""
    import yake

    found = yake.KeywordExtractor(lan="en", n=3, top=3)
    yield "question", lambda question: question
    yield "ours", lambda question: ", ".join(extract_keywords(question)) or question
    yield "yake", lambda question: ", ".join(k for k, _ in found.extract_keywords(question))


def tell(
    way: str, query: Callable[[str], str], rows: list[dict[str, Any]], texts: dict[str, list[str]]
) -> str:
    """Rank by a way's queries, and tell how well and with how many words."""
    score = bm25([texts[each] for row in rows for each in row["candidates"]])
    ranks, lengths = [], []
    for row in rows:
        asked = words(query(row["question"]))
        scores = [score(asked, texts[each]) for each in row["candidates"]]
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        ranks.append(reciprocal_rank([int(row["has_answer"][i]) for i in order]))
        lengths.append(len(asked))
    return f"{way} {fmean(ranks):.3f} ({fmean(lengths):.1f} words)"


def bm25(texts: list[list[str]]) -> Callable[[list[str], list[str]], float]:
    """Give the score of a text for a query, over the words of all texts."""
    holding = Counter(word for text in texts for word in set(text))
    average = fmean(map(len, texts))

    def score(query: list[str], text: list[str]) -> float:
        counts, found = Counter(text), 0.0
        for word in set(query) & set(text):
            rare = math.log(1 + (len(texts) - holding[word] + 0.5) / (holding[word] + 0.5))
            norm = counts[word] + 1.2 * (0.25 + 0.75 * len(text) / average)
            found += rare * counts[word] * 2.2 / norm
        return found

    return score


def words(text: str) -> list[str]:
    """Cut into lower-case words."""
    return re.findall(r"\w+", text.lower())


if __name__ == "__main__":
    main()
