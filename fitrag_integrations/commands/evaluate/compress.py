"""`fitrag evaluate compress`: the answers that compression keeps, for the tokens it saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import CHUNK
from fitrag_integrations.commands.engine.options import EncoderHardware, Quiet, Tokenizer
from fitrag_integrations.commands.engine.progress import progress_bar
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.evaluate.options import (
    Drawing,
    Format,
    InputRows,
    Outcome,
    settings_of,
)
from fitrag_integrations.commands.run.judge import best_answer
from fitrag_integrations.core.checks import check_is, check_number, check_whole
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.progress import chunks
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.evaluation import measures
from fitrag_integrations.evaluation.answers import is_correct
from fitrag_integrations.evaluation.compression import KEPT, Compressed, kept_curves
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.plots import Plot
from fitrag_integrations.evaluation.rows import each_row, read_rows
from fitrag_integrations.evaluation.table import Table, measured
from fitrag_integrations.methods.settings import EMBEDDED
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

    rows: InputRows
    reader: Annotated[
        str | None, Option("Reader to compare before and after compression: embedded, or a folder.")
    ] = None
    tokenizer: Tokenizer = "approximate"
    plot: Drawing = None
    format: Format = "auto"
    outcome: Outcome = Outcome()
    hardware: EncoderHardware = EncoderHardware()
    quiet: Quiet = False

    def run(self) -> None:
        """Measure each budget, and write the table and the curve."""
        self.outcome.check(self.plot)
        rows = read_rows(self.rows, self.format)
        given = each_row(rows, compressed_row, f"{self.rows}, ")
        count = counter_for(self.tokenizer)
        made = measured(rows, lambda row: measures.compressed(compressed_row(row), count))
        without = sum(one.values[KEPT] is None for one in made)
        note = f"the passages of {without} questions hold no answer: nothing could be kept of them"
        if self.reader is not None:
            systems = ("from the passages", "from the excerpts")
            for system, answers in zip(systems, self._read(given), strict=True):
                right = [
                    {**row, "prediction": text, "right": is_correct(text, one.answers)}
                    for row, one, text in zip(rows, given, answers, strict=True)
                ]
                made += measured(right, lambda row: {"right": float(row["right"])}, system)
        table = Table(
            f"{len(given)} questions",
            made,
            self.outcome.draws,
            [note] * bool(without),
            Plot(
                "answers kept",
                "share of tokens",
                "share of answers kept",
                kept_curves(given, count),
            ),
            settings_of([self.rows], rows, tokenizer=self.tokenizer, reader=self.reader),
        )
        self.outcome.publish(table, self.plot)

    def _read(self, rows: Sequence[Compressed]) -> Iterator[list[str]]:
        """Yield the reader's answers from the passages, and from the excerpts."""
        reader = models.load_reader(
            self.hardware.of(None if self.reader == EMBEDDED else self.reader)
        )
        with progress_bar("read", 2 * len(rows), shown=not self.quiet) as advance:
            for shown in ([row.whole for row in rows], [list(row.excerpts) for row in rows]):
                said = list[str]()
                for some in chunks(list(zip(rows, shown, strict=True)), CHUNK):
                    found = in_lists(
                        lambda given: reader.read(given) if given else [],
                        [
                            [
                                (row.question, Passage(str(i), one.text, one.passage.title))
                                for i, one in enumerate(own)
                            ]
                            for row, own in some
                        ],
                    )
                    said += [
                        str(best_answer(each, None)["answer"]) if each else "" for each in found
                    ]
                    advance(len(some))
                yield said


def compressed_row(row: Row) -> Compressed:
    """Read a row as `fitrag compress` writes it."""
    question, passages, answers = question_of(row), passages_of(row), gold(row)
    given = check_is("excerpts", row.get("excerpts"), list, "a list, as fitrag compress adds it")
    refuse_if(
        row.get("offsets") == "utf16",
        "offsets",
        "utf16",
        "codepoints, as fitrag compress writes without --offsets",
    )
    excerpts = []
    for place, each in enumerate(given):
        name = f"excerpts[{place}]"
        refuse_if(
            not isinstance(each, Mapping), name, each, "an object with passage, start and end"
        )
        at = check_whole(f"{name}.passage", each.get("passage"), low=0, high=len(passages) - 1)
        length = len(passages[at].text)
        start = check_whole(f"{name}.start", each.get("start"), low=0, high=length)
        end = check_whole(f"{name}.end", each.get("end"), low=start, high=length)
        score = 0.0 if each.get("score") is None else check_number(f"{name}.score", each["score"])
        excerpts.append(Excerpt(passages[at], start, end, score, lead=each.get("lead") or ()))
    return Compressed(question, tuple(answers), tuple(passages), tuple(excerpts))
