"""The options that the `fitrag evaluate` commands share, as types Typer reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Format: TypeAlias = Annotated[
    str, typer.Option(help="Shape of the rows: auto, fitrag, nq, triviaqa, popqa, hotpotqa, ...")
]
Split: TypeAlias = Annotated[
    str | None, typer.Option(help="Part of a file that holds several, such as dev.")
]
Common: TypeAlias = Annotated[
    bool, typer.Option("--common", help="Compare over the questions in both, and leave out others.")
]
PriceIn: TypeAlias = Annotated[
    float | None, typer.Option(min=0, help="Price of a million tokens given to a language model.")
]
PriceOut: TypeAlias = Annotated[
    float | None, typer.Option(min=0, help="Price of a million tokens it writes.")
]
PriceSearch: TypeAlias = Annotated[
    float | None, typer.Option(min=0, help="Price of a thousand queries to a retriever or search.")
]
Out: TypeAlias = Annotated[
    Path | None,
    typer.Option("--out", help="Write everything, question by question: .json, .json.gz."),
]
Plot: TypeAlias = Annotated[
    Path | None, typer.Option(help="Draw into this file: .png, .svg or .pdf.")
]
Resamples: TypeAlias = Annotated[int, typer.Option(min=1, help="Bootstrap samples.")]
Seed: TypeAlias = Annotated[int, typer.Option(help="Seed of the bootstrap.")]
Cache: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Where what the model says is kept: .jsonl. A stopped run continues there.",
        show_default="beside --out",
    ),
]
OursFormat: TypeAlias = Annotated[
    str, typer.Option(help="Shape of the rows: fitrag, auto, or a published one such as hotpotqa.")
]
Result: TypeAlias = Annotated[
    Path | None,
    typer.Option("--result", help="Write everything, question by question: .json, .json.gz."),
]
