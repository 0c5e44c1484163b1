"""Check that every door to the default keeps the same excerpts of the same passages.

    python benchmarks/doors.py ROWS.jsonl[.gz] [-n 200] [--depth 20]

ROWS hold a question and passages[{title, text}], or candidates: ids of a `passages.jsonl.gz` beside
them. -n of them are drawn with seed 7. Each row goes through FitRag(), FitRag with the
bundled scorer passed by hand, the plain function, the classes of both frameworks, what `fitrag try`
builds, `fitrag compress`, `fitrag answer` and POST /compress. Printed is for each door in how many
rows it keeps what FitRag() keeps, in the same order. The exit code is 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fitrag_integrations import compress
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.flow import run_many
from fitrag_integrations.methods import FitRag
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Excerpt, Passage

Row = dict[str, Any]
Kept = list[tuple[int, str]]  # place of the passage in its row, and the text shown
Door = Callable[[Sequence[Row]], list[Kept]]
AT_ONCE = 16


def main() -> None:
    """Print the counts, and the first row in which a door differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--depth", type=int, default=20, help="passages of a row")
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
    expected, equal = fitrag(rows), True
    print(f"{len(rows)} rows, {sum(map(len, expected))} excerpts of FitRag()")
    for name, door in DOORS.items():
        found = door(rows)
        others = [at for at, kept in enumerate(found) if kept != expected[at]]
        print(f"{name}: {len(rows) - len(others)} of {len(rows)} equal", flush=True)
        if others:
            equal = False
            print(f"  {rows[others[0]]['question']}\n  {expected[others[0]]}\n  {found[others[0]]}")
    raise SystemExit(int(not equal))


def passages_of(row: Row) -> list[Passage]:
    """Return the passages of a row, named by their places."""
    return [
        Passage(str(at), one["text"], one.get("title") or "")
        for at, one in enumerate(row["passages"])
    ]


def places(excerpts: Iterable[Excerpt]) -> Kept:
    """Return where excerpts are from and what they show."""
    return [(int(one.passage.id), one.text) for one in excerpts]


def fitrag(rows: Sequence[Row], scorer: Any = None) -> list[Kept]:
    """Run `FitRag` over the rows as over what a retriever found."""
    method, kept = FitRag(scorer), list[Kept]()
    found = {row["question"]: passages_of(row) for row in rows}
    ports = Ports(retrieve=lambda queries: [found[query] for query in queries])
    for some in _blocks(rows):
        kept += [places(t.value.excerpts) for t in run_many([method(q, ports) for q in some])]
    return kept


def by_hand(rows: Sequence[Row]) -> list[Kept]:
    """Pass the bundled scorer, in torch."""
    from fitrag_integrations.models import BiLabelScorer

    return fitrag(rows, BiLabelScorer.embedded(dtype="float32"))


def tried(rows: Sequence[Row]) -> list[Kept]:
    """Build what `fitrag try` and `fitrag demo` build."""
    from fitrag_integrations.commands.engine.models import load_scorer
    from fitrag_integrations.commands.engine.options import ModelOptions

    return fitrag(rows, load_scorer(ModelOptions()))


def plain(rows: Sequence[Row]) -> list[Kept]:
    """Call the plain function."""
    return [places(compress(row["question"], passages_of(row))) for row in rows]


def langchain(rows: Sequence[Row], *, retrieving: bool) -> list[Kept]:
    """Run LangChain's retriever, or its compressor."""
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    from fitrag_integrations.langchain import FitRagRetriever, SubDocumentCompressor

    def documents(row: Row) -> list[Document]:
        return [
            Document(page_content=one.text, id=one.id, metadata={"title": one.title})
            for one in passages_of(row)
        ]

    def kept(found: Sequence[Document]) -> Kept:
        return [(int(one.metadata["source_id"]), one.page_content) for one in found]

    if retrieving:
        by_question = {row["question"]: documents(row) for row in rows}
        retriever = FitRagRetriever(base=RunnableLambda(by_question.__getitem__))
        return [kept(retriever.invoke(row["question"])) for row in rows]
    compressor = SubDocumentCompressor()
    return [kept(compressor.compress_documents(documents(row), row["question"])) for row in rows]


def llama_index(rows: Sequence[Row], *, retrieving: bool) -> list[Kept]:
    """Run LlamaIndex's retriever, or its postprocessor."""
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    from fitrag_integrations.llama_index import FitRagRetriever, SubDocumentCompressor

    def nodes(row: Row) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(id_=one.id, text=one.text, metadata={"title": one.title}))
            for one in passages_of(row)
        ]

    def kept(found: Sequence[NodeWithScore]) -> Kept:
        return [(int(one.node.metadata["source_id"]), one.text) for one in found]

    by_question = {row["question"]: row for row in rows}

    class Given(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return nodes(by_question[query_bundle.query_str])

    if retrieving:
        retriever = FitRagRetriever(base=Given())
        return [kept(retriever.retrieve(row["question"])) for row in rows]
    cut = SubDocumentCompressor().postprocess_nodes
    return [kept(cut(nodes(row), query_str=row["question"])) for row in rows]


def verb(name: str) -> Door:
    """Return the door of a verb that reads rows and writes rows."""

    def door(rows: Sequence[Row]) -> list[Kept]:
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


def served(rows: Sequence[Row]) -> list[Kept]:
    """Post the rows to the service."""
    from starlette.testclient import TestClient

    from fitrag_integrations.commands.serve import Settings, create_app

    with TestClient(create_app(Settings())) as client:
        replies = [client.post("/compress", json=row) for row in rows]
    return [_of_row(row, reply.json()) for row, reply in zip(rows, replies, strict=True)]


def _of_row(row: Row, written: Row) -> Kept:
    """Read what a verb wrote: texts, or places in the row's passages."""
    passages = passages_of(row)
    found = written["excerpts"] if "excerpts" in written else written["context"]
    return [
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


if __name__ == "__main__":
    main()
