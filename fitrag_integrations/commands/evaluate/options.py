"""Options and output that the `fitrag evaluate` verbs share, and their cache of model answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

from fitrag_integrations.commands.engine.batch import Advance, chunks
from fitrag_integrations.commands.engine.options import AsJson
from fitrag_integrations.commands.engine.rows import reason_of
from fitrag_integrations.commands.evaluate.provenance import Source, settings_of
from fitrag_integrations.commands.evaluate.tables import show_notes
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.cost import Prices
from fitrag_integrations.evaluation.figures.figure import Figure
from fitrag_integrations.evaluation.figures.summaries import Draws, Question
from fitrag_integrations.evaluation.loaders import Loaded, read_questions
from fitrag_integrations.evaluation.loaders.reading import HUB
from fitrag_integrations.evaluation.result import Plot, Result, check_result_name, content_id

DRAWINGS = (".png", ".svg", ".pdf")
OURS, EMBEDDED = "fitrag", "embedded"
Common: TypeAlias = Annotated[bool, Option("Compare only the questions that are in both.")]
Cache: TypeAlias = Annotated[
    Path | None,
    Option(
        "Cache of the model's outputs: .jsonl. A stopped run continues there.",
        default="beside --out",
    ),
]
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
        if not path.is_file():
            raise InputError.of("rows", given=str(path), allowed="a .jsonl or .jsonl.gz file")
        found += jsonl.read_jsonl(path)
    return found


@dataclass(frozen=True, slots=True)
class Priced:
    """Prices of tokens and queries."""

    price_in: Annotated[float | None, Option("Price of a million input tokens.", min=0)] = None
    price_out: Annotated[float | None, Option("Price of a million output tokens.", min=0)] = None
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
        if self.plot is not None and self.plot.suffix not in DRAWINGS:
            allowed = f"a file in {', '.join(DRAWINGS)}"
            raise InputError.of("--plot", given=str(self.plot), allowed=allowed)
        check_result_name(option, self.out)

    def settings(
        self, command: str, source: Source, models: Row | None = None, options: Row | None = None
    ) -> Row:
        """Return the `settings` of a `Result`."""
        seed, resamples = self.draws.seed, self.draws.resamples
        return settings_of(
            command, source, seed=seed, resamples=resamples, models=models, options=options
        )

    def publish(
        self,
        result: Result,
        summary: Row,
        show: Callable[[], None],
        draw: Callable[[Path], None] | None = None,
    ) -> None:
        """Write the result, draw it, and print it: `summary` as JSON, else by `show`."""
        if self.out is not None:
            result.write(self.out)
        if self.plot is not None:
            (draw or drawing(result.plots))(self.plot)
        if self.json:
            typer.echo(json.dumps(summary))
            return
        show()
        show_notes(result.notes)


def drawing(plots: Sequence[Plot]) -> Callable[[Path], None]:
    """Draw all plots beside each other into one file."""

    def draw(path: Path) -> None:
        from fitrag_integrations.evaluation.plots import draw_plots

        draw_plots(plots).savefig(path)

    return draw


def rows_of(figures: Iterable[Figure]) -> list[Row]:
    """Return figures as the rows of a `Result`."""
    return [figure.to_dict() for figure in figures]


def summary_of(questions: Sequence[Question], result: Result, **more: object) -> Row:
    """Return the JSON output that most verbs share."""
    summary = {"questions": len(questions), "figures": list(result.figures)}
    return {**summary, **more, "notes": list(result.notes)}


def refuse_errors(errors: Sequence[object]) -> None:
    """Exit 1 and give the most frequent reason where every answer ended in an error."""
    if errors and all(errors):
        ((reason, count),) = Counter(map(reason_of, errors)).most_common(1)
        typer.echo(f"fitrag evaluate: every answer is an error; {count} x {reason}", err=True)
        raise typer.Exit(1)


T = TypeVar("T")
CHUNK = 16  # questions that share a model batch
Answer: TypeAlias = Callable[[list[Row]], Sequence[T]]


def answered(
    rows: Sequence[Row],
    answer: Answer[T],
    *,
    setup: Row,
    path: Path | None,
    advance: Advance,
) -> list[T]:
    """Answer each row, or take what an earlier run wrote of the same row under the same `setup`.

    `answer` gets rows whose answers are missing, and gives plain values, one each. Each chunk is
    written before the next starts. Without a `path` nothing is kept. Raises `InputError` where
    the file holds something else.
    """
    keys = [content_id([setup, row]) for row in rows]
    known = {} if path is None else _known(path)
    advance(sum(key in known for key in keys))
    missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in known}
    for chunk in chunks(missing.items(), CHUNK):
        given = answer([row for _, row in chunk])
        fresh = dict(zip((key for key, _ in chunk), given, strict=True))
        if path is not None:
            with jsonl.appending(str(path)) as write:
                write(b"".join(jsonl.dump({"key": key, "value": fresh[key]}) for key in fresh))
        known |= fresh
        advance(sum(key in fresh for key in keys))
    return [known[key] for key in keys]


def _known(path: Path) -> dict[str, Any]:
    """Read what is there; a line cut short by a kill is written anew."""
    if not path.exists():
        return {}
    data = path.read_bytes()
    whole, newline, cut = data.rpartition(b"\n")
    if cut:
        write_whole(path, whole + newline)
    known: dict[str, Any] = {}
    try:
        for row in jsonl.read_jsonl(path):
            known[row["key"]] = row["value"]
    except (InputError, KeyError) as error:
        given = f"{path}, line {len(known) + 1}: {error}"
        allowed = "a cache of fitrag evaluate: delete it or choose another"
        raise InputError.of("--cache", given=given, allowed=allowed) from error
    return known


def cache_of(cache: Path | None, out: Path | None) -> Path | None:
    """Choose the file: the one named, else one beside the output, else none."""
    if cache is not None and cache.suffix != ".jsonl":
        raise InputError.of("--cache", given=str(cache), allowed="a .jsonl file")
    if cache is not None or out is None:
        return cache
    return out.with_name(f"{out.name.partition('.json')[0]}.cache.jsonl")
