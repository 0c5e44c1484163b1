"""`fitrag evaluate compress`: the answers that compression keeps, for the tokens it saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import EncoderHardware, Quiet, Tokenizer
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.evaluate import options
from fitrag_integrations.commands.evaluate.cache import cache_of
from fitrag_integrations.commands.evaluate.compress.rows import (
    AFTER,
    BEFORE,
    compressed_row,
    with_readings,
)
from fitrag_integrations.commands.evaluate.options import Outcome, Published
from fitrag_integrations.commands.evaluate.provenance import Source
from fitrag_integrations.commands.evaluate.tables import show_figures
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.evaluation.figures.compress import (
    KEPT,
    Compressed,
    compress_figures,
    compress_plot,
    compress_rows,
    kept_curves,
)
from fitrag_integrations.evaluation.figures.figure import Figure
from fitrag_integrations.evaluation.figures.summaries import (
    Draws,
    Question,
    by_set,
    column,
    difference,
    mean_figure,
)
from fitrag_integrations.evaluation.questions import each_row
from fitrag_integrations.evaluation.result import Result


@dataclass(frozen=True)
class EvaluateCompress:
    """Tell how many answers are kept for what share of the tokens, and draw the curve.

    Reads question, answers, passages[{title, text}] and excerpts[{passage, start, end, score}], as
    `fitrag compress` adds them. With a reader it also tells how many of its answers are right
    from the passages and from the excerpts.
    """

    rows: Annotated[str, Argument("Rows of `fitrag compress`, with answers.")]
    reader: Annotated[
        str | None, Option("Reader that answers before and after: embedded, or a folder.")
    ] = None
    tokenizer: Tokenizer = "approximate"
    shape: Published = Published()
    cache: options.Cache = None
    outcome: Outcome = Outcome()
    hardware: EncoderHardware = EncoderHardware()
    quiet: Quiet = False

    def run(self) -> None:
        """Measure it."""
        self.outcome.check()
        loaded = self.shape.read(self.rows)
        given = each_row(loaded.rows, compressed_row)
        count = models.token_counter(self.tokenizer)
        questions = self._read(compress_rows(given, count), given)
        draws = self.outcome.draws
        figures = [*compress_figures(questions, draws), *_readings(questions, draws)]
        curves = kept_curves(given, count)
        chosen = {"format": loaded.format, "tokenizer": self.tokenizer}
        used = {} if self.reader is None else {"reader": self._reader}
        result = Result(
            "compress",
            options.rows_of(figures),
            questions,
            self.outcome.settings("compress", Source([self.rows], loaded.rows), used, chosen),
            (compress_plot(curves),),
            [*loaded.notes, *_notes(questions)],
        )
        self.outcome.tell(
            result,
            options.told_of(questions, result, curves=curves),
            lambda: show_figures(figures, f"{len(questions)} questions"),
        )

    @property
    def _reader(self) -> str | None:
        return None if self.reader == options.EMBEDDED else self.reader

    def _read(self, questions: list[Question], given: Sequence[Compressed]) -> list[Question]:
        """Have the reader answer from the passages and from the excerpts, where there is one."""
        if self.reader is None:
            return questions
        cache = cache_of(self.cache, self.outcome.out)
        with progress_bar("read", 2 * len(given), shown=not self.quiet) as advance:
            return with_readings(questions, given, self.hardware.of(self._reader), cache, advance)


def _readings(questions: Sequence[Question], draws: Draws) -> Iterator[Figure]:
    """Compare the answers read before and after, where a reader was asked."""
    for name, part in by_set(questions).items():
        before = mean_figure(part, BEFORE, draws, set=name)
        after = mean_figure(part, AFTER, draws, set=name)
        if before is not None and after is not None:
            yield before
            yield replace(
                after, change=difference(column(part, BEFORE), column(part, AFTER), draws)
            )


def _notes(questions: Sequence[Question]) -> list[str]:
    without = sum(KEPT not in question["values"] for question in questions)
    told = f"the passages of {without} questions hold no answer: nothing could be kept of them"
    return [told] if without else []
