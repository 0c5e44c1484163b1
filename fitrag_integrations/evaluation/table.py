"""One table for every measurement: question x system x measure, with intervals and differences.

A measure is a function from a row to numbers by name. The mean over the questions is the figure of
that name; where a value is rows of numbers instead, such as pairs of score and label, the function
of that name in `POOLED` computes the figure from the rows of all questions. Systems are compared
with the first, question by question, since most of their noise is the same. Intervals hold 95 %:
Wilson's (1927) for fractions, else percentiles of the bootstrap over questions (Efron, 1979); p is
the p-value of McNemar's exact test (1947).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.core.extras import installed, require_extra
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import tracked
from fitrag_integrations.core.record import Row, plain
from fitrag_integrations.core.show import escaped, folded, shortened, table, visible
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.outcomes import (
    Curve,
    Interval,
    Outcomes,
    Places,
    area,
    calibration_error,
)
from fitrag_integrations.evaluation.plots import Plot, svg
from fitrag_integrations.evaluation.ranking import auc
from fitrag_integrations.evaluation.rows import question_id, set_of
from fitrag_integrations.values.excerpt import grouped

Values: TypeAlias = "Sequence[float] | NDArray[Any]"
ALL, NOTHING, SECONDS = "all", "-", "seconds"
SUFFIXES = (".json", ".json.gz", ".html", ".htm")
DECIMALS = {"tokens_in": 0, "tokens_out": 1, "retriever_calls": 2, "llm_calls": 2}
"""Decimals of counts; others have three under 10, one under 1,000, none above."""


def _sweep(columns: NDArray[np.float64]) -> Curve:
    return Curve.of(Outcomes(*columns))


POOLED: dict[str, Callable[[NDArray[np.float64]], float | None]] = {
    "AUC": lambda columns: auc(*columns),
    "calibration error": lambda columns: calibration_error(*columns.tolist()),
    "sweep area": lambda columns: area(Outcomes(*columns)),
    "best point: accuracy": lambda columns: float(_sweep(columns).accuracy.max()),
    "best point: share": lambda columns: float((it := _sweep(columns)).share[it.best]),
    "best accuracy retrieving for half": lambda columns: max(
        (it := _sweep(columns)).accuracy[it.share <= 0.5].tolist(), default=None
    ),
}
"""Figures that are no means, by the beginning of their names: functions of the rows' columns."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Settings of the bootstrap.

    Args:
        resamples: Number of samples.
        seed: Seed.
    """

    resamples: Annotated[int, Option("Bootstrap samples.", min=1)] = 1000
    seed: Annotated[int, Option("Seed of the bootstrap.")] = 0


def bootstrap(
    statistic: Callable[[Places], float | None],
    rows: int,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    show_progress: bool | None = False,
) -> Interval | None:
    """Compute the bootstrap interval of a figure that is no mean, without SciPy.

    Args:
        statistic: Function of the indices of the drawn rows; None if the draw does not define it.
        rows: Number of rows.
        confidence: Level of the interval, in (0, 1).
        resamples: Number of draws with replacement.
        seed: Seed of the draws.
        show_progress: Whether to show a progress bar; None for slow runs at a terminal only.

    Returns:
        Both bounds, or None if fewer than half of the draws define the figure.
    """
    check_whole("rows", rows, low=1)
    tail = (1 - check_number("confidence", confidence, low=0.0, high=1.0)) / 2
    rng = np.random.default_rng(seed)
    numbers = tracked(
        range(check_whole("resamples", resamples, low=1)), "Resampling", show=show_progress
    )
    draws = (statistic(rng.integers(0, rows, rows)) for _ in numbers)
    found = [value for value in draws if value is not None]
    low, high = np.quantile(found or [0.0], [tail, 1 - tail]).tolist()
    return None if 2 * len(found) < resamples else (low, high)


def mean_interval(values: Values, *, resamples: int = 1000, seed: int = 0) -> Interval:
    """Compute the 95 % bootstrap interval of a mean, by SciPy.

    Args:
        values: One value a question.
        resamples: Number of draws with replacement.
        seed: Seed of the draws.
    """
    column = np.asarray(values, float)
    if len(column) < 2:  # SciPy refuses it
        return float(column[0]), float(column[0])
    found = (
        _stats()
        .bootstrap(
            (column,),
            np.mean,
            n_resamples=resamples,
            method="percentile",
            random_state=np.random.default_rng(seed),
        )
        .confidence_interval
    )
    return float(found.low), float(found.high)


def share_interval(values: Values) -> Interval:
    """Compute Wilson's 95 % interval of a fraction of ones; its width is never 0."""
    found = _stats().binomtest(int(np.sum(values)), len(values)).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def mcnemar(first: Values, second: Values) -> float:
    """Compute the p-value of the exact two-sided test of McNemar, in [0, 1].

    Args:
        first: 1 for each question that the first system answered correctly, else 0.
        second: The same for the second system.

    Raises:
        InputError: If the lists are empty or differ in length.
        MissingExtraError: Without SciPy.
    """
    one, other = np.asarray(first, float), np.asarray(second, float)
    refuse_if(
        one.shape != other.shape or one.ndim != 1 or not one.size,
        f"two lists of equal length are compared, got shapes {one.shape} and {other.shape}",
    )
    more, both = int((one > other).sum()), int((one != other).sum())
    return float(_stats().binomtest(more, both).pvalue) if both else 1.0


def _stats() -> Any:
    return require_extra("scipy.stats", extra="evaluate", feature="intervals and tests")


def number(value: float | None, name: str = "", sign: str = "") -> str:
    """Format a figure.

    Args:
        value: Figure; None becomes a dash.
        name: Name of the measure, by which decimals are chosen.
        sign: Sign option of the format, such as "+".
    """
    if value is None:
        return NOTHING
    size = abs(value)
    return (
        f"{value:{sign},.{DECIMALS.get(name, 3 if size < 9.9995 else 1 if size < 999.95 else 0)}f}"
    )


def interval(bounds: Interval | None, sign: str = "") -> str:
    """Format the bounds of an interval.

    Args:
        bounds: Bounds; None becomes a dash.
        sign: Sign option of the format, such as "+".
    """
    return NOTHING if bounds is None else " to ".join(number(end, sign=sign) for end in bounds)


@dataclass(frozen=True, slots=True)
class Measured:
    """Values of one question for one system.

    Args:
        question: Identifier of the question, the same for every system.
        values: By measure a number, or rows of numbers for one of `POOLED`; None if unknown.
        system: Name of the system.
        set: Name of the data set.
        shown: Further values to show, such as the answer.
    """

    question: str
    values: Mapping[str, Any]
    system: str = ""
    set: str = ""
    shown: Row = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a table.

    Args:
        measure: Name of the measure.
        system: Name of the system.
        set: Data set, or `ALL`.
        value: The figure; None if the questions do not define it.
        bounds: Its 95 % interval.
        questions: Number of questions with a value.
        pairs: Of a pooled figure, the number of pairs, and of those with label 1.
        difference: Difference to the first system, over the questions of both.
        difference_bounds: Its 95 % interval.
        p: McNemar's p-value, for values of 0 and 1.
    """

    measure: str
    system: str
    set: str
    value: float | None
    bounds: Interval | None
    questions: int
    pairs: tuple[int, int] | None = None
    difference: float | None = None
    difference_bounds: Interval | None = None
    p: float | None = None

    @property
    def count(self) -> str:
        """Return the number of questions, and for a pooled figure also the number of pairs."""
        pairs = "" if self.pairs is None else f" ({self.pairs[1]} of {self.pairs[0]} are 1)"
        return f"{self.questions}{pairs}"

    def to_dict(self) -> Row:
        """Return the figure as plain values."""
        low, high = self.bounds or (None, None)
        ends = self.difference_bounds or (None, None)
        return {
            "figure": self.measure,
            "system": self.system,
            "set": self.set,
            "value": self.value,
            "low": low,
            "high": high,
            "questions": self.questions,
            "pairs": self.pairs,
            "difference": self.difference,
            "difference_low": ends[0],
            "difference_high": ends[1],
            "p": self.p,
        }


@dataclass(frozen=True)
class Table:
    """Figures of some questions, with their intervals, as text, JSON and HTML.

    Args:
        title: Line above the table.
        rows: Measured values, in the order in which systems and measures are shown.
        draws: Settings of the bootstrap.
        notes: Sentences below the table.
        plot: Curve of the page, if the measurement has one.
        settings: Options of the measurement.

    Raises:
        InputError: If a system has other questions than the first.

    Example:
        >>> rows = [{"question": "Who?", "answers": ["Ann"], "answer": "Ann"}]
        >>> def length(row):
        ...     return {"words": len(row["answer"].split())}
        >>> Table.of("", {"mine": rows}, length).figures[0].value
        1.0
    """

    title: str
    rows: Sequence[Measured]
    draws: Draws = Draws()
    notes: Sequence[str] = ()
    plot: Plot | None = None
    settings: Row = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        title: str,
        systems: Mapping[str, Sequence[Row]],
        measure: Callable[[Row], Mapping[str, Any]],
        **more: Any,
    ) -> Table:
        """Apply a measure to the rows of each system.

        Args:
            title: Line above the table.
            systems: Rows of question and what the measure reads, by system.
            measure: Function from a row to numbers by name.
            **more: Further arguments of the table.
        """
        return cls(
            title,
            [one for name, rows in systems.items() for one in measured(rows, measure, name)],
            **more,
        )

    def __post_init__(self) -> None:
        refuse_if(not self.rows, "rows", 0, "at least one question")
        systems = grouped(self.rows, attrgetter("system"))
        (first, asked), *others = (
            (name, sorted(row.question for row in rows)) for name, rows in systems.items()
        )
        for system, questions in others:
            refuse_if(
                questions != asked,
                f"rows: there are other questions for {system!r} than for {first!r}; pass the same "
                "questions and answers, or --common for those in all",
            )

    @cached_property
    def figures(self) -> list[Figure]:
        """Return every figure: set by set, measure by measure, system by system."""
        sets = grouped(self.rows, lambda row: row.set or NOTHING)
        return [
            figure
            for name, part in {ALL: self.rows, **(sets if len(sets) > 1 else {})}.items()
            for measure in dict.fromkeys(each for row in part for each in row.values)
            for figure in self._measure(name, part, measure)
        ]

    def _measure(self, name: str, part: Sequence[Measured], measure: str) -> Iterable[Figure]:
        known = [row for row in part if row.values.get(measure) is not None]
        base: dict[str, Any] | None = None
        pooled = next((one for start, one in POOLED.items() if measure.startswith(start)), None)
        for system, rows in grouped(known, attrgetter("system")).items():
            own = {row.question: row.values[measure] for row in rows}
            values = list(own.values())
            pairs = change = bounds = spread = p = None
            if pooled is None:
                value: float | None = float(np.mean(values))
                bounds = self._bounds(measure, values)
            else:
                value = pooled(_columns(values))
                labels = _columns(values)[1]
                pairs = len(labels), int(labels.sum())
                bounds = self._drawn(
                    lambda at, own=values: pooled(_columns(own[i] for i in at)), len(values)
                )
            if base is not None and (both := [each for each in base if each in own]):
                one, other = ([each[key] for key in both] for each in (base, own))
                change, spread, p = self._change(measure, pooled, one, other)
            yield Figure(measure, system, name, value, bounds, len(own), pairs, change, spread, p)
            base = own if base is None else base

    def _change(
        self, measure: str, pooled: Any, one: list[Any], other: list[Any]
    ) -> tuple[float | None, Interval | None, float | None]:
        """Return the difference to the first system, its interval, and McNemar's p."""
        if pooled is not None:

            def less(places: Iterable[int]) -> float | None:
                drawn = list(places)
                ends = [pooled(_columns(each[i] for i in drawn)) for each in (other, one)]
                return None if None in ends else ends[0] - ends[1]

            return less(range(len(one))), self._drawn(less, len(one)), None
        difference = float(np.mean(other) - np.mean(one))
        if not installed("scipy") or measure == SECONDS:
            return difference, None, None
        p = mcnemar(other, one) if _judges(measure, [*one, *other]) else None
        return (
            difference,
            mean_interval(np.subtract(other, one, dtype=float), **asdict(self.draws)),
            p,
        )

    def _bounds(self, measure: str, values: Sequence[float]) -> Interval | None:
        """Return the interval of a mean; seconds are the mean of a batch, which has no spread."""
        if not installed("scipy") or measure == SECONDS:
            return None
        if _judges(measure, values):
            return share_interval(values)
        return mean_interval(values, **asdict(self.draws))

    def _drawn(self, statistic: Any, rows: int) -> Interval | None:
        return bootstrap(statistic, rows, **asdict(self.draws))

    def _lines(self) -> list[list[str]]:
        """Return head and cells of the table, with the columns that any figure needs."""
        columns = {
            "set": [figure.set for figure in self.figures],
            "figure": [figure.measure for figure in self.figures],
            "system": [figure.system or NOTHING for figure in self.figures],
            "value": [number(figure.value, figure.measure) for figure in self.figures],
            "95 %": [interval(figure.bounds) for figure in self.figures],
            "to the first": [number(figure.difference, sign="+") for figure in self.figures],
            "95 % of it": [interval(figure.difference_bounds, "+") for figure in self.figures],
            "McNemar's p": [NOTHING if f.p is None else f"{f.p:.2g}" for f in self.figures],
            "questions": [figure.count for figure in self.figures],
        }
        used = {name: own for name, own in columns.items() if {*own} - {NOTHING, ALL}}
        return [list(used), *(list(row) for row in zip(*used.values(), strict=True))]

    @property
    def remarks(self) -> list[str]:
        """Return the notes, and one where intervals are missing."""
        missing = 'no intervals: pip install "fitrag-integrations[evaluate]"'
        return [*self.notes, *([] if installed("scipy") else [missing])]

    def text(self) -> str:
        """Return the table in aligned columns, with its title and notes."""
        lines = self._lines()
        left = {"set", "figure", "system"}
        wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = [
            "  ".join(
                cell.ljust(width) if head in left else cell.rjust(width)
                for cell, width, head in zip(line, wide, lines[0], strict=True)
            ).rstrip()
            for line in lines
        ]
        notes = [f"note: {note}" for note in self.remarks]
        return "\n".join(map(visible, filter(None, [self.title, *rows, *notes])))

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain values: title, settings, figures, questions, plot, notes."""
        return {
            "title": self.title,
            "settings": plain(self.settings),
            "figures": [figure.to_dict() for figure in self.figures],
            "questions": [asdict(row) for row in self.rows],
            "plot": None if self.plot is None else self.plot.to_dict(),
            "notes": self.remarks,
        }

    def json(self) -> str:
        """Return the table as one line of JSON; non-finite numbers become strings, e.g. "nan"."""
        return json.dumps(plain(self.to_dict()))

    def html(self, lead: str = "") -> str:
        """Return a standalone HTML page with the table, the curve and every question.

        Args:
            lead: First sentence of the page.
        """
        return page([self], self.title, lead)

    def section(self) -> str:
        """Return the table, its curve and its questions as HTML."""
        head, *rows = self._lines()
        drawn = None if self.plot is None or not installed("matplotlib") else svg(self.plot)
        image = "" if drawn is None else f'<img alt="{escaped(self.plot.name)}" src="{drawn}">'  # type: ignore[union-attr]
        points = [] if self.plot is None else self.plot.points()
        asked = [_asked(row) for row in self.rows]
        names = list(dict.fromkeys(name for row in asked for name in row))
        cells = [[row.get(name, "") for name in names] for row in asked]
        notes = "".join(f"<p>{escaped(note)}</p>" for note in self.remarks)
        return (
            f"<h2>{escaped(self.title)}</h2>{table(head, rows)}{notes}{image}"
            + (folded("points of the curve", table(points[0], points[1:])) if points else "")
            + folded(f"{len(asked)} questions", table(names, cells), shown=True)
        )

    def write(self, path: Path) -> None:
        """Write a `.json`, `.json.gz` or `.html` file atomically."""
        check_result_name("--out", path)
        page_wanted = path.suffix in (".html", ".htm")
        data = (self.html() if page_wanted else self.json()).encode("utf-8", "replace")
        write_whole(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def measured(
    rows: Sequence[Row], measure: Callable[[Row], Mapping[str, Any]], system: str = ""
) -> list[Measured]:
    """Apply a measure to rows; a repeated question counts as another one.

    Args:
        rows: Rows with a question, answers and `set` where they have them.
        measure: Function from a row to numbers by name.
        system: Name of the system, before the row's own `method`.
    """
    seen: dict[tuple[str, str], int] = {}
    made = []
    for at, row in enumerate(rows, 1):
        try:
            values = measure(row)
        except InputError as error:
            raise error.at(f"row {at}: ") from error
        name = "/".join(filter(None, [system, str(row.get("method") or "")]))
        own = name, question_id(row)
        seen[own] = seen.get(own, 0) + 1
        key = own[1] if seen[own] == 1 else f"{own[1]}#{seen[own]}"
        shown = {each: row[each] for each in SHOWN if row.get(each)}
        made.append(Measured(key, values, name, set_of(row), shown))
    return made


SHOWN = ("question", "answers", "prediction", "answer", "notes", "error", "action", "explained")
"""Fields of a row that the file of an evaluation keeps."""


def _asked(row: Measured) -> dict[str, str]:
    numbers = {n: number(v, n) for n, v in row.values.items() if isinstance(v, int | float)}
    texts = {name: visible(shortened(value, most=400)) for name, value in row.shown.items()}
    return {**texts, **({"system": row.system} if row.system else {}), **numbers}


def _judges(measure: str, values: Sequence[float]) -> bool:
    """Return whether values are right or wrong, and no counts."""
    return measure not in DECIMALS and {*values} <= {0.0, 1.0}


def _columns(values: Iterable[Any]) -> NDArray[np.float64]:
    """Return the columns of the rows of all questions."""
    return np.array([each for rows in values for each in rows], float).T


def page(tables: Sequence[Table], title: str, lead: str = "", more: str = "") -> str:
    """Return one HTML page of several tables; every text is escaped, and nothing is fetched.

    Args:
        tables: The tables.
        title: Title of the page.
        lead: First sentence.
        more: HTML to append.
    """
    body = "".join(each.section() for each in tables)
    style = "body{font:15px/1.5 sans-serif;margin:2em auto;max-width:72em}img{max-width:100%}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escaped(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"img-src data:; style-src 'unsafe-inline'\"><style>{style}</style>"
        f"<h1>{escaped(title)}</h1><p><b>{escaped(lead)}</b></p>{body}{more}</html>\n"
    )


def check_result_name(option: str, path: Path | None) -> None:
    """Check that a table can be written to a file.

    Args:
        option: Name of the option in errors.
        path: File; None passes.

    Raises:
        InputError: If the file's name has another suffix.
    """
    refuse_if(
        path is not None and not path.name.endswith(SUFFIXES),
        option,
        str(path),
        f"a file in {', '.join(SUFFIXES)}",
    )
