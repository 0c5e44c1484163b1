"""The rows of `fitrag evaluate compress`: passages and excerpts, and answers read in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import Advance
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.evaluate.cache import answered
from fitrag_integrations.commands.evaluate.provenance import model_entry
from fitrag_integrations.commands.run.read import best_answer
from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer, exact_match
from fitrag_integrations.evaluation.figures.compress import Compressed
from fitrag_integrations.evaluation.figures.summaries import Question
from fitrag_integrations.evaluation.judging import gold
from fitrag_integrations.evaluation.questions import set_of
from fitrag_integrations.ports import Reader
from fitrag_integrations.types import Excerpt, Passage

BEFORE, AFTER = "right from the passages", "right from the excerpts"


def with_readings(
    questions: Sequence[Question],
    rows: Sequence[Compressed],
    how: options.ModelOptions,
    cache: Path | None,
    advance: Advance,
) -> list[Question]:
    """Add to each question's values whether the reader is right before and after compression."""
    reader = models.load_reader(how)
    setup = {"verb": "read", "model": model_entry("reader", how.model), "dtype": how.dtype}
    texts = [_asked(row, row.whole) for row in rows] + [_asked(row, row.excerpts) for row in rows]
    said = answered(
        texts, lambda some: _read(reader, some), setup=setup, path=cache, advance=advance
    )
    made: list[Question] = []
    for question, row, before, after in zip(
        questions, rows, said[: len(rows)], said[len(rows) :], strict=True
    ):
        values = {BEFORE: _is_right(before, row), AFTER: _is_right(after, row)}
        told = {"prediction": after, "prediction_before": before}
        made.append({**question, **told, "values": {**question["values"], **values}})
    return made


def _read(reader: Reader, rows: Sequence[Row]) -> list[str]:
    """Read all texts of all rows in one batch; gives each row's best answer."""
    pairs = [
        (row["question"], Passage(str(i), text, title))
        for row in rows
        for i, (title, text) in enumerate(row["texts"])
    ]
    answers = iter(reader.read(pairs) if pairs else [])
    found = [[next(answers) for _ in row["texts"]] for row in rows]
    return [str(best_answer(each, None)["answer"]) if each else "" for each in found]


def _asked(row: Compressed, excerpts: Sequence[Excerpt]) -> Row:
    texts = [[excerpt.passage.title, excerpt.text] for excerpt in excerpts]
    return {"question": row.question, "texts": texts}


def _is_right(answer: str, row: Compressed) -> float:
    return float(contains_answer(answer, row.answers) or exact_match(answer, row.answers))


def compressed_row(row: Row) -> Compressed:
    """Read a row as `fitrag compress` writes it."""
    question, passages, answers = question_of(row), passages_of(row), gold(row)
    given = row.get("excerpts")
    if not isinstance(given, list):
        allowed = "a list, as fitrag compress adds it"
        raise InputError.of("excerpts", given=given, allowed=allowed)
    if row.get("offsets") == "utf16":
        allowed = "codepoints, as fitrag compress writes without --offsets"
        raise InputError.of("offsets", given="utf16", allowed=allowed)
    excerpts = tuple(_excerpt(i, each, passages) for i, each in enumerate(given))
    return Compressed(question, tuple(answers), tuple(passages), excerpts, set_of(row))


def _excerpt(place: int, given: object, passages: Sequence[Passage]) -> Excerpt:
    name = f"excerpts[{place}]"
    if not isinstance(given, Mapping):
        allowed = "an object with passage, start and end"
        raise InputError.of(name, given=given, allowed=allowed)
    at = check_whole(f"{name}.passage", given.get("passage"), low=0, high=len(passages) - 1)
    length = len(passages[at].text)
    start = check_whole(f"{name}.start", given.get("start"), low=0, high=length)
    end = check_whole(f"{name}.end", given.get("end"), low=start, high=length)
    score = 0.0 if given.get("score") is None else check_number(f"{name}.score", given["score"])
    return Excerpt(passages[at], start, end, score, lead=given.get("lead") or ())
