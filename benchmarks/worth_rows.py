"""The lists of passages that `worth.py` measures on; no bundled model saw these questions.

Each list is in dense order: nearest to the question first, by all-MiniLM-L6-v2. Kept are lists in
which the text of some passage, not its title alone, holds an answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from compression_rows import Asked, asked, retrieved
from numpy.typing import NDArray

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.retrieval import Encoder, read_corpus
from fitrag_integrations.training.rows import passage_row, read_jsonl
from fitrag_integrations.types import Passage

ROOT = Path(__file__).parents[1]
DEPTH = 20
POOL = ("squad_dev", "hotpotqa", "2wikimultihopqa", "musique")
RANDOM = 1000  # passages of wikipool that join BM25's candidates
WEB = ("toolqa", "freshqa", "realtimeqa")
WIKIPEDIA = ("nq", "popqa", "triviaqa", "2wiki", "pool")
ELSEWHERE = ("web", "papers", "docs")


class Vectors:
    """Vectors of texts by one encoder; a text is encoded once."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.known = encoder, dict[str, NDArray[np.float32]]()

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts. Shape: (n, width)."""
        if new := [text for text in dict.fromkeys(texts) if text not in self.known]:
            self.known.update(zip(new, self.encoder.encode(new), strict=True))
        return np.stack([self.known[text] for text in texts])

    def near(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosine of a question and each text."""
        near: NDArray[np.float32] = self(texts) @ self([question])[0]
        return near


def titled(passage: Passage) -> str:
    """Return a passage as retrievers index it: the title, then the text."""
    return f"{passage.title} {passage.text}".strip()


def load(name: str, data: Path, vectors: Vectors, *, n: int, seed: int) -> list[Asked]:
    """Return up to `n` lists of a set or of a JSON Lines file in dense order, 0 for all."""
    draw, limit = random.Random(seed), n or None
    if name in SEARCHED:
        rows = SEARCHED[name](data, n and n + n // 2, draw)
    else:
        rows = [row for row in LISTED.get(name, _file)(data, name) if answerable(row)]
        draw.shuffle(rows)
        rows = rows[:limit]
    once = {row.question: row for row in rows}.values()
    vectors([titled(passage) for row in once for passage in row.passages])
    return [*islice(filter(answerable, (_dense(row, vectors) for row in once)), limit)]


def answerable(row: Asked) -> bool:
    """Check that the text of some passage holds an answer."""
    return any(contains_answer(passage.text, row.answers) for passage in row.passages)


def _dense(row: Asked, vectors: Vectors) -> Asked:
    near = vectors.near(row.question, [titled(passage) for passage in row.passages])
    order = np.argsort(-near, kind="stable")[:DEPTH]
    return replace(row, passages=tuple(row.passages[i] for i in order))


def _web(data: Path, _: str) -> Iterator[Asked]:
    for row in read_jsonl(data / "retrievalqa" / "retrievalqa_gpt4_subset.jsonl.gz"):
        if row["dataset"] in WEB:
            yield _with_passages(row)


def _file(_: Path, name: str) -> Iterator[Asked]:
    yield from map(_with_passages, read_jsonl(Path(name)))


def _with_passages(row: dict[str, Any]) -> Asked:
    read = [passage_row(passage) for passage in row["passages"]]
    return asked(row, [(one.title, one.text) for one in read if one.text.strip()])


def _pool(data: Path, n: int, draw: random.Random) -> list[Asked]:
    """Return questions with a pool: BM25's first twenty for each of them, and random passages."""
    folder = data / "wikipool"
    rows = [row for row in read_jsonl(folder / "bm25_top20.jsonl.gz") if row["dataset"] in POOL]
    draw.shuffle(rows)
    rows = rows[: n or None]
    wanted = {each for row in rows for each in (*row["candidates"], *row["gold_ids"])}
    passages = list(read_jsonl(folder / "passages.jsonl.gz"))
    wanted |= {row["id"] for row in draw.sample(passages, RANDOM)}
    pool = [(row["title"], row["text"]) for row in passages if row["id"] in wanted]
    return _over(rows, pool)


def _papers(data: Path, n: int, draw: random.Random) -> list[Asked]:
    """Return questions with the papers that they and the others are about, cut into passages."""
    folder = data / "covidqa"
    rows = list(read_jsonl(folder / "covidqa_questions.jsonl.gz"))
    draw.shuffle(rows)
    rows = rows[: n or None]
    about = {row["doc_id"] for row in rows}
    with TemporaryDirectory() as texts:
        for row in read_jsonl(folder / "covidqa_documents.jsonl.gz"):
            if row["doc_id"] in about:
                (Path(texts) / f"{row['doc_id']}.txt").write_text(row["text"], encoding="utf-8")
        return _over(rows, [("", passage.text) for passage in read_corpus(texts)])


def _docs(_: Path, n: int, draw: random.Random) -> list[Asked]:
    """Return the questions on this project's documentation, with its pages cut into passages."""
    rows = list(read_jsonl(ROOT / "benchmarks" / "docs_questions.jsonl"))
    draw.shuffle(rows)
    return _over(rows[: n or None], [(p.title, p.text) for p in read_corpus(ROOT / "docs")])


def _over(rows: Sequence[dict[str, Any]], corpus: Sequence[tuple[str, str]]) -> list[Asked]:
    shared = tuple(Passage(str(i), text, title) for i, (title, text) in enumerate(corpus))
    return [Asked(row["question"], tuple(row["answers"]), shared) for row in rows]


LISTED: dict[str, Callable[[Path, str], Iterator[Asked]]] = {
    **dict.fromkeys(("nq", "popqa", "triviaqa", "2wiki"), retrieved),
    "web": _web,
}
SEARCHED: dict[str, Callable[[Path, int, random.Random], list[Asked]]] = {
    "pool": _pool,
    "papers": _papers,
    "docs": _docs,
}
