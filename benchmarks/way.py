"""Walk with a question along the three main roads: what it enters, and how often it moves on.

    python benchmarks/way.py [--calls]

Twenty passages, the bundled scorer, and a question that was asked before ("warm"), through
LangChain's `FitRagRetriever`, the LlamaIndex class of that name, and one row of `fitrag compress`
without its start. Counted by `sys.setprofile` on all threads is what runs in the package: files
entered, functions entered, calls, and moves (a call into another file of the package than that of
the function that last ran on the thread). With `--calls` every function is named.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import fitrag_integrations
from fitrag_integrations.cli import main as fitrag

ROOT = Path(fitrag_integrations.__file__).parent
QUESTION = "Which port do the metrics use?"
TEXTS = [
    f"Chapter {i} is about volume {i}. It was written in {1990 + i}. {more}"
    for i in range(10)
    for more in (
        "The web interface runs on port 8461. Owners need a second factor to log in.",
        "Prometheus metrics are served on port 9464. They need no key.",
    )
]


class Walk:
    """Count the calls within the package, and the moves between its files."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.moves = 0
        self.last: dict[int, str] = {}
        self.names: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call into the package; a comprehension is part of its function."""
        code = frame.f_code
        if event != "call" or code.co_name.startswith("<"):
            return
        if code.co_filename not in self.names:
            path = Path(code.co_filename)
            inside = path.is_relative_to(ROOT)
            self.names[code.co_filename] = str(path.relative_to(ROOT)) if inside else None
        file = self.names[code.co_filename]
        if file is not None:
            self.calls[file, code.co_qualname] += 1
            thread = threading.get_ident()
            self.moves += self.last.get(thread, file) != file
            self.last[thread] = file


def langchain() -> Callable[[], object]:
    """Return a question to LangChain's retriever."""
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    from fitrag_integrations.langchain import FitRagRetriever

    class Listed(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [Document(text) for text in TEXTS]

    retriever = FitRagRetriever(base=Listed(), max_tokens=60)
    return lambda: retriever.invoke(QUESTION)


def llama_index() -> Callable[[], object]:
    """Return a question to the LlamaIndex retriever."""
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    from fitrag_integrations.llama_index import FitRagRetriever

    class Listed(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(text=text), score=1.0) for text in TEXTS]

    retriever = FitRagRetriever(Listed(), max_tokens=60)
    return lambda: retriever.retrieve(QUESTION)


def command() -> Callable[[int], object]:
    """Return the command over a number of rows."""
    folder = Path(tempfile.mkdtemp())
    row = {"question": QUESTION, "passages": [{"text": text} for text in TEXTS]}

    def run(rows: int) -> object:
        given, made = folder / "in.jsonl", folder / "out.jsonl"
        given.write_text((json.dumps(row) + "\n") * rows)
        made.unlink(missing_ok=True)
        try:
            fitrag(["compress", str(given), str(made), "--max-tokens", "60"])
        except SystemExit as end:
            assert not end.code, made
        return made.read_text()

    return run


def walked(call: Callable[[], object]) -> Walk:
    """Walk through a call that was made before."""
    walk = Walk()
    getattr(threading, "setprofile_all_threads", threading.setprofile)(walk)  # as of Python 3.12
    sys.setprofile(walk)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return walk


def main() -> None:
    """Print the counts of the three roads."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", action="store_true", help="name every function")
    named = parser.parse_args().calls
    walks = {}
    for name, road in (("LangChain", langchain), ("LlamaIndex", llama_index)):
        call = road()
        call()
        walks[name] = walked(call)
    run = command()
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        run(1)
        one, two = walked(lambda: run(1)), walked(lambda: run(2))
    print("| road | files | functions | calls | moves |\n| --- | --- | --- | --- | --- |")
    for name, walk in [*walks.items(), ("fitrag compress, one row", one), ("a row more", two)]:
        files = len({file for file, _ in walk.calls})
        print(f"| {name} | {files} | {len(walk.calls)} | {walk.calls.total()} | {walk.moves} |")
        if named:
            for (file, function), count in walk.calls.most_common():
                print(f"{count:5} {file}: {function}")


if __name__ == "__main__":
    main()
