"""Rows to measure on: the package's own, and published data sets as a table of field names.

HotpotQA (Yang et al., 2018; 2WikiMultihopQA has its form), MuSiQue (Trivedi et al., 2022), TriviaQA
(Joshi et al., 2017), NQ-open (Lee et al., 2019) and PopQA (Mallen et al., 2023).
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.files import read_file
from fitrag_integrations.core.generic import T
from fitrag_integrations.core.jsonl import loads, read_jsonl
from fitrag_integrations.core.record import Row, check_mapping, plain
from fitrag_integrations.errors import InputError, refuse_if

R = TypeVar("R", bound=Row)
OURS, AUTO = "fitrag", "auto"
LINES, TABLES = (".jsonl", ".jsonl.gz"), (".csv", ".tsv")
YAML, ROW_KINDS = (".yaml", ".yml"), (*LINES, *TABLES, ".json", ".yaml", ".yml")
SHAPES: dict[str, dict[str, tuple[str, ...]]] = {
    OURS: {"answers": ("answers",), "passages": ("passages",)},
    "musique": {"answers": ("answer", "answer_aliases"), "passages": ("paragraphs",)},
    "hotpotqa": {"answers": ("answer",), "passages": ("context",)},
    "popqa": {"answers": ("possible_answers",), "title": ("s_wiki_title",)},
    "triviaqa": {"answers": ("answer.value", "answer.aliases")},
    "nq": {"answers": ("answer",)},
}
"""Where a shape has its fields; of a row, the first shape whose fields are all there counts."""
FORMATS = (AUTO, *SHAPES)
TEXTS = ("text", "paragraph_text", "sentences", "content")  # of a passage


def read_rows(source: str | Path, format: str = AUTO) -> list[Row]:
    """Read rows of question and answers from a file.

    Args:
        source: File in .jsonl, .jsonl.gz, .json (a list, or one under `data`), .csv or .tsv.
        format: One of `FORMATS`; "fitrag" leaves the rows as they are.

    Raises:
        InputError: If the file cannot be read, or a row does not have the format; names the row.
    """
    refuse_if(format not in FORMATS, "format", format, ", ".join(FORMATS))
    rows = each_row(records_in(Path(source)), lambda row: converted(row, format), f"{source}, ")
    refuse_if(not rows, "rows", str(source), "at least one row")
    return rows


def records_in(path: Path) -> list[Row]:
    """Read the objects of a file, unchanged.

    A .json or .yaml file contains a list of objects, or an object whose first list is read. An
    object without a list is itself the only row.

    Args:
        path: File in .jsonl, .jsonl.gz, .json, .yaml, .yml, .csv or .tsv.

    Raises:
        InputError: If the file is missing, is of another kind, cannot be parsed, or contains no
            list of objects.
    """
    refuse_if(not path.is_file(), "rows", str(path), "a file that is there")
    name = path.name.lower()
    refuse_if(not name.endswith(ROW_KINDS), "rows", str(path), f"a file in {', '.join(ROW_KINDS)}")
    if name.endswith(LINES):
        return list(read_jsonl(path))
    import yaml  # type: ignore[import-untyped] # huggingface-hub brings it

    try:
        text = read_file(path).decode("utf-8-sig")
        if name.endswith(TABLES):
            csv.field_size_limit(max(len(text) + 1, csv.field_size_limit()))
            comma = name.endswith(".csv")
            how: dict[str, Any] = {} if comma else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
            return list(
                csv.DictReader(io.StringIO(text, newline=""), restkey="more", strict=comma, **how)
            )
        found = plain(yaml.safe_load(text)) if name.endswith(YAML) else loads(text)
    except (OSError, ValueError, RecursionError, csv.Error, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read as its name says: {why}") from error
    if isinstance(found, Mapping):
        found = next((each for each in found.values() if isinstance(each, list)), [found])
    refuse_if(not isinstance(found, list), "rows", str(path), "a file with a list of objects")
    return [check_mapping(f"{path}, row {at}", row) for at, row in enumerate(found, 1)]


def converted(row: Row, format: str = AUTO) -> Row:
    """Convert a published row to question, answers and passages.

    Args:
        row: The row.
        format: One of `FORMATS`.

    Returns:
        A row of this package unchanged; else a new row, with `id` and `set` if they are known.

    Raises:
        InputError: For a row of unknown format, or without question or answers.

    Example:
        >>> converted({"question": "who?", "answer": ["Ann"]})
        {'question': 'who?', 'answers': ['Ann']}
    """
    shape = format
    if format == AUTO:
        shape = next((name for name in SHAPES if _fits(row, name)), "")
        if not shape:
            known = "; ".join(
                f"{name} ({', '.join(own['answers'])})" for name, own in SHAPES.items()
            )
            given = ", ".join(map(str, row)) or "no field"
            raise InputError(
                f"format: given a row of {given}; it takes the answers of one of: {known}"
            )
    question = check_text("question", row.get("question"), blank=False)
    if shape == OURS:
        return row
    fields = SHAPES[shape]
    answers = [each for name in fields["answers"] for each in _texts(name, _at(row, name))]
    refuse_if(not answers, fields["answers"][0], None, "a text or a list of texts")
    made: dict[str, Any] = {"question": question, "answers": list(dict.fromkeys(answers))}
    for name in fields.get("passages", ()):
        if row.get(name):
            made["passages"] = _passages(name, row[name])
    for name in fields.get("title", ()):
        made |= {"title": row[name]} if row.get(name) else {}
    return {name: row[name] for name in ("id", *SETS) if row.get(name)} | made


def _fits(row: Row, shape: str) -> bool:
    """Return whether a row has a shape's fields; ours has passages or answers, NQ's are a list."""
    if shape == OURS:
        return "answers" in row or "passages" in row
    fields = SHAPES[shape]
    found = [_at(row, name) for name in (fields["answers"][0], *fields.get("passages", ()))]
    return None not in found and (shape != "nq" or isinstance(found[0], list))


def _at(row: Row, path: str) -> Any:
    found: Any = row
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _texts(name: str, given: Any) -> list[str]:
    """Return a text or a list of texts, which PopQA writes as JSON, as a list without blanks."""
    if isinstance(given, str) and given.lstrip().startswith("["):
        given = loads(given)
    found = [given] if isinstance(given, str) else [] if given is None else given
    refuse_if(
        not isinstance(found, list | tuple) or not all(isinstance(e, str) for e in found),
        name,
        given,
        "a text or a list of texts",
    )
    return [each.strip() for each in found if each.strip()]


def _passages(name: str, given: Any) -> list[Row]:
    """Return passages of objects, of pairs of title and sentences, or of columns of both."""
    if isinstance(given, str):  # some copies of 2WikiMultihopQA
        given = loads(given)
    if isinstance(given, Mapping):  # as the library `datasets` stores a list of objects
        columns = {each: given[each] for each in given if isinstance(given[each], list)}
        given = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
    made = []
    for at, each in enumerate(given if isinstance(given, list) else [given]):
        if isinstance(each, list | tuple) and len(each) == 2:
            each = {"title": each[0], "text": each[1]}
        each = check_mapping(f"{name}[{at}]", each)
        body = next((each[key] for key in TEXTS if key in each), None)
        text = " ".join(map(str.strip, map(str, body))) if isinstance(body, list) else body
        row = {"title": each.get("title") or "", "text": check_text(f"{name}[{at}].text", text)}
        labels = ("has_answer", "is_supporting")
        made.append(row | {key: int(bool(each[key])) for key in labels if key in each})
    return [row for row in made if str(row["text"]).strip()]


SETS = ("set", "dataset")  # the fields that name a row's data set
SHOWN = 16  # hexadecimal digits of an id; among a million questions two agree once in 4e7 times


def set_of(row: Row) -> str:
    """Return the name of a row's data set, or the empty text."""
    return str(next((row[name] for name in SETS if row.get(name)), ""))


def question_id(row: Row) -> str:
    """Return a hash of a row's question and its gold answers, in any order.

    A row without a question is hashed without what a gate says of it.
    """
    question, answers = row.get("question"), row.get("answers")
    if isinstance(question, str) and question.strip():
        return content_id(
            [question, sorted(map(str, answers)) if isinstance(answers, list) else []]
        )
    return content_id({key: row[key] for key in row if key not in ("p_known", "score", "retrieve")})


def content_id(content: object, digits: int | None = SHOWN) -> str:
    """Return a hash of plain values: SHA-256 in hex, whatever the order of an object's keys.

    Args:
        content: Plain values.
        digits: Number of hex digits; None is all.
    """
    text = json.dumps(plain(content), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:digits]


def each_row(rows: Iterable[R], read: Callable[[R], T], where: str = "") -> list[T]:
    """Apply a function to every row.

    Args:
        rows: The rows.
        read: Function of a row; its `InputError` gets the row's number.
        where: Text before the number.
    """
    made = []
    for place, row in enumerate(rows, start=1):
        try:
            made.append(read(row))
        except InputError as error:
            raise error.at(f"{where}row {place}: ") from error
    return made
