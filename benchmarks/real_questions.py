"""The bundled scorer on questions that people asked, by kind, beside what costs less.

    python benchmarks/real_questions.py [DATA] [MODEL...] [-n 10] [--half report] [--out FILE]

DATA is the folder of shared sets (../shared/data). A MODEL is measured beside what ships:
"float32", or the folder of a run of `scripts/student/fit.py` or of a training; beside a run,
"./shipped" is what ships by the same code. A kind is a set: headings of FAQ pages, tables,
meetings, chats, government and policy pages, papers, abstracts, Wikipedia. Its lists lie in two
halves by project, page, table or meeting: `choose` picks models and settings, `report` is for
figures alone. Prints for each kind MRR, recall@1, the calibration error of has_answer, and where
the answer's words are known the fraction of lists that still hold it when .1 to .4 of the words are
kept, the best sentences first, each beside what ships. "Prior" is the order by default, over lists
in dense order. What FILE has is not measured again, so that a run goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from compression_rows import Asked, asked
from worth_peers import Scores, filled, ways
from worth_rows import Vectors, titled

from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.ranking import recall_at, reciprocal_rank
from fitrag_integrations.evaluation.table import Measured, Table
from fitrag_integrations.methods.fitrag.ranking import ranked
from fitrag_integrations.models.bundled import DTYPES, BundledScorer
from fitrag_integrations.models.encoder.items import of_logits
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.text.bm25 import BM25
from fitrag_integrations.training.negatives import searching
from fitrag_integrations.training.rows import read_jsonl
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.windows import by_score, windows

SHARED = Path(__file__).parents[1] / ".." / "shared" / "data"
LISTED = (
    "faq_docs", "tables_wtq", "tables_fetaqa", "tables_tatqa", "meetings_qmsum", "chats_friendsqa",
    "chats_molweni", "conditionalqa", "policyqa", "mtrag",
)  # fmt: skip
TRAINING = {"faq_docs", "meetings_qmsum", "tables_tatqa"}  # MIT, BSD, Apache, ISC, CC BY
READ = ("clapnq_dev", "qed_dev", "quoref", "timeqa_human")
FRACTIONS = (0.1, 0.2, 0.3, 0.4)
SHORTENED = ("dense order, cut", "sentence cosine", "sentence BM25")
OURS, PRIOR = "shipped", ", prior"
WORDS, DEPTH, LEAST = 150, 14, 6  # of a stretch of a paper; of a list
GENERAL = {"", "scene", "chat"}  # titles that name no page


def main() -> None:
    """Measure every list, a list of each kind in turn, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, nargs="?", default=SHARED)
    parser.add_argument("models", nargs="*", default=[])
    parser.add_argument("-n", type=int, default=10, help="lists a kind")
    parser.add_argument("--half", choices=("choose", "report"), default="report")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, help="file of what was measured, JSON Lines")
    args = parser.parse_args()
    rows = drawn(args.data, args.half, args.n, args.seed)
    vectors = Vectors(Encoder.embedded())
    scorers: dict[str, Any] = {OURS: BundledScorer()}
    for name in args.models:
        scorers[name] = BundledScorer(name) if name in DTYPES else Run(Path(name))
    peers = ways(vectors, Scores(scorers[OURS]))
    told = read_jsonl(args.out) if args.out and args.out.exists() else ()
    known = {(each["model"], each["name"]): each for each in told}
    found: list[dict[str, Any]] = []
    for at, one in enumerate(rows, 1):
        own: dict[str, Any] = {}
        for model in ("peers", *scorers):
            if (model, one.name) not in known:
                made = (
                    cheap(one, vectors, peers) if model == "peers" else scored(one, scorers[model])
                )
                known[model, one.name] = made
                if args.out:
                    with args.out.open("a") as file:
                        file.write(json.dumps({"model": model, "name": one.name, **made}) + "\n")
            own[model] = known[model, one.name]
        found.append({"list": one, "kind": one.kind, "gold": one.gold, **own})
        print(f"\r{at} of {len(rows)}", end="", file=sys.stderr, flush=True)
    print(Table(f"{len(found)} lists", [*measured(found, list(scorers))]).text())


def drawn(data: Path, half: str, count: int, seed: int) -> list[Listed]:
    """Draw up to `count` lists of each kind of a half, pages in turn; a list of each kind first."""
    by: dict[str, dict[str, list[Listed]]] = {}
    for one in lists(data):
        if one.half() == half and not one.trains():
            by.setdefault(one.kind, {}).setdefault(one.page, []).append(one)
    kinds = []
    for pages in by.values():
        chance = random.Random(seed)
        shuffled = [chance.sample(some, len(some)) for some in pages.values()]
        chance.shuffle(shuffled)
        turns = chain.from_iterable(zip_longest(*shuffled))
        kinds.append([one for one in turns if one is not None][:count])
    return [one for turn in zip_longest(*kinds) for one in turn if one is not None]


@dataclass(frozen=True)
class Listed:
    """A list of a kind: the question with its passages, which of them answer, and its page."""

    kind: str
    page: str
    row: Asked
    gold: tuple[int, ...]
    source: dict[str, Any]

    @property
    def name(self) -> str:
        """The list's name in files of figures: a digest of the question and its passages."""
        told = json.dumps([self.row.question, *map(titled, self.row.passages)])
        return f"{self.kind} {hashlib.sha1(told.encode()).hexdigest()[:12]}"

    def half(self) -> str:
        """Return "choose" or "report"."""
        return "report" if self.digest() % 2 else "choose"

    def trains(self) -> bool:
        """Check that a list of the choosing half may train: its license, three pages of four."""
        licensed = self.kind in TRAINING and self.source.get("use", "train") == "train"
        return licensed and self.digest() % 2 == 0 and self.digest() // 2 % 4 < 3

    def digest(self) -> int:
        """Return a number below 256 that all lists of a page share."""
        return hashlib.sha1(f"real|{self.page}".encode()).digest()[0]


def lists(data: Path) -> Iterator[Listed]:
    """Yield every list of the shared sets; none is a question that what ships was trained on."""
    for kind in LISTED:
        for row in read_jsonl(data / kind / f"{kind}.jsonl.gz"):
            if any(row["gold"]):
                found = [(p["title"], p["text"]) for p in row["passages"]]
                yield _listed(kind, row, found, row["gold"])
    yield from _papers(data)
    yield from _abstracts(data)
    yield from _read(data)


def _listed(kind: str, row: dict[str, Any], passages: Any, gold: Sequence[int]) -> Listed:
    title, text = passages[list(gold).index(1)]
    own = row.get("repo") or row.get("meeting") or row.get("table") or row.get("doc_id")
    page = own or (text[:200] if title in GENERAL else title)
    return Listed(kind, str(page), asked(row, passages), tuple(map(int, gold)), row)


def _papers(data: Path) -> Iterator[Listed]:
    """Cut papers on Covid into stretches; a list has those near to the question."""
    folder, by = data / "covidqa", dict[str, list[Any]]()
    for row in read_jsonl(folder / "covidqa_questions.jsonl.gz"):
        by.setdefault(row["doc_id"], []).append((row, []))
    for row in read_jsonl(folder / "covidqa_documents.jsonl.gz"):
        own = row["text"].split()
        cut = [("", " ".join(own[i : i + WORDS])) for i in range(0, len(own), WORDS)]
        yield from _filled("covidqa", by.get(row["doc_id"], []), cut)


def _abstracts(data: Path) -> Iterator[Listed]:
    """List the sections of an abstract and of others; results and conclusions answer."""
    rows = [*read_jsonl(data / "pubmedqa" / "pubmedqa_labeled.jsonl.gz")]
    rows = [row for row in rows if str(row["id"])[-1] in "01"]  # the others trained what ships
    pool = [("", text) for row in rows for text in row["contexts"]]
    found = []
    for row in rows:
        answer = ["RESULT" in label or "CONCLU" in label for label in row["labels"]]
        own = [(("", text), holds) for text, holds in zip(row["contexts"], answer, strict=True)]
        found.append(({**row, "answers": [], "doc_id": row["id"]}, own))
    yield from _filled("pubmedqa", found, pool)


def _read(data: Path) -> Iterator[Listed]:
    """List Wikipedia's paragraphs: what answers, others of its page, near ones of other pages."""
    held = {
        name: [r for r in read_jsonl(data / "reading" / f"{name}.jsonl.gz") if _held(r["question"])]
        for name in READ
    }
    pool = [(r["passage"]["title"], r["passage"]["text"]) for rows in held.values() for r in rows]
    for name, rows in held.items():
        found = []
        for row in rows:
            own = [((row["passage"]["title"], row["passage"]["text"]), True)]
            own += [((p["title"], p["text"]), False) for p in row.get("negatives", ())]
            found.append(({**row, "doc_id": own[0][0][1][:200]}, own))
        yield from _filled(name, found, pool)


def _held(question: str) -> bool:
    """Check that a question was left out of what trained the models that ship."""
    asked_for = re.sub(r"\W+", " ", question.lower()).strip()
    return int(hashlib.sha1(asked_for.encode()).hexdigest()[:8], 16) % 100 < 20


def _filled(kind: str, rows: Sequence[Any], pool: Sequence[tuple[str, str]]) -> Iterator[Listed]:
    """Fill each row's own passages up with the nearest of a pool by BM25; no more may answer."""
    given = [Passage(str(i), text, title) for i, (title, text) in enumerate(dict.fromkeys(pool))]
    search = searching(given, depth=min(len(given), 3 * DEPTH))
    near = search([row["question"] for row, _ in rows]) if rows else []
    for (row, own), found in zip(rows, near, strict=True):
        marked = dict(own)
        for one in found:
            answers = bool(row["answers"]) and contains_answer(one.text, row["answers"])
            if len(marked) < DEPTH and not (own and answers):
                marked.setdefault((one.title, one.text), answers)
        gold = list(map(int, marked.values()))
        if len(gold) >= LEAST and 0 < sum(gold) < 4:
            yield _listed(kind, row, list(marked), gold)


class Run:
    """A training run as a scorer: what `scripts/student/quick.py` says of passages and spans."""

    def __init__(self, folder: Path) -> None:
        sys.path.append(str(Path(__file__).parents[1] / "scripts" / "student"))
        from quick import Quick

        self.model = Quick(folder)

    def score_sentences(self, items: Sequence[Any]) -> list[Any]:
        """Return the labels of each passage and of its spans."""
        splits = iter([spans for _, _, spans in items])
        triples = [(question, passage.title, passage.text) for question, passage, _ in items]
        judged = self.model.judge(triples, lambda _: next(splits))
        return [
            (of_logits(one.has_answer, one.llm_prefer), [of_logits(x) for _, x in one.sentences])
            for one in judged
        ]


def scored(one: Listed, scorer: Any) -> dict[str, Any]:
    """Return a scorer's labels of a list, and whether the answer is left at each fraction."""
    cut = [windows(passage, size=1) for passage in one.row.passages]
    spans = [[(each.start, each.end) for each in some] for some in cut]
    items = [(one.row.question, p, s) for p, s in zip(one.row.passages, spans, strict=True)]
    wholes, judged = zip(*scorer.score_sentences(items), strict=True)
    sentences = [
        replace(each, lead=(), score=label.has_answer)
        for some, labels in zip(cut, judged, strict=True)
        for each, label in zip(some, labels, strict=True)
    ]
    labels = [[each.has_answer, each.llm_prefer] for each in wholes]
    return {"labels": labels, "kept": kept(one, filled(lambda _: [by_score(sentences)]))}


def cheap(one: Listed, vectors: Vectors, shorten: Any) -> dict[str, Any]:
    """Return the scores of what costs less: MiniLM's cosine and BM25 of passages and sentences."""
    row, texts = one.row, [titled(passage) for passage in one.row.passages]
    score, near = BM25(texts), vectors.near(row.question, texts)
    order = np.argsort(-near, kind="stable")
    dense = replace(row, passages=tuple(row.passages[i] for i in order))
    return {
        "dense": near.tolist(),
        "BM25": [score(row.question, text) for text in texts],
        SHORTENED[0]: kept(one, lambda _, f: shorten[SHORTENED[0]]([dense], f)),
        **{way: kept(one, shorten[way]) for way in SHORTENED[1:]},
    }


def kept(one: Listed, way: Any) -> list[float]:
    """Return whether the answer is left at each fraction; nothing where its words are unknown."""
    golds = [p.text for p, gold in zip(one.row.passages, one.gold, strict=True) if gold]
    if not (one.row.answers and any(contains_answer(text, one.row.answers) for text in golds)):
        return []
    return [float(each.answer) for (each,) in way([one.row], FRACTIONS)]


def measured(found: Sequence[dict[str, Any]], models: Sequence[str]) -> Iterator[Measured]:
    """Yield what each order and each way to shorten is worth, list by list."""
    for each in found:

        def ranks(system: str, each: dict[str, Any] = each) -> dict[str, Any]:
            gold = [each["gold"][i] for i in order(each, system)]
            return {"MRR": reciprocal_rank(gold), "recall@1": recall_at(gold, 1)}

        own = {model: ranks(model) | left(each[model]["kept"]) for model in models}
        for model, values in own.items():
            said = [has_answer for has_answer, _ in each[model]["labels"]]
            values["calibration error"] = list(zip(said, each["gold"], strict=True))
        own |= {other: ranks(other) for other in (*(m + PRIOR for m in models), "dense", "BM25")}
        own |= {way: left(each["peers"][way]) for way in SHORTENED}
        for system, values in own.items():
            yield Measured(each["list"].name, values, system, each["kind"])


def left(flags: Sequence[float]) -> dict[str, float]:
    """Name whether the answer is left at each fraction; nothing where its words are unknown."""
    return {f"kept at {part:g}": flag for part, flag in zip(FRACTIONS, flags, strict=False)}


def order(each: dict[str, Any], system: str) -> list[int]:
    """Return the places of a list's passages, best first, in an order."""
    scores = each["peers"].get(system)
    if scores is None:
        labels = each[system.removesuffix(PRIOR)]["labels"]
        scores = [BiLabelScore(*both).relevance(DEFAULTS.weight) for both in labels]
    if not system.endswith(PRIOR):
        return np.argsort([-x for x in scores], kind="stable").tolist()  # type: ignore[no-any-return]
    row = each["list"].row
    given = np.argsort([-x for x in each["peers"]["dense"]], kind="stable").tolist()
    wholes = [Excerpt.whole(row.passages[i], score=scores[i]) for i in given]
    return [int(one.passage.id) for one in ranked(row.question, wholes, DEFAULTS.prior)]


if __name__ == "__main__":
    main()
