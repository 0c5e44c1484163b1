"""`fitrag evaluate compress`: the answers that compression keeps, for the tokens it saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK, Advance
from fitrag_integrations.commands.engine.options import (
    EncoderHardware,
    ModelOptions,
    Quiet,
    Tokenizer,
)
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.evaluate.options import (
    EMBEDDED,
    Outcome,
    Published,
    rows_of,
    settings_of,
)
from fitrag_integrations.commands.evaluate.terminal import show_figures
from fitrag_integrations.commands.run.judge import best_answer
from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.answers import is_correct
from fitrag_integrations.evaluation.figures.compress import (
    KEPT,
    MEANS,
    Compressed,
    compress_rows,
    kept_curves,
)
from fitrag_integrations.evaluation.figures.summaries import (
    Question,
    by_set,
    column,
    difference,
    mean_figure,
    set_figures,
)
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.result import Plot, Result, each_row, set_of
from fitrag_integrations.text.tokens import counter_for
from fitrag_integrations.training.rows import in_lists
from fitrag_integrations.types import Excerpt, Passage


@dataclass(frozen=True)
class EvaluateCompress:
    """Measure the answers that compression keeps and the tokens it saves, and draw the curve.

    Reads question, answers, passages[{title, text}] and excerpts[{passage, start, end, score}], as
    `fitrag compress` adds them. With a reader it also measures how many of its answers are right
    from the passages and from the excerpts.
    """

    rows: Annotated[str, Argument("Rows of `fitrag compress`, with answers.")]
    reader: Annotated[
        str | None, Option("Reader to compare before and after compression: embedded, or a folder.")
    ] = None
    tokenizer: Tokenizer = "approximate"
    shape: Published = Published()
    outcome: Outcome = Outcome()
    hardware: EncoderHardware = EncoderHardware()
    quiet: Quiet = False

    def run(self) -> None:
        """Measure it."""
        self.outcome.check()
        loaded = self.shape.read(self.rows)
        given = each_row(loaded.rows, compressed_row, f"{self.rows}, ")
        count = counter_for(self.tokenizer)
        questions, used = compress_rows(given, count), {}
        if self.reader is not None:
            own = None if self.reader == EMBEDDED else self.reader
            used = {"reader": own}
            with progress_bar("read", 2 * len(given), shown=not self.quiet) as advance:
                questions = with_readings(questions, given, self.hardware.of(own), advance)
        draws = self.outcome.draws
        figures, curves = set_figures(questions, draws, MEANS), kept_curves(given, count)
        for name, part in by_set(questions).items():
            before, after = (mean_figure(part, which, draws, set=name) for which in (BEFORE, AFTER))
            if before is not None and after is not None:
                change = difference(column(part, BEFORE), column(part, AFTER), draws)
                figures += [before, replace(after, change=change)]
        notes = list(loaded.notes)
        if without := sum(KEPT not in question["values"] for question in questions):
            notes.append(
                f"the passages of {without} questions hold no answer: nothing could be kept of them"
            )
        chosen = {"format": loaded.format, "tokenizer": self.tokenizer}
        self.outcome.publish(
            Result(
                "compress",
                rows_of(figures),
                questions,
                settings_of("compress", [self.rows], loaded.rows, self.outcome.draws, used, chosen),
                (Plot("answers kept", "share of tokens", "share of answers kept", curves),),
                notes,
            ),
            lambda: show_figures(figures, f"{len(questions)} questions"),
            more={"curves": curves},
        )


BEFORE, AFTER = "right from the passages", "right from the excerpts"


def with_readings(
    questions: Sequence[Question],
    rows: Sequence[Compressed],
    how: ModelOptions,
    advance: Advance,
) -> list[Question]:
    """Add to each question's values whether the reader is right before and after compression."""
    reader, said = models.load_reader(how), list[str]()
    shown = [(row, row.whole) for row in rows] + [(row, row.excerpts) for row in rows]
    for some in chunks(shown, CHUNK):
        pairs = [
            [
                (row.question, Passage(str(i), excerpt.text, excerpt.passage.title))
                for i, excerpt in enumerate(excerpts)
            ]
            for row, excerpts in some
        ]
        found = in_lists(lambda given: reader.read(given) if given else [], pairs)
        said += [str(best_answer(each, None)["answer"]) if each else "" for each in found]
        advance(len(some))
    right = [
        float(is_correct(text, row.answers)) for text, (row, _) in zip(said, shown, strict=True)
    ]
    return [
        {
            **question,
            "prediction": said[at + len(rows)],
            "prediction_before": said[at],
            "values": {**question["values"], BEFORE: right[at], AFTER: right[at + len(rows)]},
        }
        for at, question in enumerate(questions)
    ]


def compressed_row(row: Row) -> Compressed:
    """Read a row as `fitrag compress` writes it."""
    question, passages, answers = question_of(row), passages_of(row), gold(row)
    given = row.get("excerpts")
    if not isinstance(given, list):
        raise InputError.of("excerpts", given=given, allowed="a list, as fitrag compress adds it")
    allowed = "codepoints, as fitrag compress writes without --offsets"
    refuse_if(row.get("offsets") == "utf16", "offsets", "utf16", allowed)
    excerpts = []
    for place, each in enumerate(given):
        name = f"excerpts[{place}]"
        if not isinstance(each, Mapping):
            raise InputError.of(name, given=each, allowed="an object with passage, start and end")
        at = check_whole(f"{name}.passage", each.get("passage"), low=0, high=len(passages) - 1)
        length = len(passages[at].text)
        start = check_whole(f"{name}.start", each.get("start"), low=0, high=length)
        end = check_whole(f"{name}.end", each.get("end"), low=start, high=length)
        score = 0.0 if each.get("score") is None else check_number(f"{name}.score", each["score"])
        excerpts.append(Excerpt(passages[at], start, end, score, lead=each.get("lead") or ()))
    return Compressed(question, tuple(answers), tuple(passages), tuple(excerpts), set_of(row))
