"""`fitrag index`: encode a corpus into a FAISS index on disk."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.corpus import echo_notes
from fitrag_integrations.commands.engine.options import EncoderHardware
from fitrag_integrations.commands.engine.rows import Shard
from fitrag_integrations.core.files import only_writer
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.retrieval import FileNote
from fitrag_integrations.types import Passage


@dataclass(frozen=True)
class IndexPlan:
    """Build an index of a corpus, or add to one.

    Rows of JSON Lines have text and may have id, title and source; other fields are kept as
    metadata. Text, HTML and PDF files are split into passages. What cannot be read is left out,
    named and counted.

    With --shard, write the parts of one corpus into subfolders of one folder, e.g. out/0 for 0/4.
    Every --index option searches that folder as one index and leaves the vectors on disk.
    """

    corpus: Annotated[
        Path,
        Argument("Folder or file of text, Markdown, HTML, PDF, or JSON Lines (.jsonl, .jsonl.gz)."),
    ]
    folder: Annotated[Path, Argument("Folder of the index.", metavar="OUT_DIR")]
    encoder: Annotated[
        str | None, Option("Encoder: a hub name or a folder.", default="all-MiniLM-L6-v2")
    ] = None
    kind: Annotated[
        str, Option("Index type: flat, fp16, ivf or hnsw; --add keeps the existing one.")
    ] = "flat"
    shard: options.ShardOf = None
    add: Annotated[bool, Option("Add to the existing index.")] = False
    overwrite: Annotated[bool, Option("Replace the existing index.")] = False
    strict: options.Strict = False
    hardware: EncoderHardware = EncoderHardware()
    quiet: options.Quiet = False
    json: options.AsJson = False

    def run(self) -> None:
        """Build it."""
        self.check()
        self.folder.mkdir(parents=True, exist_ok=True)
        with only_writer(self.folder):
            self._build()

    def _build(self) -> None:
        began = time.monotonic()
        chosen = self.hardware.of(self.encoder)
        made = (
            models.load_index(self.folder, chosen)
            if self.add
            else models.new_index(chosen, self.kind)
        )
        shown = sys.stderr.isatty() and not self.quiet
        notes: list[FileNote] = []
        passages = self._passages(notes)
        added = made.add(passages, on_bad="skip", show_progress=shown)
        made.save(self.folder)
        counts = {"passages": len(made), "added": added, "skipped": made.skipped}
        summary = {"index": str(self.folder), **counts}
        if not self.quiet:
            typer.echo(f"fitrag index: {_sentence(summary)}", err=True)
            echo_notes("index", notes, "" if self.json else "--json")
        if self.json:
            left_out = [note.to_dict() for note in notes]
            seconds = round(time.monotonic() - began, 3)
            typer.echo(json.dumps({**summary, "seconds": seconds, "left out": left_out}))
        if made.skipped and (self.strict or not len(made)):
            raise typer.Exit(1)

    def _passages(self, notes: list[FileNote]) -> Iterator[Passage | InputError]:
        """Yield what the corpus holds, or its part, noting what cannot be read."""
        from fitrag_integrations.retrieval import read_corpus

        shard = Shard.read(self.shard)
        found = read_corpus(self.corpus, on_bad="yield", notes=notes)
        for number, item in enumerate(found, start=1):
            name = item.id if isinstance(item, Passage) else None
            if shard is None or shard.has(name, number):
                yield item

    def check(self) -> None:
        """Raise `InputError` for a corpus that is missing and an index that would be lost."""
        if not self.corpus.exists():
            allowed = "a file or folder that is there"
            raise InputError.of("corpus", given=str(self.corpus), allowed=allowed)
        inside = list(self.folder.iterdir()) if self.folder.exists() else []
        there = any(not each.name.startswith(".") for each in inside)  # what a killed run left
        if there and not (self.add or self.overwrite):
            allowed = "a new folder, or --add or --overwrite"
            raise InputError.of("OUT_DIR", given=str(self.folder), allowed=allowed)
        Shard.read(self.shard)


def _sentence(summary: Row) -> str:
    skipped = f", {summary['skipped']} left out" if summary["skipped"] else ""
    added = f"{summary['added']} of them new"
    return f"{summary['passages']} passages in {summary['index']}, {added}{skipped}"
