"""Know a question by its content, so that results of different days can be set side by side."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fitrag_integrations.core.record import Row, plain

SHOWN = 16  # hexadecimal digits of an id; among a million questions two agree once in 4e7 times


def question_id(question: str, answers: Iterable[str] = ()) -> str:
    """Hash a question with its gold answers, whose order does not matter."""
    return _digest([question, sorted(answers)])[:SHOWN]


def content_id(content: Any) -> str:
    """Hash plain values, the keys of objects in any order."""
    return _digest(content)[:SHOWN]


def data_hash(rows: Sequence[Row]) -> str:
    """Hash rows with all their fields, in their order: SHA-256 in hexadecimal digits."""
    return _digest(list(rows))


def numbered(ids: Iterable[str]) -> list[str]:
    """Tell repeated questions apart: the second gets `#2`, the third `#3`."""
    seen: Counter[str] = Counter()
    found = []
    for each in ids:
        seen[each] += 1
        found.append(each if seen[each] == 1 else f"{each}#{seen[each]}")
    return found


def _digest(content: Any) -> str:
    text = json.dumps(plain(content), sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
