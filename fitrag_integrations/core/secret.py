"""An API key that is sent, but never shown in a repr, a pickle, a message or a log."""

from __future__ import annotations

import logging
import re
from typing import Any, Self
from weakref import WeakSet

from fitrag_integrations.errors import raise_if, refuse_if

HIDDEN = "[hidden]"
WEAK = 8
"""Shorter keys are placeholders that guard nothing, and may well be words of an answer."""
PREFIX = 12
"""From how many of its first characters on a part of a key is hidden; who cuts leaves a part."""
_PRINTABLE = re.compile(r"[!#-\[\]-~]+")  # which JSON writes as they are
_LOGGERS = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
)
"""Those that log what a server answered, headers included; a filter holds for one logger alone."""


class Secret:
    """A key, given as a string, an object with `get_secret_value`, another `Secret`, or None.

    White space around a key is dropped. Pickling fails where there is a key. Raises `InputError`,
    which does not show the key, for one that no HTTP header can carry: with blanks, control
    characters, quotes or backslashes inside, or not ASCII.
    """

    __slots__ = ("__weakref__", "_value")
    _value: str

    def __init__(self, given: Any) -> None:
        if isinstance(given, Secret):
            given = given.reveal() or None
        elif callable(getattr(given, "get_secret_value", None)):
            given = given.get_secret_value()
        key = given.strip() if isinstance(given, str) else given
        refuse_if(
            key is not None and not (isinstance(key, str) and _PRINTABLE.fullmatch(key)),
            "`api_key` must be a key of printable ASCII without blanks, quotes or backslashes "
            "inside, or None; its value is not shown",
        )
        self._value = key or ""
        _secrets.add(self)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_quiet)  # once, however often

    @property
    def found(self) -> bool:
        """Whether there is a key."""
        return bool(self._value)

    @property
    def weak(self) -> bool:
        """Whether the key is too short to be a real one."""
        return len(self._value) < WEAK

    def reveal(self) -> str:
        """Return the key, or an empty string."""
        return self._value

    def redact(self, text: str) -> str:
        """Replace the key by `[hidden]`, and what is left of one that was cut off.

        Redact before shortening a text: the other way round a short beginning may remain.
        """
        key = self._value
        for size in range(len(key), min(len(key), PREFIX) - 1, -1):
            text = text.replace(key[:size], HIDDEN) if size else text
        return text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise_if(self._value, TypeError, "a key is not pickled: make what holds it anew")
        return Secret, (None,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


class _Quiet(logging.Filter):
    """Logging filter that redacts every key in use; it never drops a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace a message that holds a key, and its arguments, by the redacted message."""
        message = redacted = record.getMessage()
        for secret in list(_secrets):
            redacted = secret.redact(redacted)
        if redacted != message:
            record.msg, record.args = redacted, ()
        return True


_quiet = _Quiet()
_secrets: WeakSet[Secret] = WeakSet()  # redacted as long as they are referenced
