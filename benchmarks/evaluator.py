"""Measure the retrieval evaluator: what its grades and actions are worth, and its speed.

    python benchmarks/evaluator.py actions DATA [-n 0] [--model DIR]
    python benchmarks/evaluator.py speed DATA [-n 24] [--model DIR]

`actions`: really retrieved passages of DATA/odqa_retrieved; does the best grade tell whether one of
them holds the answer (AUC), what do the actions get right, and the same for the embedded scorer's
has_answer. `speed`: a T5 classifier against the published loop, which pads every pair to 512
tokens, in one run, on the same weights, by the process's own time; without --model, random weights
of T5-small's size. Nothing here is trained or fitted on these sets.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from sklearn.metrics import roc_auc_score

from fitrag_integrations.models import BiLabelScorer, RetrievalEvaluator
from fitrag_integrations.models.encoder.pairs import Pair
from fitrag_integrations.training.rows import passage_row, read_jsonl
from fitrag_integrations.types import Action

SETS = ("popqa", "nq", "triviaqa")
Row = dict[str, Any]


def main() -> None:
    """Measure what is asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["actions", "speed"])
    parser.add_argument("data", type=Path)
    parser.add_argument("-n", type=int, default=None, help="rows a set, or pairs")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--model", default=None)
    parser.add_argument(
        "--matmul", default="highest", help="torch's float32 matmul precision for our side"
    )
    args = parser.parse_args()
    {"actions": actions, "speed": speed}[args.what](args)


def actions(args: argparse.Namespace) -> None:
    """Print a table of AUC, and the actions against the truth."""
    model = args.model
    evaluator = (
        RetrievalEvaluator.embedded()
        if model is None
        else RetrievalEvaluator.from_pretrained(model)
    )
    view = RetrievalEvaluator.from_scorer(BiLabelScorer.embedded())
    for name in SETS:
        rows = _rows(args, name)
        truth = [any(p["has_answer"] for p in row["passages"]) for row in rows]
        for called, graded in (("evaluator", evaluator), ("has_answer", view)):
            began = time.process_time()
            grades = _graded(graded, rows)
            seconds = time.process_time() - began
            flat = [grade for each in grades for grade in each]
            labels = [p["has_answer"] for row in rows for p in row["passages"]]
            best = roc_auc_score(truth, list(map(max, grades)))
            told = f"{name} {called}: AUC of the best grade {best:.3f}"
            print(f"{told}, of a passage {roc_auc_score(labels, flat):.3f}, {seconds:.1f} s")
            if graded.thresholds is not None:
                print(_table([graded.thresholds.action(each) for each in grades], truth))


def _table(taken: list[Action], truth: list[bool]) -> str:
    counts = Counter(zip(taken, truth, strict=True))
    lines = [
        f"  {action.value:10} answer {counts[action, True]:4}, none {counts[action, False]:4}"
        for action in Action
    ]
    sure = [
        (a is Action.CORRECT) == t for a, t in zip(taken, truth, strict=True) if a != "ambiguous"
    ]
    majority = max(fmean(truth), 1 - fmean(truth))
    told = f"  {fmean(sure):.3f} right of the {len(sure) / len(taken):.2f} not ambiguous"
    return "\n".join([*lines, f"{told}; majority {majority:.3f}"])


def speed(args: argparse.Namespace) -> None:
    """Print the seconds of both, and how far their outputs differ."""
    every = [pair for row in _rows(args, "popqa") for pair in _pairs(row)]
    pairs = random.Random(args.seed).sample(every, args.n or 24)
    with tempfile.TemporaryDirectory() as made:
        texts = [f"{question} [SEP] {passage.text}" for question, passage in every]
        folder = args.model or _random_t5(Path(made), texts)
        evaluator = RetrievalEvaluator.from_pretrained(folder, dtype="float32")
        torch.set_float32_matmul_precision(args.matmul)
        evaluator.evaluate(pairs[:2])
        began = time.process_time()
        grades = evaluator.evaluate(pairs)
        ours = time.process_time() - began
        torch.set_float32_matmul_precision("highest")
        times = {}
        for called, length in (("plain", None), ("padded to 512", 512)):
            began = time.process_time()
            outputs = _loop(evaluator, pairs, length)
            times[called] = time.process_time() - began
            furthest = max(abs(a - b) for a, b in zip(grades, outputs, strict=True))
            told = f"loop, {called}: {times[called]:.2f} s, {times[called] / ours:.2f} times ours"
            print(f"{told}; grades differ by at most {furthest:.1e}")
        print(f"ours: {ours:.2f} s for {len(pairs)} pairs")


@torch.inference_mode()
def _loop(evaluator: RetrievalEvaluator, pairs: list[Pair], length: int | None) -> list[float]:
    grader: Any = evaluator._grader
    how = {"padding": "max_length", "max_length": length, "truncation": True} if length else {}
    outputs = []
    for question, passage in pairs:
        text = f"{question} [SEP] {passage.text}"
        logits = grader._model(**grader._tokenizer(text, return_tensors="pt", **how)).logits
        outputs.append(max(-1.0, min(1.0, float(logits))))
    return outputs


def _random_t5(folder: Path, texts: list[str]) -> Path:
    """Write a T5 of T5-small's size with random weights, and a tokenizer of their usual words."""
    from transformers import T5Config, T5ForSequenceClassification, T5TokenizerFast

    words = Counter(word for text in texts for word in text.split())
    usual = [(f"▁{word}", -8.0) for word, _ in words.most_common(8000)]
    letters = [(letter, -12.0) for letter in sorted({c for text in texts for c in text if c > " "})]
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -4.0)]
    pieces = dict([*special, *letters, *usual])
    T5TokenizerFast(vocab=list(pieces.items()), extra_ids=0).save_pretrained(folder)
    torch.manual_seed(0)
    config = T5Config(vocab_size=len(pieces), num_labels=1, decoder_start_token_id=0)
    T5ForSequenceClassification(config).save_pretrained(folder)
    return folder


def _graded(evaluator: RetrievalEvaluator, rows: list[Row]) -> list[list[float]]:
    grades = iter(evaluator.evaluate([pair for row in rows for pair in _pairs(row)]))
    return [[next(grades) for _ in row["passages"]] for row in rows]


def _pairs(row: Row) -> list[Pair]:
    return [(row["question"], passage_row(passage)) for passage in row["passages"]]


def _rows(args: argparse.Namespace, name: str) -> list[Row]:
    rows = list(read_jsonl(args.data / "odqa_retrieved" / f"{name}_top5.jsonl.gz"))
    random.Random(args.seed).shuffle(rows)
    return rows[: args.n or None] if args.what == "actions" else rows


if __name__ == "__main__":
    main()
