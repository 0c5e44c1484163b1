"""Measure what is asked of the retriever: recall of supporting passages, round by round.

    python benchmarks/multihop.py DATA [--index FOLDER] [-n 0] [--k 5] [--rounds 4] [--read 100]

Multi-hop questions (HotpotQA and 2Wiki test halves, MuSiQue) over the passages of `wikipool`, by
BM25 and by the embedded encoder. Compared with the question alone: ITRG's expanded query with a
recorded LLM answer as the document, ITRG's rounds with the embedded reader in the language model's
place, and claim queries fused by reciprocal rank. DATA holds `multihop`, `wikipool` and `slimplm`;
nothing here is trained on. The dense index is built once, in a quarter of an hour on one core, and
kept in FOLDER.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fitrag_integrations.evaluation.figures.figure import mean_interval, paired_interval
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods import ITRG
from fitrag_integrations.methods.slimplm.steps import fuse
from fitrag_integrations.methods.writing import expanded_query
from fitrag_integrations.models import ExtractiveReader
from fitrag_integrations.ports import Pair, Ports
from fitrag_integrations.retrieval import FaissIndex
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.training.rows import read_jsonl
from fitrag_integrations.types import Passage

SETS = {
    "hotpotqa": "hotpotqa_test",
    "2wikimultihopqa": "2wikimultihopqa_test",
    "musique": "musique_slimplm",
}
_EARLIER = re.compile(r"^Earlier document: (.*)$", re.MULTILINE)
DEPTH = 20  # of the lists that are fused
Row = dict[str, Any]
Lists = list[list[Passage]]


class Bm25:
    """Rank the pool by BM25 (k1 0.9, b 0.4), stemmed."""

    def __init__(self, pool: Sequence[Passage]) -> None:
        import bm25s
        import Stemmer

        self._tokenize, self._stemmer = bm25s.tokenize, Stemmer.Stemmer("english")
        self._pool, self._index = pool, bm25s.BM25(k1=0.9, b=0.4)
        texts = [f"{passage.title} {passage.text}" for passage in pool]
        self._index.index(self._words(texts), show_progress=False)

    def search(self, queries: Sequence[str], k: int) -> Lists:
        """Give the best k passages for each query, best first."""
        found, _ = self._index.retrieve(self._words(queries), k=k, show_progress=False)
        return [[self._pool[int(i)] for i in ids] for ids in found]

    def _words(self, texts: Sequence[str]) -> Any:
        return self._tokenize(
            list(texts), stopwords="en", stemmer=self._stemmer, show_progress=False
        )


class ReaderWrites:
    """Write a document with the reader: the span it trusts most in a prompt's passages.

    With `sentences` it is the title and the sentence around that span. What it finds is put behind
    the earlier document, where a prompt shows one.
    """

    def __init__(self, reader: ExtractiveReader, read: dict[Pair, Any], *, sentences: bool) -> None:
        self._reader, self._read, self._sentences = reader, read, sentences

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Read the passages back out of each prompt of `ITRG`."""
        earlier = [_EARLIER.findall(prompt) for prompt in prompts]
        asked = [list(_pairs(prompt)) for prompt in prompts]
        new = list({pair: None for pairs in asked for pair in pairs if pair not in self._read})
        self._read.update(zip(new, self._reader.read(new), strict=True))
        found = [self._found(pairs) for pairs in asked]
        return [" ".join([*before, new]) for before, new in zip(earlier, found, strict=True)]

    def _found(self, pairs: Sequence[Pair]) -> str:
        _, passage = max(pairs, key=lambda pair: self._read[pair].score)
        answer = self._read[_, passage]
        if not self._sentences:
            return str(answer.text)
        spans = split_sentences(passage.text)
        start, end = next((s, e) for s, e in spans if s <= answer.start < e)
        return f"{passage.title}: {passage.text[start:end]}"


class Searching:
    """Offer one searcher to flows, k passages a query."""

    def __init__(self, searcher: Any, k: int) -> None:
        self._searcher, self._k = searcher, k

    def retrieve(self, queries: Sequence[str]) -> Lists:
        """Search for all queries at once."""
        return list(self._searcher.search(queries, self._k))


def main() -> None:
    """Measure every set with both retrievers and print a line per way of asking."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--index", type=Path, default=Path("runs/wikipool-minilm"))
    parser.add_argument("-n", type=int, default=0, help="questions a set, 0 for all")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--read", type=int, default=100, help="questions for the reader's rounds")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument(
        "--retrievers", nargs="+", default=["bm25", "dense"], choices=["bm25", "dense"]
    )
    parser.add_argument("--dtype", default=None, help="of the reader; bfloat16 is faster on a CPU")
    args = parser.parse_args()
    pool = [
        Passage(row["id"], row["text"], row["title"])
        for row in read_jsonl(args.data / "wikipool" / "passages.jsonl.gz")
    ]
    reader, read = ExtractiveReader.embedded(dtype=args.dtype), dict[Pair, Any]()
    print(f"recall of supporting passages at {args.k}, with 95 % intervals")
    for name in args.retrievers:
        searcher: Any = Bm25(pool) if name == "bm25" else _index(args.index, pool)
        for dataset in args.sets:
            rows = list(_rows(args.data, dataset))[: args.n or None]
            table = _Table(f"{dataset} {name}", rows, searcher, args.k)
            table.recorded()
            table.claims()
            if not args.read:
                continue
            if args.read < len(rows):
                table = _Table(f"{dataset} {name}", rows[: args.read], searcher, args.k)
            for mode in ("refine", "refresh"):
                for sentences in (False, True):
                    writer = ReaderWrites(reader, read, sentences=sentences)
                    table.rounds(mode, writer, args.rounds, "sentence" if sentences else "span")


class _Table:
    """Measure and print one set with one retriever."""

    def __init__(self, head: str, rows: list[Row], searcher: Any, k: int) -> None:
        self._rows, self._searcher, self._k = rows, searcher, k
        self._alone = searcher.search([row["question"] for row in rows], max(DEPTH, k))
        self._base = self._recalls(rows, self._alone)
        low, high = mean_interval(self._base)
        print(f"\n{head}: {len(rows)} questions", flush=True)
        print(f"  {'the question alone':<44} {fmean(self._base):.3f} [{low:.3f}, {high:.3f}]")

    def recorded(self) -> None:
        """Expand the question with the answers an LLM gave without and with one retrieval."""
        for field in ("llm_answer_no_retrieval", "llm_answer_one_retrieval"):
            if field in self._rows[0]:
                queries = [expanded_query(row["question"], row[field]) for row in self._rows]
                found = self._searcher.search(queries, DEPTH)
                name = field.removeprefix("llm_answer_").replace("_", " ")
                self._told(f"[q; recorded answer, {name}]", self._rows, found)
                both = [_fused(pair) for pair in zip(self._alone, found, strict=True)]
                self._told("  the same, fused with the question", self._rows, both)

    def claims(self) -> None:
        """Ask the queries recorded with a question, fused, without and with the question."""
        for name in NAMES:
            rows = [row for row in self._rows if row.get(name)]
            if rows:
                queries = [query for row in rows for query in row[name]]
                lists = iter(self._searcher.search(queries, DEPTH))
                found = [[next(lists) for _ in row[name]] for row in rows]
                self._told(NAMES[name], rows, [_fused(each) for each in found])
                places = {row["id"]: at for at, row in enumerate(self._rows)}
                alone = [self._alone[places[row["id"]]] for row in rows]
                both = [_fused([one, *more]) for one, more in zip(alone, found, strict=True)]
                self._told("  the same, with the question", rows, both)

    def rounds(self, mode: Any, writer: ReaderWrites, rounds: int, kind: str) -> None:
        """Run ITRG, and measure R_t of each round; who has finished keeps the last."""
        ports = Ports(Searching(self._searcher, self._k), generate=writer)
        method = ITRG(mode, rounds=rounds, k=self._k)
        traces = run_many([method(row["question"], ports) for row in self._rows])
        told = [trace.value.details["rounds"] for trace in traces]
        for at in range(1, rounds):
            ids = [(one := each[min(at, len(each) - 1)])["new"] + one["old"] for each in told]
            active = sum(len(each) > at for each in told)
            name = f"ITRG {mode}, {kind}, round {at + 1} ({active} asked)"
            self._compared(name, self._base, [_recall(r, i) for r, i in self._zip(ids)])
        ever = [list({name for one in each for name in one["new"]}) for each in told]
        same = [[p.id for p in one[: len(i)]] for one, i in zip(self._alone, ever, strict=True)]
        base = [_recall(row, each) for row, each in self._zip(same)]
        name = f"  all rounds, {fmean(map(len, ever)):.1f} passages, against as many"
        self._compared(name, base, [_recall(r, i) for r, i in self._zip(ever)])

    def _zip(self, ids: Sequence[list[str]]) -> Iterator[tuple[Row, list[str]]]:
        return zip(self._rows, ids, strict=True)

    def _recalls(self, rows: Sequence[Row], found: Lists) -> list[float]:
        ids = [[passage.id for passage in each[: self._k]] for each in found]
        return [_recall(row, each) for row, each in zip(rows, ids, strict=True)]

    def _told(self, name: str, rows: Sequence[Row], found: Lists) -> None:
        places = {row["id"]: at for at, row in enumerate(self._rows)}
        base = [self._base[places[row["id"]]] for row in rows]
        self._compared(name, base, self._recalls(rows, found))

    def _compared(self, name: str, base: list[float], got: list[float]) -> None:
        low, high = paired_interval(got, base)
        change = fmean(got) - fmean(base)
        sign = "better" if low > 0 else "worse" if high < 0 else "no clear difference"
        few = "" if base == self._base else f" ({len(got)} questions, alone {fmean(base):.3f})"
        told = f"{fmean(got):.3f} {change:+.3f} [{low:+.3f}, {high:+.3f}] {sign}{few}"
        print(f"  {name:<44} {told}", flush=True)


NAMES = {
    "claims": "queries of the claims not known",
    "asked": "queries of the question",
    "both": "queries of the claims and of the question",
    "first_part": "first part of the decomposition",
    "parts_known": "all parts, answers filled in (an oracle)",
}


def _rows(data: Path, dataset: str) -> Iterator[Row]:
    """Read the questions with the ids of their supporting passages, and the recorded queries."""
    gold = {
        row["id"]: row["gold_ids"]
        for row in read_jsonl(data / "wikipool" / "bm25_top20.jsonl.gz")
        if row["dataset"] == dataset
    }
    claims = {row["id"]: row for row in read_jsonl(data / "slimplm" / "claims_llama2_13b.jsonl.gz")}
    for row in read_jsonl(data / "multihop" / f"{SETS[dataset]}.jsonl.gz"):
        yield {**row, "gold": gold[row["id"]], **_claims(claims.get(row["id"])), **_parts(row)}


def _claims(row: Row | None) -> Row:
    """Give the queries of the claims and of the question that the annotator would search for."""
    if row is None:
        return {}
    claims = [claim["query"] for claim in row["claims"] if claim["needSearch"]]
    asked = [one["searchWord"] for one in row["question_queries"] if one["needSearch"]]
    kinds = {"claims": claims, "asked": asked, "both": [*asked, *claims]}
    return {kind: [query for query in queries if query.strip()] for kind, queries in kinds.items()}


def _parts(row: Row) -> Row:
    """Give the parts of a decomposed question, `#1` replaced by the first part's answer."""
    parts = row.get("decomposition", [])
    answers = [part["answer"] for part in parts]
    known = [re.sub(r"#(\d)", lambda m: answers[int(m[1]) - 1], one["question"]) for one in parts]
    return {"parts_known": known, "first_part": known[:1]}


def _pairs(prompt: str) -> Iterator[Pair]:
    """Read the passages of a document prompt, one a line, and its question."""
    body = prompt.rpartition("Passage:\n")[2]
    passages, _, question = body.rpartition("\nQuestion: ")
    for line in re.split(r"\n(?=\d+\. )", passages):
        title, _, text = line.partition(". ")[2].partition(": ")
        yield question.removesuffix("\nDocument:"), Passage("", text or title, title)


def _fused(lists: Sequence[Sequence[Passage]]) -> list[Passage]:
    return [excerpt.passage for excerpt in fuse(lists)]


def _recall(row: Row, ids: Sequence[str]) -> float:
    return len(set(row["gold"]) & set(ids)) / len(row["gold"])


def _index(folder: Path, pool: Sequence[Passage]) -> FaissIndex:
    if not folder.is_dir():
        FaissIndex.build(pool, show_progress=True).save(folder)
    return FaissIndex.load(folder)


if __name__ == "__main__":
    main()
