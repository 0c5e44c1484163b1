"""Compare what runs the embedded scorer, evaluator and reader: time, and decisions against torch.

    python benchmarks/backends.py [ROWS.jsonl] [--pairs 400] [--rounds 3]

Rows have a question and passages; without any, the demo's questions stand beside its passages.
Milliseconds a pair are of the process's CPU time, the median of rounds in which all take turns.
"""

import argparse
import gzip
import json
import random
import statistics
import time
import warnings
from pathlib import Path

from fitrag_integrations import Passage
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader, RetrievalEvaluator
from fitrag_integrations.models.light.models import LightEvaluator, LightReader, LightScorer
from fitrag_integrations.models.runtime.saved import embedded_folder

WAYS = [("torch", "float32"), ("torch", "bfloat16"), ("onnx", "float32")]
WAYS += [("openvino", "float32"), ("openvino", "bfloat16"), ("light", "float32")]
BLOCK = 50  # pairs that one way is timed on before the next has its turn


def rows_of(path):
    """Read JSON Lines, packed or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def pairs_of(paths, count, seed=7):
    """Give questions with each of their passages; the same for the same seed."""
    chance = random.Random(seed)
    if not paths:
        home = embedded_folder("demo")
        texts = rows_of(home / "passages.jsonl")
        asked = rows_of(home / "questions.jsonl")
        given = [{**row, "passages": chance.sample(texts, 10)} for row in asked]
    else:
        given = [row for path in paths for row in rows_of(path)]
    chance.shuffle(given)
    pairs = [
        (row["question"], Passage(str(i), text["text"], text.get("title", "")))
        for row in given
        for i, text in enumerate(row["passages"])
        if text["text"].strip()
    ]
    return pairs[:count]


def models_of(way):
    """Load the three models, each as a call."""
    backend, dtype = way
    if backend == "light":
        kinds, how = (LightScorer, LightEvaluator, LightReader), {}
    else:
        kinds = (BiLabelScorer, RetrievalEvaluator, ExtractiveReader)
        how = {"backend": backend, "dtype": dtype, "device": "cpu"}
    return [kind.embedded(**how) for kind in kinds]


def decided(models, pairs):
    """Say what is decided on each pair: both labels, the grade's side of its cuts, the answer."""
    scorer, evaluator, reader = models
    cuts = evaluator.thresholds
    scores, grades = scorer.score(pairs), evaluator.evaluate(pairs)
    return [
        (
            (score.has_answer >= 0.5, score.llm_prefer >= 0.5),
            (grade > cuts.upper, grade < cuts.lower),
            (answer.start, answer.end),
            score,
        )
        for score, grade, answer in zip(scores, grades, reader.read(pairs), strict=True)
    ]


def main():
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=Path)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    pairs = pairs_of(asked.rows, asked.pairs)
    loaded = {way: models_of(way) for way in WAYS}
    spent = {way: [] for way in WAYS}
    for at in range(asked.rounds + 1):  # the first warms up
        block = pairs[at * BLOCK :][:BLOCK] or pairs[:BLOCK]
        for way, (scorer, _, _) in loaded.items():
            began = time.process_time()
            scorer.score(block)
            spent[way] += [1000 * (time.process_time() - began) / len(block)] if at else []
    found = {way: decided(models, pairs) for way, models in loaded.items()}
    print(f"{len(pairs)} pairs; the same as torch in float32, of 1000\n")
    print("| backend | ms a pair | labels | grade | answer | largest difference |")
    print("| --- | --- | --- | --- | --- | --- |")
    for way in WAYS:
        both = list(zip(found[way], found[WAYS[0]], strict=True))
        same = [1000 * sum(one[i] == two[i] for one, two in both) / len(both) for i in range(3)]
        apart = max(abs(one[3].has_answer - two[3].has_answer) for one, two in both)
        shown = " | ".join(f"{share:.0f}" for share in same)
        print(f"| {' '.join(way)} | {statistics.median(spent[way]):.1f} | {shown} | {apart:.1e} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore", FutureWarning)
    main()
