"""Check that every door keeps the same excerpts of the same passages, with the same notes.

    python benchmarks/doors.py ROWS.jsonl[.gz] [-n 200] [--depth 20] [--ways default]

ROWS hold a question and passages[{title, text}], or candidates: ids of a `passages.jsonl.gz` beside
them. -n of them are drawn with seed 7. Each row goes through FitRag(), FitRag with the bundled
scorer passed by hand, the plain function, the classes of both frameworks, what `fitrag try` builds,
`fitrag compress`, `fitrag answer` and POST /compress; with other options (`WAYS`), through those
that take them. Printed is for each door in how many rows it keeps what FitRag() keeps, in the same
order, with the notes and details where it has any. The exit code is 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fitrag_integrations import compress
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods import FitRag
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import BiLabelScore, Context, Excerpt, Passage

Row = dict[str, Any]
Kept = list[tuple[int, str]]  # place of the passage in its row, and the text shown
Found = tuple[Kept, Any, Any]  # with notes and details, None where a door has none
Door = Callable[[Sequence[Row], Row], list[Found]]
AT_ONCE = 16


def words(pairs: Sequence[tuple[str, Passage]]) -> list[BiLabelScore]:
    """Score a text by the words of the question in it."""
    asked = [set(question.lower().split()) for question, _ in pairs]
    shared = [len(q & {*p.text.lower().split()}) for q, (_, p) in zip(asked, pairs, strict=True)]
    return [BiLabelScore(n / len(q), 0.5) for n, q in zip(shared, asked, strict=True)]


class Words:
    """Score passages, and their sentences in the same call."""

    score = staticmethod(words)

    def score_sentences(self, items: Sequence[Any]) -> list[Any]:
        """Score each passage and each of its spans."""
        return [
            (*words([(q, p)]), words([(q, replace(p, text=p.text[a:b])) for a, b in spans]))
            for q, p, spans in items
        ]


BASE = {"max_tokens": 80}
WAYS: dict[str, Row] = {
    "default": {},
    **{f"top_n={n}": {**BASE, "top_n": n} for n in (None, 1, 5)},
    **{f"prior=0, top_n={n}": {**BASE, "prior": 0.0, "top_n": n} for n in (None, 5)},
    **{f"no deduplicate, top_n={n}": {"deduplicate": False, "top_n": n} for n in (None, 5)},
    **{f"own scorer, top_n={n}": {**BASE, "scorer": words, "top_n": n} for n in (None, 1, 5)},
    **{f"own sentences, top_n={n}": {**BASE, "scorer": Words(), "top_n": n} for n in (None, 1, 5)},
    "own scorer, prior": {**BASE, "scorer": words, "prior": 0.3, "top_n": None},
    "window=3": {"window": 3, "top_n": None},
}


def main() -> None:
    """Print the counts, and the first row in which a door differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--depth", type=int, default=20, help="passages of a row")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    args = parser.parse_args()
    given = list(read_jsonl(args.rows))
    given = random.Random(7).sample(given, min(args.n, len(given)))
    if "candidates" in given[0]:
        wanted = {one for row in given for one in row["candidates"][: args.depth]}
        pool = read_jsonl(args.rows.with_name("passages.jsonl.gz"))
        texts = {one["id"]: one for one in pool if one["id"] in wanted}
        given = [
            {**row, "passages": [texts[one] for one in row["candidates"][: args.depth]]}
            for row in given
        ]
    rows = [
        {"question": row["question"], "passages": row["passages"][: args.depth]} for row in given
    ]
    equal = True
    for way in args.ways:
        expected = fitrag(rows, WAYS[way])
        print(f"{way}: {len(rows)} rows, {sum(len(kept) for kept, *_ in expected)} excerpts")
        for name in DOORS if way == "default" else TAKING:
            found = DOORS[name](rows, WAYS[way])
            others = differing(expected, found)
            print(f"  {name}: {len(rows) - len(others)} of {len(rows)} equal", flush=True)
            if others:
                equal, at = False, others[0]
                print(f"    {rows[at]['question']}\n    {expected[at]}\n    {found[at]}")
    raise SystemExit(int(not equal))


def differing(expected: Sequence[Found], found: Sequence[Found]) -> list[int]:
    """Return the places of rows in which a door differs in what it has."""
    return [
        at
        for at, pair in enumerate(zip(expected, found, strict=True))
        if any(b not in (None, a) for a, b in zip(*pair, strict=True))
    ]


def passages_of(row: Row) -> list[Passage]:
    """Return the passages of a row, named by their places."""
    return [
        Passage(str(at), one["text"], one.get("title") or "")
        for at, one in enumerate(row["passages"])
    ]


def places(excerpts: Iterable[Excerpt]) -> Kept:
    """Return where excerpts are from and what they show."""
    return [(int(one.passage.id), one.text) for one in excerpts]


def told(context: Context) -> Found:
    """Return what a context holds."""
    return places(context.excerpts), context.notes, context.details


def fitrag(rows: Sequence[Row], how: Row) -> list[Found]:
    """Run `FitRag` over the rows as over what a retriever found."""
    method, kept = FitRag(**how), list[Found]()
    found = {row["question"]: passages_of(row) for row in rows}
    ports = Ports(retrieve=lambda queries: [found[query] for query in queries])
    for some in _blocks(rows):
        kept += [told(traced.value) for traced in run_many([method(q, ports) for q in some])]
    return kept


def by_hand(rows: Sequence[Row], how: Row) -> list[Found]:
    """Pass the bundled scorer, in torch."""
    from fitrag_integrations.models import BiLabelScorer

    made = fitrag(rows, {**how, "scorer": BiLabelScorer.embedded(dtype="float32")})
    return [(kept, None, None) for kept, *_ in made]  # a note says that scores differ slightly


def tried(rows: Sequence[Row], how: Row) -> list[Found]:
    """Build what `fitrag try` and `fitrag demo` build."""
    from fitrag_integrations.commands.engine.models import load_scorer
    from fitrag_integrations.commands.engine.options import ModelOptions

    return fitrag(rows, {**how, "scorer": load_scorer(ModelOptions())})


def plain(rows: Sequence[Row], how: Row) -> list[Found]:
    """Call the plain function."""
    return [told(compress(row["question"], passages_of(row), **how).context) for row in rows]


def langchain(rows: Sequence[Row], how: Row, *, retrieving: bool) -> list[Found]:
    """Run LangChain's retriever, or its compressor."""
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    from fitrag_integrations.langchain import FitRagRetriever, SubDocumentCompressor

    def documents(row: Row) -> list[Document]:
        return [
            Document(page_content=one.text, id=one.id, metadata={"title": one.title})
            for one in passages_of(row)
        ]

    def kept(found: Any) -> Found:
        shown = [(int(one.metadata["source_id"]), one.page_content) for one in found]
        return shown, found.context.notes, found.context.details

    if retrieving:
        by_question = {row["question"]: documents(row) for row in rows}
        retriever = FitRagRetriever(base=RunnableLambda(by_question.__getitem__), **how)
        return [kept(retriever.invoke(row["question"])) for row in rows]
    cut = SubDocumentCompressor(**how).compress_documents
    return [kept(cut(documents(row), row["question"])) for row in rows]


def llama_index(rows: Sequence[Row], how: Row, *, retrieving: bool) -> list[Found]:
    """Run LlamaIndex's retriever, or its postprocessor."""
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    from fitrag_integrations.llama_index import FitRagRetriever, SubDocumentCompressor

    def nodes(row: Row) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(id_=one.id, text=one.text, metadata={"title": one.title}))
            for one in passages_of(row)
        ]

    by_question = {row["question"]: row for row in rows}

    class Given(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return nodes(by_question[query_bundle.query_str])

    made: Any = FitRagRetriever(Given(), **how) if retrieving else SubDocumentCompressor(**how)

    def kept(row: Row) -> Found:
        question = row["question"]
        if retrieving:
            found = made.retrieve(question)
        else:
            found = made.postprocess_nodes(nodes(row), query_str=question)
        shown = [(int(one.node.metadata["source_id"]), one.text) for one in found]
        return shown, made.last_run.value.notes, made.last_run.value.details

    return [kept(row) for row in rows]


def verb(name: str) -> Door:
    """Return the door of a verb that reads rows and writes rows."""

    def door(rows: Sequence[Row], _: Row) -> list[Found]:
        from fitrag_integrations.cli import main as command

        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
            source.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
            try:
                command([name, str(source), str(target), "--quiet"])
            except SystemExit as ended:
                if ended.code:
                    raise
            return [_of_row(row, row) for row in read_jsonl(target)]

    return door


def served(rows: Sequence[Row], _: Row) -> list[Found]:
    """Post the rows to the service."""
    from starlette.testclient import TestClient

    from fitrag_integrations.commands.serve import Settings, create_app

    with TestClient(create_app(Settings())) as client:
        replies = [client.post("/compress", json=row) for row in rows]
    return [_of_row(row, reply.json()) for row, reply in zip(rows, replies, strict=True)]


def _of_row(row: Row, written: Row) -> Found:
    """Read what a verb wrote: texts, or places in the row's passages."""
    passages = passages_of(row)
    found = written["excerpts"] if "excerpts" in written else written["context"]
    shown = [
        (
            one["passage"],
            one.get("text")
            or Excerpt(
                passages[one["passage"]],
                one["start"],
                one["end"],
                lead=tuple((start, end) for start, end in one.get("lead", ())),
            ).text,
        )
        for one in found
    ]
    notes = written.get("notes")
    return shown, None if notes is None else tuple(notes), None


def _blocks(rows: Sequence[Row]) -> Iterator[list[str]]:
    questions = iter([row["question"] for row in rows])
    while some := list(islice(questions, AT_ONCE)):
        yield some


DOORS: dict[str, Door] = {
    "FitRag(BiLabelScorer.embedded())": by_hand,
    "fitrag try, fitrag demo": tried,
    "compress()": plain,
    "LangChain FitRagRetriever": partial(langchain, retrieving=True),
    "LangChain SubDocumentCompressor": partial(langchain, retrieving=False),
    "LlamaIndex FitRagRetriever": partial(llama_index, retrieving=True),
    "LlamaIndex SubDocumentCompressor": partial(llama_index, retrieving=False),
    "fitrag compress": verb("compress"),
    "fitrag answer": verb("answer"),
    "POST /compress": served,
}
TAKING = [name for name in DOORS if name.startswith(("compress()", "Lang", "Llama"))]


if __name__ == "__main__":
    main()
