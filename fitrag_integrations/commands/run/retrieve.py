"""`fitrag retrieve`: passages for each question, from an index or straight from a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.corpus import echo_notes
from fitrag_integrations.commands.engine.options import EncoderHardware, Files, RunOptions
from fitrag_integrations.commands.engine.progress import run_plan
from fitrag_integrations.commands.engine.rows import question_of
from fitrag_integrations.commands.engine.searching import passage_json
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.ports import Retriever, port_of
from fitrag_integrations.retrieval import FileNote
from fitrag_integrations.types import Passage


@dataclass(frozen=True)
class RetrievePlan:
    """Find passages for the question of each row.

    Reads question; adds passages[{id, title, text, score}], best first, in the place of any that
    were there. An index is that of `fitrag index`. A corpus is read as `fitrag index` reads it and
    searched by words (BM25, which gives no scores), or with --dense by an encoder.
    """

    files: Files
    index: Annotated[Path | None, Option("Index to search.")] = None
    corpus: Annotated[Path | None, Option("File or folder to search instead of an index.")] = None
    dense: Annotated[bool, Option("Search the corpus with an encoder instead of BM25.")] = False
    k: Annotated[int, Option("Passages to retrieve per question.", name="--k", min=1)] = (
        DEFAULTS.candidates
    )
    encoder: Annotated[
        str | None,
        Option("Encoder: a hub name or a folder.", default="the index's, or all-MiniLM-L6-v2"),
    ] = None
    hardware: EncoderHardware = EncoderHardware()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Find them."""
        self.check()
        run_plan("retrieve", self)

    def check(self) -> None:
        """Raise `InputError` unless there is one thing to search, and it is there."""
        if (self.index is None) is (self.corpus is None):
            given = f"--index {self.index}, --corpus {self.corpus}"
            raise InputError.of("--index", given=given, allowed="one of --index and --corpus")
        if self.dense and self.corpus is None:
            raise InputError.of("--dense", given=True, allowed="with --corpus; an index is dense")
        for name, path in (("--index", self.index), ("--corpus", self.corpus)):
            if path is not None and not path.exists():
                raise InputError.of(name, given=str(path), allowed="what is there")

    def verb(self) -> Verb[list[Passage]]:
        """Open the index, or read the corpus."""
        return retrieve_verb(self._retriever())

    def _retriever(self) -> Retriever:
        how = self.hardware.of(self.encoder)
        if self.index is not None:
            return models.load_retriever(self.index, how, k=self.k)
        from fitrag_integrations.retrieval.corpus.documents import read_passages

        notes: list[FileNote] = []
        passages = read_passages(self.corpus or "", notes)
        if not self.how.quiet:
            echo_notes("retrieve", notes)
        if not self.dense:
            return models.searching_words(passages, k=self.k)
        made = models.new_index(how)
        made.add(passages)
        retriever: Retriever = made.as_retriever(self.k)
        return retriever


def retrieve_verb(retriever: Retriever) -> Verb[list[Passage]]:
    """Search with the questions of a chunk at once."""
    port = port_of("retrieve", retriever, "retrieve")

    def flow(row: Row) -> Flow[list[Passage]]:
        (found,) = yield from port.ask([question_of(row)])
        return list(found)

    return Verb(
        flow,
        lambda traced: {"passages": [passage_json(each) for each in traced.value]},
        ("passages",),
        {"passages": []},
    )
