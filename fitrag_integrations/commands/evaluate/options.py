"""Options and output that the `fitrag evaluate` verbs share."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

import fitrag_integrations
from fitrag_integrations.commands.doctor import installed_version
from fitrag_integrations.commands.engine.options import AsJson, PriceIn, PriceOut
from fitrag_integrations.commands.engine.rows import reason_of
from fitrag_integrations.commands.evaluate.terminal import show_notes
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.files import fingerprint
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figure import Figure
from fitrag_integrations.evaluation.figures.summaries import Draws
from fitrag_integrations.evaluation.loaders import Loaded, read_questions
from fitrag_integrations.evaluation.loaders.reading import HUB
from fitrag_integrations.evaluation.result import (
    Result,
    check_result_name,
    content_id,
)

DRAWINGS = (".png", ".svg", ".pdf")
OURS, EMBEDDED = "fitrag", "embedded"
InputRows: TypeAlias = Annotated[str, Argument("Input rows: a file, or hf:NAME:SPLIT.")]
LabeledRows: TypeAlias = Annotated[tuple[Path, ...], Argument("Labeled rows: .jsonl or .jsonl.gz.")]
Common: TypeAlias = Annotated[bool, Option("Compare only the questions that are in both.")]
EVERYTHING = "Result file with every question: .json or .json.gz."
Drawing: TypeAlias = Annotated[Path | None, Option("Plot to write: .png, .svg or .pdf.")]


@dataclass(frozen=True, slots=True)
class Published:
    """Published shape of the rows."""

    format: Annotated[
        str, Option("Format of the rows: auto, fitrag, nq, triviaqa, popqa, hotpotqa, ...")
    ] = "auto"
    split: Annotated[str | None, Option("Split of a file that holds several, e.g. dev.")] = None

    def read(self, source: str) -> Loaded:
        """Read a file or a data set of the hub, whatever its shape."""
        return read_questions(source, self.format, split=self.split)


@dataclass(frozen=True, slots=True)
class Ours(Published):
    """Shape of the rows, by default the package's own."""

    format: Annotated[
        str, Option("Format of the rows: fitrag, auto, or a published one, e.g. hotpotqa.")
    ] = OURS

    def rows(self, path: Path) -> list[Row]:
        """Read rows of ours as they are, or convert those of another shape."""
        if self.format == OURS and not str(path).startswith(HUB):
            return own_rows([path])
        return list(self.read(str(path)).rows)


def own_rows(paths: Iterable[Path]) -> list[Row]:
    """Read every row; raises `InputError` naming the file and line of a damaged one."""
    found: list[Row] = []
    for path in paths:
        refuse_if(not path.is_file(), "rows", str(path), "a .jsonl or .jsonl.gz file")
        found += jsonl.read_jsonl(path)
    return found


@dataclass(frozen=True, slots=True)
class Priced:
    """Prices of tokens and queries."""

    price_in: PriceIn = None
    price_out: PriceOut = None
    price_search: Annotated[
        float | None, Option("Price of a thousand retriever or search queries.", min=0)
    ] = None

    def prices(self) -> Prices | None:
        """Return the prices, None if none is given."""
        if self.price_in is self.price_out is self.price_search is None:
            return None
        return Prices(self.price_in or 0.0, self.price_out or 0.0, self.price_search or 0.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Output of a measurement, and settings of its intervals."""

    out: Annotated[Path | None, Option(EVERYTHING, name="--out")] = None
    plot: Drawing = None
    draws: Draws = Draws()
    json: AsJson = False

    def check(self, option: str = "--out") -> None:
        """Raise `InputError`, before any work, for names of other files."""
        wrong = self.plot is not None and self.plot.suffix not in DRAWINGS
        refuse_if(wrong, "--plot", str(self.plot), f"a file in {', '.join(DRAWINGS)}")
        check_result_name(option, self.out)

    def publish(
        self,
        result: Result,
        show: Callable[[], None],
        *,
        summary: Row | None = None,
        more: Row | None = None,
    ) -> None:
        """Write a result, draw it, and print it: a summary as JSON, else by `show`.

        Args:
            result: What was measured.
            show: Prints the table.
            summary: JSON output in place of the one that most verbs share.
            more: Further fields of the shared output.
        """
        if self.out is not None:
            result.write(self.out)
        if self.plot is not None:
            from fitrag_integrations.evaluation.plots import draw_plots

            draw_plots(result.plots).savefig(self.plot)
        if self.json:
            counts = {"questions": len(result.per_question), "figures": list(result.figures)}
            shared = {**counts, **(more or {}), "notes": list(result.notes)}
            typer.echo(json.dumps(shared if summary is None else summary))
            return
        show()
        show_notes(result.notes)


def rows_of(figures: Iterable[Figure]) -> list[Row]:
    """Return figures as the rows of a `Result`."""
    return [figure.to_dict() for figure in figures]


def refuse_errors(errors: Sequence[object]) -> None:
    """Exit 1 and give the most frequent reason where every answer ended in an error."""
    if errors and all(errors):
        ((reason, count),) = Counter(map(reason_of, errors)).most_common(1)
        typer.echo(f"fitrag evaluate: every answer is an error; {count} x {reason}", err=True)
        raise typer.Exit(1)


SHIPPED = Path(fitrag_integrations.__file__).parent / "embedded"
FOLDERS = {"scorer": "bilabel", "evaluator": "evaluator", "reader": "reader"}


def settings_of(
    command: str,
    names: Sequence[object],
    rows: Sequence[Row],
    draws: Draws,
    models: Mapping[str, str | None] | None = None,
    options: Row | None = None,
) -> Row:
    """Return the `settings` of a `Result`.

    Args:
        command: Verb.
        names: Files or data sets of the rows.
        rows: Rows after conversion, for their hash and number.
        draws: Draws of the intervals.
        models: Names or folders by role, None for a bundled one.
        options: Options that the figures depend on.
    """
    # looking for a GPU is not worth loading torch
    torch = sys.modules.get("torch")
    machine = [
        f"{platform.system()} {platform.machine()}",
        f"{os.cpu_count()} cores",
        f"Python {platform.python_version()}",
        *(f"{name} {installed_version(name) or 'none'}" for name in ("onnxruntime", "torch")),
    ]
    if torch is not None and torch.cuda.is_available():
        machine.append(torch.cuda.get_device_name(0))
    return {
        "version": fitrag_integrations.__version__,
        "command": f"evaluate {command}",
        "seed": draws.seed,
        "resamples": draws.resamples,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": ", ".join(machine),
        "data": {
            "files": list(map(str, names)),
            "hash": content_id(list(rows), None),
            "rows": len(rows),
        },
        "models": {role: model_entry(role, name) for role, name in (models or {}).items()},
        "options": dict(options or {}),
    }


def model_entry(role: str, name: str | None) -> Row:
    """Return the name of a model and the hash of its manifest, which has the weights' checksums.

    A file or folder without a manifest has the hash of what is in it; the hash is None for what is
    neither, such as a model of the hub.

    Args:
        role: What the model is for.
        name: Name, file or folder; None for the embedded model.
    """
    folder = SHIPPED / FOLDERS.get(role, role) if name is None else Path(name)
    manifest = folder / "model.json"
    if not manifest.is_file():
        digest = fingerprint(folder) if folder.is_file() or folder.is_dir() else None
        return {"name": name or "embedded", "manifest": digest}
    data = manifest.read_bytes()
    encoder = json.loads(data).get("encoder")
    shared = folder / str(encoder) / "encoder.json"
    if encoder is not None and shared.is_file():
        data += shared.read_bytes()
    return {"name": name or "embedded", "manifest": hashlib.sha256(data).hexdigest()}
