"""Measure what small talk around a question costs the embedded scorer's ranking.

    python benchmarks/long_questions.py DATA [-n 40] [--evaluator]

DATA is a folder with nq_top5.jsonl.gz, popqa_top5.jsonl.gz and triviaqa_top5.jsonl.gz. Of each file
the first questions that some, but not all, passages answer are asked as they are, behind small
talk, before it, and as the second of two questions. The figure is the mean reciprocal rank of the
first passage that holds an answer; the goal is within .02 of the bare question's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from fitrag_integrations import Passage
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.models import BiLabelScorer, RetrievalEvaluator
from fitrag_integrations.training.rows import passage_row, read_jsonl

SETS = ("nq", "popqa", "triviaqa")
TALK = (
    "Hi there, I hope you are having a good day. My daughter has a quiz at school tomorrow, and we "
    "have been going through old notes all evening without getting anywhere.",
    "Hello! Last night some friends and I were arguing over dinner, nobody had a phone at hand, "
    "and "
    "I promised to look it up first thing in the morning, so here I am.",
    "Good morning. I am writing a small piece for our local paper about all kinds of trivia, "
    "and my "
    "editor, who is rather strict, wants every single fact checked twice before Friday.",
    "Hey, sorry to bother you again with one of these. I was on a long train journey with my "
    "uncle, "
    "who knows everything about everything, and he could not tell me this one.",
)
AFTER = (
    "I need it for a bet with a colleague, who has been unbearable since he won the last one. "
    "Do you happen to know? Thanks a lot in advance!",
    "Please take your time, I am in no hurry at all, and I really appreciate the help you have "
    "been "
    "giving me with this stuff over the past weeks.",
)
OTHER = (
    "First, how long should I boil an egg if I like the yolk soft and it comes from the fridge?",
    "What would you cook for six guests on a rainy Sunday, if two of them eat no meat at all?",
)
FORMS: Mapping[str, Callable[[str, int], str]] = {
    "bare": lambda question, i: question,
    "talk, question": lambda question, i: f"{TALK[i % len(TALK)]} {question}",
    "question, talk": lambda question, i: f"{question} {AFTER[i % len(AFTER)]}",
    "two questions": lambda question, i: f"{OTHER[i % len(OTHER)]} And then: {question}",
}


def main() -> None:
    """Print the mean reciprocal rank of each form, and how far it is from the bare question's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=40, help="questions")
    parser.add_argument("--evaluator", action="store_true", help="rank by its grades")
    args = parser.parse_args()
    rows = list(islice(_rows(args.data), args.n))
    bare = 0.0
    for form, ask in FORMS.items():
        found = _mrr([(ask(q, i), p, held) for i, (q, p, held) in enumerate(rows)], args.evaluator)
        bare = bare or found
        print(f"{form:15} MRR {found:.4f} ({found - bare:+.4f}), {len(rows)} questions")


Row = tuple[str, list[Passage], list[bool]]


def _rows(data: Path) -> Iterator[Row]:
    """Take the sets in turn."""
    turns = [_set(data / f"{name}_top5.jsonl.gz") for name in SETS]
    for turn in cycle(turns):
        yield next(turn)


def _set(path: Path) -> Iterator[Row]:
    for row in read_jsonl(path):
        passages = [passage_row(one) for one in row["passages"]]
        held = [contains_answer(one.text, row["answers"]) for one in passages]
        if any(held) and not all(held):
            question = str(row["question"]).rstrip(" ?.") + "?"
            yield question[0].upper() + question[1:], passages, held


def _mrr(rows: list[Row], graded: bool) -> float:
    pairs = [(question, passage) for question, passages, _ in rows for passage in passages]
    scores: Iterator[Any]
    if graded:
        scores = iter(RetrievalEvaluator.embedded().evaluate(pairs))
    else:
        scores = iter([score.combine() for score in BiLabelScorer.embedded().score(pairs)])
    total = 0.0
    for _, passages, held in rows:
        own = zip((next(scores) for _ in passages), held, strict=True)
        order = sorted(own, key=lambda pair: -pair[0])
        total += 1 / (1 + [right for _, right in order].index(True))
    return total / len(rows)


if __name__ == "__main__":
    main()
