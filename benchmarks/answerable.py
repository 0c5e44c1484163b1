"""Does the scorer say whether any passage of a list answers: `answerable`, by kind of list.

    python benchmarks/answerable.py [DATA] [-n 7] [--documents FOLDER] [--fit] [--out FILE]

Lists: real questions by kind (DATA, as in `real_questions.py`), the files of `own_files.py`, with
--documents the documentation that `packages.py` fetched, Wikipedia's retrieved lists of five, and
24 of the demo's questions, half of them without an answer in its passages, with five each. Where a
list has an answer, it is measured with all passages that hold it, less as many others, and without
them. Of Wikipedia's retrieved lists and the demo's those with and without an answer are measured
as they are. Prints for each kind, on the reporting halves, AUC of `answerable`, of the best
passage's and the best sentence's has_answer, of the evaluator's best grade and of the reader's best
trust, and calibration error; in brackets 95 % of bootstrap samples of the lists, of the difference
from `answerable` for the others. --fit prints the line fitted on the choosing halves whose license
lets numbers ship, each set with the same weight, for `answerable` in the scorer's `model.json`.
What FILE has is not measured again.
"""

from __future__ import annotations

import argparse
import json
import random
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from own_files import packages, written
from real_questions import SHARED, TRAINING, drawn
from sklearn.linear_model import LogisticRegression
from worth_rows import Vectors, titled

from fitrag_integrations.evaluation.outcomes import calibration_error
from fitrag_integrations.evaluation.ranking import auc
from fitrag_integrations.evaluation.table import Measured, Table
from fitrag_integrations.models.bundled import BundledEvaluator, BundledReader, BundledScorer
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.text.bm25 import BM25
from fitrag_integrations.training.rows import passage_row, read_jsonl
from fitrag_integrations.types import Passage
from fitrag_integrations.values.score import logit
from fitrag_integrations.values.windows import windows

LICENSED = TRAINING | {
    "mtrag", "covidqa", "pubmedqa", "clapnq_dev", "qed_dev", "quoref", "timeqa_human",
}  # fmt: skip
OURS, FIRST, ASKED = "answerable", 5, 12


def main() -> None:
    """Measure every list, and print the table or the line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, nargs="?", default=SHARED)
    parser.add_argument("-n", type=int, default=7, help="lists a kind")
    parser.add_argument("--documents", type=Path, help="what packages.py fetched")
    parser.add_argument("--fit", action="store_true", help="print a line, not figures")
    parser.add_argument("--out", type=Path, help="file of what was measured, JSON Lines")
    args = parser.parse_args()
    told = read_jsonl(args.out) if args.out and args.out.exists() else ()
    known = {each.pop("name"): each for each in map(dict, told)}
    models, found = (BundledScorer(), BundledEvaluator(), BundledReader()), []
    for name, kind, question, passages, gold in given(args):
        if name not in known:
            known[name] = judged(question, passages, models)
            if args.out:
                with args.out.open("a") as file:
                    file.write(json.dumps({"name": name, **known[name]}) + "\n")
        found += [(name, kind, known[name], *part) for part in parts(kind, question, gold)]
    if args.fit:
        print(line(found))
    else:
        rows = [one for each in found for one in measured(*each, models[0])]
        print(Table(f"{len(found)} lists", rows).text())


def given(args: Namespace) -> Iterator[tuple[str, str, str, Sequence[Passage], list[bool]]]:
    """Yield a name, kind, question, passages, and which of them answer."""
    half, vectors = "choose" if args.fit else "report", Vectors(Encoder.embedded())
    for one in drawn(args.data, half, args.n, 7):
        use = one.source.get("use", "train")  # what the page's license allows
        if not args.fit or (one.kind in LICENSED and use == "train"):
            yield one.name, one.kind, one.row.question, one.row.passages, [*map(bool, one.gold)]
    rows = [("own files", one) for one in written(Namespace(half=half), vectors)]
    if args.documents:
        more = packages(Namespace(half=half, documents=args.documents), vectors)
        rows += [("packages", one) for one in more]
    for kind, asked in rows:
        gold = [bool(asked.row["answers"]) and asked.right(titled(p)) for p in asked.passages]
        question = asked.row["question"]
        kind = f"{kind}, {asked.row['kind']}"
        yield f"{kind}: {question}", kind, question, asked.passages, gold
    if not args.fit:
        yield from retrieved(args.data, 6 * args.n)
        yield from demo()


def retrieved(data: Path, count: int) -> Iterator[Any]:
    """Yield Wikipedia's lists of five, with and without an answer."""
    for name in ("popqa", "nq", "triviaqa"):
        rows = [*read_jsonl(data / "odqa_retrieved" / f"{name}_top5.jsonl.gz")]
        random.Random(7).shuffle(rows)
        for row in rows[:count]:
            gold = [bool(each["has_answer"]) for each in row["passages"]]
            passages = [*map(passage_row, row["passages"])]
            yield f"{name}: {row['question']}", name, row["question"], passages, gold


def demo() -> Iterator[Any]:
    """Yield twelve of the demo's questions with an answer in its passages, and twelve without."""
    home = embedded_folder("demo")
    pool = [passage_row(row) for row in read_jsonl(home / "passages.jsonl")]
    rows, score = [*read_jsonl(home / "questions.jsonl")], BM25(map(titled, pool))
    without = [row for row in rows if not row["answerable"]][::6][:ASKED]
    for row in [*without, *[row for row in rows if row["answerable"]][::25][:ASKED]]:
        question = row["question"]
        passages = sorted(pool, key=lambda one: -score(question, titled(one)))[:FIRST]
        yield f"demo: {question}", "demo", question, passages, [row["answerable"]] * FIRST


def judged(question: str, passages: Sequence[Passage], models: Any) -> dict[str, list[float]]:
    """Return each passage's logits by all models."""
    scorer, grader, reader = models
    spans = [[(one.start, one.end) for one in windows(each, size=1)] for each in passages]
    items = [(question, each, own) for each, own in zip(passages, spans, strict=True)]
    pairs = [(question, each) for each in passages]
    wholes, sentences = zip(*scorer.score_sentences(items), strict=True)
    return {
        "best passage": [one.has_answer_logit for one in wholes],
        "best sentence": [max((s.has_answer_logit for s in own), default=-20) for own in sentences],
        "evaluator's grade": [logit((one + 1) / 2) for one in grader.evaluate(pairs)],
        "reader's trust": [logit(one.score) for one in reader.read(pairs)],
    }


def parts(kind: str, question: str, gold: list[bool]) -> Iterator[tuple[list[int], bool]]:
    """Yield the places of the passages of a list to measure, and whether one of them answers."""
    all_of, holds = [*range(len(gold))], any(gold)
    rest = [i for i in all_of if not gold[i]]
    if not holds or kind in ("popqa", "nq", "triviaqa", "demo") or len(rest) < 2:
        yield all_of, holds
        return
    gone = random.Random(question).sample(rest, min(sum(gold), len(rest) - 1))
    yield [i for i in all_of if i not in gone], True
    yield rest, False


def measured(
    name: str, kind: str, found: Any, places: list[int], holds: bool, scorer: BundledScorer
) -> Iterator[Measured]:
    """Yield what each system says of a list."""
    best = {system: max(logits[i] for i in places) for system, logits in found.items()}
    ours = scorer._lines.answerable([found["best passage"][i] for i in places])
    figures = dict.fromkeys(("AUC", "calibration error"), [(ours, holds)])
    yield Measured(f"{name} {holds}", figures, OURS, kind)
    for system, value in best.items():
        yield Measured(f"{name} {holds}", {"AUC": [(value, holds)]}, system, kind)


def line(found: Sequence[Any]) -> str:
    """Fit slope and shift of the best logit."""
    logits = [[own["best passage"][i] for i in places] for _, _, own, places, _ in found]
    best, holds = np.array([[max(own)] for own in logits]), [one[-1] for one in found]
    sets = [kind.split(",")[0] for _, kind, *_ in found]
    counts = Counter(sets)
    shares = np.array([len(found) / len(counts) / counts[name] for name in sets])
    fit = LogisticRegression(C=100).fit(best, holds, shares)
    chances = fit.predict_proba(best)[:, 1].tolist()
    error = calibration_error(chances, holds)
    told = f"AUC {auc(chances, holds):.3f}, calibration error {error:.3f}"
    numbers = [round(float(x), 3) for x in (*fit.coef_[0], *fit.intercept_)]
    return f"{numbers}: {told}, {len(found)} lists"


if __name__ == "__main__":
    main()
