"""IK and FIT-RAG's labels with a language model that answers: does it know, what does it prefer?

    python benchmarks/known.py ask DATA OUT --url URL [--sets triviaqa triviaqa_dev] [-n 1000]
    python benchmarks/known.py gates DATA OUT [--models FOLDER ...]
    python benchmarks/known.py lists DATA OUT [--sets triviaqa]
    python benchmarks/known.py orders DATA OUT --url URL [--models FOLDER ...] [-n 100]

`ask` has questions answered without passages and adds rows of `fitrag label ik` to OUT/known.jsonl,
with how sure the model was of its words; those of sets without passages are in OUT/train.jsonl as
well, for `fitrag train ik`. `gates` measures on the others, with trained gates (`--models`) beside
those that need no training. `lists` writes OUT/lists.jsonl for `fitrag label bilabel`, whose output
is OUT/pairs.jsonl, and half of what that has, by a hash of the question, to OUT/pairs-train.jsonl
for `fitrag train bilabel`. `orders` has the other half (all of them without `--models`) answered
from the first passage and the first three, in the order of each scorer (`--models`, beside the
bundled one and the retriever); those of one passage are in OUT/pairs.jsonl (`--first 1`).
All go on where they were stopped; examples and prompts are those of real_llm.py.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from real_llm import SHOTS, closed, load, opened

from fitrag_integrations.core.progress import chunks
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.outcomes import Curve, Outcomes
from fitrag_integrations.evaluation.ranking import auc
from fitrag_integrations.evaluation.table import bootstrap, interval, mean_interval
from fitrag_integrations.evaluation.thresholds import choose_threshold
from fitrag_integrations.methods.baselines.gated import NeighbourGate
from fitrag_integrations.methods.ik.gates import GATES, PTrueGate
from fitrag_integrations.methods.prompts import PromptTemplate
from fitrag_integrations.models import BiLabelScorer, RemoteGenerator
from fitrag_integrations.retrieval import QuestionBank
from fitrag_integrations.training.rows import in_lists, passage_row, read_jsonl
from fitrag_integrations.types import Context, Excerpt

Row = dict[str, Any]
ALONE, TRUE = "Yes to the question", "Yes to question and draft"
SHARES, DROP, SPLITS = (0.25, 0.5, 0.75), 0.05, 200
ORDERS = {"has_answer": (1.0, 0.0), "llm_prefer": (0.0, 1.0), "both": (1.0, 1.0)}


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=("ask", "gates", "lists", "orders"))
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--url", help="address of a server, up to /v1")
    parser.add_argument("--model", default="default", help="name of the model that it serves")
    parser.add_argument("--sets", nargs="*", default=["triviaqa"])
    parser.add_argument("--models", nargs="*", default=[], help="folders of gates or scorers")
    parser.add_argument("-n", type=int, default=1000, help="questions a set")
    parser.add_argument("--first", type=int, nargs="*", default=[1, 3], help="passages to read")
    args = parser.parse_args()
    for text in {"ask": ask, "gates": gates, "lists": lists, "orders": orders}[args.step](args):
        print(text, flush=True)


def ask(args: argparse.Namespace) -> Iterator[str]:
    """Have every question answered once."""
    llm = RemoteGenerator(args.url, args.model, prompt=closed(SHOTS), timeout=600)
    path, taught = args.out / "known.jsonl", args.out / "train.jsonl"
    done = {row["question"] for row in (*rows_of(path), *rows_of(taught))}
    for name in args.sets:
        rows = [row for row in load(name, args.data)[: args.n] if row.question not in done]
        for some in chunks(rows, 64):
            asked = [row.question for row in some]
            drafts = llm.draft(asked)
            words: dict[str, Any] = {}
            if some[0].passages:  # which are left out to measure on
                words[ALONE] = PTrueGate(llm, draft_tokens=0).p_known(asked, [""] * len(asked))
                words[TRUE] = PTrueGate(llm).p_known(asked, [draft.text for draft in drafts])
            for at, (row, draft) in enumerate(zip(some, drafts, strict=True)):
                found = {
                    "question": row.question,
                    "answers": row.answers,
                    "draft": draft.text,
                    "known": contains_answer(draft.text, row.answers),
                    "llm": llm.name,
                    "set": name,
                    **{kind: surely(kind, draft) for kind in GATES},
                    **{name: surest(chances[at]) for name, chances in words.items()},
                }
                add(path if row.passages else taught, found)
        yield f"{name}: {len(rows)} asked"


def area(said: Any, known: Any, places: Any) -> float | None:
    """Return the area under the ROC curve over some of the questions."""
    return auc(said[places], known[places])


def surest(chance: Any) -> float:
    """Return a chance, 0 where the model wrote neither Yes nor No: then it is retrieved for."""
    return chance if isinstance(chance, float) else 0.0


def surely(kind: str, draft: Any) -> float:
    """Return how sure a gate without training is of a draft."""
    sureness, numbers = GATES[kind].sureness, getattr(draft, GATES[kind].numbers)
    return sureness(fmean(numbers)) if draft.text.strip() else 0.0


def gates(args: argparse.Namespace) -> Iterator[str]:
    """Measure gates on questions left out, and what answering by them gives where passages are."""
    train, left, pairs = (rows_of(args.out / f"{n}.jsonl") for n in ("train", "known", "pairs"))
    left = [row for row in left if row["set"] in args.sets]
    first = {row["question"]: row["passages"][0]["llm_prefer"] for row in pairs}
    asked, drafts = [row["question"] for row in left], [row["draft"] for row in left]
    bank = QuestionBank.build([row["question"] for row in train], [row["known"] for row in train])
    by = {kind: [row[kind] for row in left] for kind in (*GATES, ALONE, TRUE)}
    by["nearest 20 questions"] = NeighbourGate(bank, 20).p_known(asked, drafts)
    for folder in args.models:
        from fitrag_integrations.models import IKClassifier  # which loads PyTorch

        gate = IKClassifier.from_pretrained(folder)
        by[f"{gate.variant}, question alone"] = gate.p_known(asked, [""] * len(asked))
        by[f"{gate.variant}, draft"] = gate.p_known(asked, drafts)
    yield (
        f"{len(train)} to train on; {len(left)} left out, {sum(row['known'] for row in left)} known"
        "\n\n| gate | AUC | for 25 % | 50 % | 75 % | certified, retrieves for | lost more |\n|"
        + " --- |"
        * 7
    )
    listed = [at for at, row in enumerate(left) if first.get(row["question"]) is not None]
    for name, chances in by.items():
        rows = [
            {**row, "p_known": chance, "right_with": first.get(row["question"])}
            for row, chance in zip(left, chances, strict=True)
        ]
        known, said = (np.array([row[field] for row in rows]) for field in ("known", "p_known"))
        drawn = bootstrap(partial(area, said, known), len(left), seed=0)
        cells = [name, f"{auc(said, known):.3f} [{interval(drawn)}]"]
        if listed:
            judged: Any = Outcomes.of([rows[at] for at in listed])
            curve = Curve.of(judged)
            cells += [f"{curve.accuracy[curve.within(share)]:.3f}" for share in SHARES]
            cells += certified([rows[at] for at in listed])
        yield f"| {' | '.join(cells)} |"
    if listed:
        lines = (judged.without, judged.right_with, np.maximum(judged.without, judged.right_with))
        never, always, oracle = (float(each.mean()) for each in lines)
        yield (
            f"\n{len(listed)} questions: never {never:.3f}, always {always:.3f}, "
            f"oracle {oracle:.3f}, half by chance {(never + always) / 2:.3f}"
        )


def certified(rows: Sequence[Row]) -> list[str]:
    """Fit a threshold on one half, by chance, and return what it saves and loses on the other."""
    shares, losses = [], []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(rows))
        fit, check = ([rows[at] for at in part] for part in np.array_split(order, 2))
        limit = choose_threshold(fit, "drop", max_drop=DROP, resamples=0).value
        outcomes = Outcomes.of(check)
        shares.append(outcomes.share(limit))
        losses.append(outcomes.drop(limit) > DROP)
    return [f"{fmean(shares):.3f}", f"{fmean(losses):.1%} of {SPLITS}"]


def lists(args: argparse.Namespace) -> Iterator[str]:
    """Write questions with their passages, or half of the labeled ones."""
    pairs = rows_of(args.out / "pairs.jsonl")
    for row in pairs:
        if is_taught(row):
            add(args.out / "pairs-train.jsonl", row)
    for row in [row for name in args.sets if not pairs for row in load(name, args.data)[: args.n]]:
        passages = [{"title": p.title, "text": p.text} for p in row.passages]
        found = {"question": row.question, "answers": row.answers, "passages": passages}
        add(args.out / "lists.jsonl", found)
    yield f"{len(pairs)} labeled questions"


def orders(args: argparse.Namespace) -> Iterator[str]:
    """Answer from the first passages in each order, and compare with the retriever's."""
    llm: Any = args.url and RemoteGenerator(args.url, args.model, timeout=600)
    path, template = args.out / "read.jsonl", PromptTemplate("read", opened(SHOTS), one_line=True)
    read = {(row["question"], *row["places"]): row["right"] for row in rows_of(path)}
    rows = [r for r in rows_of(args.out / "pairs.jsonl") if not (args.models and is_taught(r))]
    found = [[*map(passage_row, row["passages"])] for row in rows]
    ways = {"the retriever": [list(range(len(each))) for each in found]}
    for folder in (None, *args.models):
        scorer = BiLabelScorer.from_pretrained(folder) if folder else BiLabelScorer.embedded()
        pairs = [[(row["question"], p) for p in own] for row, own in zip(rows, found, strict=True)]
        scores: Any = in_lists(scorer.score, pairs)
        for kind, (has, prefer) in ORDERS.items():
            least = [[-has * s.has_answer - prefer * s.llm_prefer for s in own] for own in scores]
            name = f"{Path(folder or 'bundled').name}, {kind}"
            ways[name] = [np.argsort(own, kind="stable").tolist() for own in least]
    right: dict[str, list[float]] = {}
    for k, (way, places) in product(args.first, ways.items()):
        chosen = right[f"{way}, first {k}"] = []
        for row, own, order in zip(rows, found, places, strict=True):
            key = (row["question"], *order[:k])
            if k == 1:
                read[key] = row["passages"][order[0]]["llm_prefer"]
            elif key not in read:
                shown = Context(row["question"], tuple(Excerpt.whole(own[at]) for at in order[:k]))
                (answer,) = llm.generate([template.render(shown)])
                read[key] = float(contains_answer(answer, row["answers"]))
                add(path, {"question": key[0], "places": key[1:], "right": read[key]})
            chosen.append(read[key])
        more = np.subtract(chosen, right[f"the retriever, first {k}"])
        change = f"{more.mean():+.3f} [{interval(mean_interval(more), '+')}]"
        yield f"| {way}, first {k} | {len(chosen)} | {fmean(chosen):.3f} | {change} |"


def is_taught(row: Row) -> bool:
    """Return whether a question is of the half to train on."""
    return sha256(row["question"].encode()).digest()[0] % 2 == 0


def rows_of(path: Path) -> list[Row]:
    """Read rows; none where there is no file yet."""
    return list(read_jsonl(path)) if path.exists() else []


def add(path: Path, row: Row) -> None:
    """Append a row."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
