"""Read what `fitrag try` and `fit` are given: files to search, or lists that were retrieved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.evaluation.rows import ROW_KINDS, converted, records_in
from fitrag_integrations.retrieval import FileNote
from fitrag_integrations.retrieval.corpus.documents import read_passages
from fitrag_integrations.training.fitted.questions import Asked, asked_of, each_once, spread
from fitrag_integrations.types import Passage


@dataclass(frozen=True, slots=True)
class Given:
    """Passages to search, or what a retriever found.

    Attributes:
        passages: Every passage.
        found: Passages by question, in the retriever's order; None where there is a search to do.
        asked: Questions of `found`, with their answers.
    """

    passages: list[Passage]
    found: dict[str, Sequence[Passage]] | None = None
    asked: tuple[Asked, ...] = ()


def read_given(path: Path, count: int, notes: list[FileNote]) -> Given:
    """Read files to search, or a file of rows of question, passages and maybe answers.

    Args:
        path: Folder or file.
        count: Maximum number of questions.
        notes: List to append a `FileNote` to for whatever is left out.

    Raises:
        InputError: If nothing can be read.
    """
    refuse_if(not path.exists(), "corpus", str(path), "a folder or file that is there")
    if path.name.lower().endswith(ROW_KINDS) and (rows := _lists(path)):
        return _retrieved(rows, path, count, notes)
    told: list[FileNote] = []
    try:
        passages, failed = read_passages(path, told), None
    except InputError as error:
        passages, failed = [], error
    tables: dict[str, list[Passage]] = {}
    for name in dict.fromkeys([note.file for note in told] or [path.name]):
        file = path / name if path.is_dir() else path
        if name.lower().endswith(ROW_KINDS) and file.is_file() and (made := _of_rows(file, name)):
            tables[name] = made
    notes += [note for note in told if note.file not in tables]
    passages += [one for made in tables.values() for one in made]
    if failed is not None and not passages:
        raise failed
    return Given(passages)


def _lists(path: Path) -> list[Row]:
    """Return the rows of a file whose first row has a question and passages; else none."""
    try:
        rows = records_in(path)
    except (InputError, ValueError):  # what is wrong with it is told where it is read as a corpus
        return []
    first = rows[0] if rows else {}
    is_list = "question" in first and any(
        name in first for name in ("passages", "context", "paragraphs")
    )
    return rows if is_list else []


def _retrieved(rows: Sequence[Row], path: Path, count: int, notes: list[FileNote]) -> Given:
    """Read the lists; a row that is none is left out with a note."""
    found: dict[str, Sequence[Passage]] = {}
    asked: list[Asked] = []
    for at, given in enumerate(rows, 1):
        try:
            row = given if "passages" in given else converted(given)
            question, passages = question_of(row), passages_of(row, blank=True)
            one = asked_of(row, f"row {at}")
            usable = [each for each in passages if each.text.strip()]
            refuse_if(not usable, "passages", [], "one with text at least")
        except InputError as error:
            notes.append(FileNote(path.name, str(error), at))
            continue
        if question in found:
            notes.append(FileNote(path.name, "a question that an earlier row asks", at))
        else:
            found[question] = usable
            asked.append(one)
    refuse_if(
        not asked,
        "rows",
        str(path),
        f"rows of question and passages; {'; '.join(map(str, notes[:3]))}",
    )
    asked = spread(each_once(asked), count)
    passages = list({(p.title, p.text): p for one in asked for p in found[one.question]}.values())
    return Given(passages, found, tuple(asked))


def _of_rows(file: Path, name: str) -> list[Passage]:
    """Return a passage for each row of a table whose rows have no `text`, under its header."""
    try:
        rows = records_in(file)
    except (InputError, ValueError):
        return []
    if any("text" in row for row in rows):
        return []
    texts = [
        "; ".join(f"{key}: {_cell(row[key])}" for key in row if _cell(row[key])) for row in rows
    ]
    title = Path(name).name.partition(".")[0]
    return [Passage(f"{name}#{at}", text, title, name) for at, text in enumerate(texts, 1) if text]


def _cell(value: object) -> str:
    """Write a cell: a text as it is, and other values as JSON."""
    if isinstance(value, str) or value is None:
        return " ".join((value or "").split())
    return (
        json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping | list) else str(value)
    )
