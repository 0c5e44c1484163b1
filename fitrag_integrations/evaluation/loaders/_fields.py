"""Take fields of a published row, and say which one is not as published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.errors import InputError

Row: TypeAlias = Mapping[str, Any]


def question_row(
    row: Row,
    question: str,
    answers: Sequence[str],
    *,
    ids: Sequence[str] = ("id",),
    **others: object,
) -> Row:
    """Make a row of ours; an empty or missing field of `others` is left out."""
    found = next((row[name] for name in ids if row.get(name) is not None), None)
    named = {} if found is None else {"id": str(found)}
    more = {name: value for name, value in others.items() if value not in (None, [], ())}
    return {**named, "question": question, "answers": list(answers), **more}


def text(row: Row, name: str) -> str:
    """Take a text that is not blank."""
    return check_text(name, row.get(name), blank=False).strip()


def texts(name: str, value: object) -> list[str]:
    """Take a list of texts, blank ones left out and each once; one text is a list of one."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise InputError.of(name, given=value, allowed="a text or a list of texts")
    found = list(dict.fromkeys(each.strip() for each in given if each.strip()))
    if not found:
        raise InputError.of(name, given=value, allowed="at least one text that is not blank")
    return found


def mapping(name: str, value: object) -> Row:
    """Take an object."""
    if not isinstance(value, Mapping):
        raise InputError.of(name, given=value, allowed="an object")
    return value


def sequence(name: str, value: object) -> Sequence[Any]:
    """Take a list."""
    if not isinstance(value, list | tuple):
        raise InputError.of(name, given=value, allowed="a list")
    return value


def decoded(name: str, value: object) -> Any:
    """Take a value that some copies of a data set keep as the text of its JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        allowed = f"a list, or the JSON of one: {error}"
        raise InputError.of(name, given=value, allowed=allowed) from None


def records(name: str, value: object) -> list[Row]:
    """Take a list of objects, or the object of lists into which `datasets` turns one."""
    if isinstance(value, Mapping):
        columns = {key: list(sequence(f"{name}.{key}", each)) for key, each in value.items()}
        try:
            together = zip(*columns.values(), strict=True)
            return [dict(zip(columns, each, strict=True)) for each in together]
        except ValueError:
            given = {key: len(column) for key, column in columns.items()}
            raise InputError.of(name, given=given, allowed="lists of one length") from None
    return [mapping(f"{name}[{i}]", each) for i, each in enumerate(sequence(name, value))]


def passage(title: object, body: object, **labels: object) -> Row:
    """Make a passage; `body` is a text or its sentences, and labels become 0 or 1."""
    joined = body if isinstance(body, str) else "".join(_spaced(sequence("sentences", body)))
    return {
        "title": check_text("title", "" if title is None else title),
        "text": check_text("text", joined),
        **{name: int(bool(value)) for name, value in labels.items()},
    }


def readable(passages: Iterable[Row]) -> list[Row]:
    """Leave out passages without text."""
    return [each for each in passages if each["text"].strip()]


def _spaced(sentences: Sequence[Any]) -> Iterable[str]:
    """Join sentences with a blank where the source left none (HotpotQA keeps its own)."""
    for place, sentence in enumerate(sentences):
        told = check_text(f"sentences[{place}]", sentence)
        before = sentences[place - 1] if place else " "
        apart = told[:1].isspace() or before[-1:].isspace() or not before
        yield told if apart else f" {told}"
