"""`fitrag index` and `fitrag retrieve`: build an index of a corpus, and search one."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.models import passage_json
from fitrag_integrations.commands.engine.options import EncoderHardware, Files, RunOptions
from fitrag_integrations.commands.engine.progress import RowsPlan, echo_notes, progress_bar
from fitrag_integrations.commands.engine.rows import question_of
from fitrag_integrations.core.files import only_writer
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.ports import port_of
from fitrag_integrations.retrieval import FileNote


@dataclass(frozen=True)
class IndexPlan:
    """Build an index of a corpus, or add to one.

    Rows of JSON Lines have text and may have id, title and source; other fields are kept as
    metadata. Text, HTML and PDF files are split into passages. Files that cannot be read are
    skipped and listed.
    """

    corpus: Annotated[
        Path,
        Argument(
            "Folder or file of text, Markdown, HTML, PDF, or rows with text: JSON Lines, JSON or "
            "CSV."
        ),
    ]
    folder: Annotated[Path, Argument("Folder of the index.", metavar="OUT_DIR")]
    encoder: Annotated[
        str | None, Option("Encoder: a hub name or a folder.", default="all-MiniLM-L6-v2")
    ] = None
    kind: Annotated[
        str, Option("Index type: flat (exact) or fp16 (half the size); --add keeps it.")
    ] = "flat"
    add: Annotated[bool, Option("Add to the existing index.")] = False
    overwrite: Annotated[bool, Option("Replace the existing index.")] = False
    strict: Annotated[bool, Option("Exit with code 1 if a file was left out.")] = False
    hardware: EncoderHardware = EncoderHardware()
    quiet: options.Quiet = False
    json: options.AsJson = False

    def run(self) -> None:
        """Build the index."""
        self.check()
        self.folder.mkdir(parents=True, exist_ok=True)
        with only_writer(self.folder):
            self._build()

    def _build(self) -> None:
        from fitrag_integrations.retrieval import read_corpus

        began = time.monotonic()
        chosen = self.hardware.of(self.encoder)
        made = (
            models.load_index(self.folder, chosen)
            if self.add
            else models.new_index(chosen, self.kind)
        )
        notes: list[FileNote] = []
        passages = read_corpus(self.corpus, on_bad="yield", notes=notes)
        with progress_bar("passages", None, shown=not self.quiet, verb="index") as advance:
            read = (advance(1) or each for each in passages)
            added = made.add(read, on_bad="skip", show_progress=False)
        made.save(self.folder)
        if not self.quiet:
            skipped = f", {made.skipped} left out" if made.skipped else ""
            typer.echo(
                f"fitrag index: {len(made)} passages in {self.folder}, {added} of them "
                f"new{skipped}",
                err=True,
            )
            echo_notes("index", notes, "" if self.json else "--json")
        if self.json:
            summary = {
                "index": str(self.folder),
                "passages": len(made),
                "added": added,
                "skipped": made.skipped,
                "seconds": round(time.monotonic() - began, 3),
                "left out": [note.to_dict() for note in notes],
            }
            typer.echo(json.dumps(summary))
        if made.skipped and (self.strict or not len(made)):
            raise typer.Exit(1)

    def check(self) -> None:
        """Raise `InputError` for a corpus that is missing and an index that would be lost."""
        if not self.corpus.exists():
            raise InputError.missing("Corpus", str(self.corpus))
        inside = list(self.folder.iterdir()) if self.folder.exists() else []
        there = any(not each.name.startswith(".") for each in inside)  # what a killed run left
        refuse_if(
            there and not (self.add or self.overwrite),
            "OUT_DIR",
            str(self.folder),
            "a new folder, or --add or --overwrite",
        )


@dataclass(frozen=True)
class RetrievePlan(RowsPlan):
    """Find passages for the question of each row.

    Reads question; adds passages[{id, title, text, score}], best first, replacing those of the row.
    Searches an index of `fitrag index`, or a corpus: by words (BM25, without scores), or with
    --dense by an encoder.
    """

    name: ClassVar = "retrieve"
    files: Files
    index: Annotated[Path | None, Option("Index to search.")] = None
    corpus: Annotated[Path | None, Option("File or folder to search instead of an index.")] = None
    dense: Annotated[bool, Option("Search the corpus with an encoder instead of BM25.")] = False
    k: options.Retrieved = DEFAULTS.candidates
    encoder: Annotated[
        str | None,
        Option("Encoder: a hub name or a folder.", default="the index's, or all-MiniLM-L6-v2"),
    ] = None
    hardware: EncoderHardware = EncoderHardware()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Retrieve the passages of each question."""
        self.check()
        super().run()

    def check(self) -> None:
        """Raise `InputError` unless there is one thing to search, and it is there."""
        refuse_if(
            (self.index is None) is (self.corpus is None),
            "--index",
            f"--index {self.index}, --corpus {self.corpus}",
            "one of --index and --corpus",
        )
        refuse_if(
            self.dense and self.corpus is None, "--dense", True, "with --corpus; an index is dense"
        )
        for name, path in (("--index", self.index), ("--corpus", self.corpus)):
            if path is not None and not path.exists():
                raise InputError.missing(f"File or folder of {name}", path)

    def verb(self) -> Verb:
        """Open the index, or read the corpus."""
        how, notes = self.hardware.of(self.encoder), list[FileNote]()
        if self.index is not None:
            retriever = models.load_retriever(self.index, how, k=self.k)
        else:
            from fitrag_integrations.retrieval.corpus.documents import read_passages

            passages = read_passages(self.corpus or "", notes)
            if not self.how.quiet:
                echo_notes("retrieve", notes)
            if self.dense:
                made = models.new_index(how)
                made.add(passages)
                retriever = made.as_retriever(self.k)
            else:
                retriever = models.searching_words(passages, k=self.k)
        port = port_of("retrieve", retriever, "retrieve")

        def flow(row: Row) -> Flow[Row]:
            (found,) = yield from port.ask([question_of(row)])
            return {"passages": list(map(passage_json, found))}

        return Verb(flow, ("passages",), {"passages": []})
