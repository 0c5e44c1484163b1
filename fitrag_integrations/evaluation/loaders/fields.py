"""Checked fields of published rows; errors name the field that is not as published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError, refuse_if


def question_row(
    row: Row,
    question: str,
    answers: Sequence[str],
    *,
    ids: Sequence[str] = ("id",),
    **others: object,
) -> Row:
    """Build a converted row.

    Args:
        row: The published row.
        question: Text of the question.
        answers: Gold answers.
        ids: Fields that may hold the identifier; the first one present is used.
        **others: Further fields; None and empty lists are left out.
    """
    found = next((row[name] for name in ids if row.get(name) is not None), None)
    named = {} if found is None else {"id": str(found)}
    more = {name: value for name, value in others.items() if value not in (None, [], ())}
    return {**named, "question": question, "answers": list(answers), **more}


def text(row: Row, name: str) -> str:
    """Return a field that must be a text and not blank, without outer whitespace."""
    return check_text(name, row.get(name), blank=False).strip()


def texts(name: str, value: object) -> list[str]:
    """Return a text or a list of texts as a list, without blank and repeated ones."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise InputError.of(name, given=value, allowed="a text or a list of texts")
    found = list(dict.fromkeys(each.strip() for each in given if each.strip()))
    refuse_if(not found, name, value, "at least one text that is not blank")
    return found


def mapping(name: str, value: object) -> Row:
    """Return the value if it is an object, else raise `InputError`."""
    if not isinstance(value, Mapping):
        raise InputError.of(name, given=value, allowed="an object")
    return value


def sequence(name: str, value: object) -> Sequence[Any]:
    """Return the value if it is a list, else raise `InputError`."""
    if not isinstance(value, list | tuple):
        raise InputError.of(name, given=value, allowed="a list")
    return value


def decoded(name: str, value: object) -> Any:
    """Parse a value that some copies of a data set store as JSON text; return others unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InputError.of(
            name, given=value, allowed=f"a list, or the JSON of one: {error}"
        ) from None


def records(name: str, value: object) -> list[Row]:
    """Return a list of objects, also from the object of lists into which `datasets` turns one."""
    if isinstance(value, Mapping):
        columns = {key: list(sequence(f"{name}.{key}", each)) for key, each in value.items()}
        try:
            together = zip(*columns.values(), strict=True)
            return [dict(zip(columns, each, strict=True)) for each in together]
        except ValueError:
            given = {key: len(column) for key, column in columns.items()}
            raise InputError.of(name, given=given, allowed="lists of one length") from None
    return [mapping(f"{name}[{i}]", each) for i, each in enumerate(sequence(name, value))]


def pairs(name: str, value: object) -> Iterator[tuple[str, Any]]:
    """Yield titles with their sentences: HotpotQA's pairs, or objects of other copies."""
    given = decoded(name, value)
    for i, part in enumerate([given] if isinstance(given, dict) else list(sequence(name, given))):
        if isinstance(part, dict):
            whole = part if part is given else {key: [each] for key, each in part.items()}
            # two copies of 2Wiki name the sentences differently; `sent_id` is of supporting facts
            keys = ("sentences", "content", "sent_id")
            other = next((key for key in keys if key in whole), "sentences")
            columns = {"title": whole.get("title"), other: whole.get(other)}
            yield from ((text(each, "title"), each[other]) for each in records(name, columns))
            continue
        pair = sequence(f"{name}[{i}]", part)
        if len(pair) != 2 or not isinstance(pair[0], str):
            raise InputError.of(f"{name}[{i}]", given=pair, allowed="a title and what goes with it")
        yield pair[0], pair[1]


def passage(title: object, body: object, **labels: object) -> Row:
    """Build a passage.

    Args:
        title: Title; None is the empty text.
        body: Text, or a list of sentences; a space joins them where they have none.
        **labels: Labels, converted to 0 or 1.
    """
    joined = before = ""
    for place, each in enumerate([body] if isinstance(body, str) else sequence("sentences", body)):
        sentence = check_text(f"sentences[{place}]", each)
        apart = not before or before[-1:].isspace() or sentence[:1].isspace()
        joined += sentence if apart else f" {sentence}"
        before = sentence  # an empty one adds no space after it
    return {
        "title": check_text("title", "" if title is None else title),
        "text": joined,
        **{name: int(bool(value)) for name, value in labels.items()},
    }


def readable(passages: Iterable[Row]) -> list[Row]:
    """Return the passages that have text."""
    return [each for each in passages if each["text"].strip()]
