"""`fitrag index`: encode a corpus into a FAISS index on disk."""

from __future__ import annotations

import json as json_
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from fitrag_integrations.commands import models, options
from fitrag_integrations.errors import InputError


def index(
    corpus: Annotated[
        Path,
        typer.Argument(help="A .jsonl(.gz) of passages, a .txt or .md file, or a folder of those."),
    ],
    folder: Annotated[Path, typer.Argument(metavar="OUT_DIR", help="Where the index goes.")],
    encoder: Annotated[
        str | None,
        typer.Option(help="Encoder's name or folder.", show_default="all-MiniLM-L6-v2"),
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Add to the index that is there.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Put the new index in the place of an older one.")
    ] = False,
    strict: options.Strict = False,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Build an index of a corpus, or add to one.

    Rows of JSON Lines have text and may have id, title and source; other fields are kept as
    metadata. Text files are split into passages. What cannot be read is left out and counted.
    """
    began = time.monotonic()
    if not corpus.exists():
        raise InputError.of("corpus", given=str(corpus), allowed="a file or folder that is there")
    if folder.exists() and any(folder.iterdir()) and not (add or overwrite):
        allowed = "a new folder, or --add or --overwrite"
        raise InputError.of("OUT_DIR", given=str(folder), allowed=allowed)
    chosen = options.ModelOptions(encoder, device, dtype, batch_tokens)
    made = models.load_index(folder, chosen) if add else models.new_index(chosen)
    shown = sys.stderr.isatty() and not quiet
    added = made.add(_passages(corpus, quiet), on_bad="skip", show_progress=shown)
    made.save(folder)
    told = {"index": str(folder), "passages": len(made), "added": added, "skipped": made.skipped}
    if not quiet:
        typer.echo(f"fitrag index: {_told(told)}", err=True)
    if json:
        typer.echo(json_.dumps({**told, "seconds": round(time.monotonic() - began, 3)}))
    if strict and made.skipped:
        raise typer.Exit(1)


def _passages(corpus: Path, quiet: bool) -> Any:
    """Yield what the corpus holds, telling of what cannot be read."""
    from fitrag_integrations.retrieval import read_corpus

    for item in read_corpus(corpus, on_bad="yield"):
        if isinstance(item, InputError) and not quiet:
            typer.echo(f"fitrag index: left out: {item}", err=True)
        yield item


def _told(told: dict[str, Any]) -> str:
    skipped = f", {told['skipped']} left out" if told["skipped"] else ""
    return f"{told['passages']} passages in {told['index']}, {told['added']} of them new{skipped}"
