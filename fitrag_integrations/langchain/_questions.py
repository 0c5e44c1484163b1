"""Find the question in what a Runnable is given: the text itself, or one entry of a dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage

from fitrag_integrations._checks import check_text
from fitrag_integrations.errors import InputError

KEYS = ("question", "input", "query")
"""Where the question of a dict is looked for, in this order, unless a key is named."""


def question_of(given: Any, key: str | None = None) -> str:
    """Find the question, or raise ``InputError`` naming where it was looked for."""
    if isinstance(given, str):
        return check_text("question", given, blank=False)
    if isinstance(given, BaseMessage):
        return check_text("question", str(given.text), blank=False)
    keys = KEYS if key is None else (key,)
    if isinstance(given, Mapping):
        for name in keys:
            if name in given:
                return question_of(given[name], key)
    allowed = "a question, or a dict with " + " or ".join(map(repr, keys))
    raise InputError.of("input", given=given, allowed=allowed)
