"""A key that is sent, but never shown in a repr, a pickle, a message or a log."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from html import unescape
from threading import Lock
from typing import Any, Self
from urllib.parse import unquote
from weakref import WeakSet

from fitrag_integrations.errors import InputError

HIDDEN = "[hidden]"
PREFIX = 12
"""From how many of its first characters on a part of a key is hidden; who cuts leaves a part."""
WEAK = 8
"""Shorter keys are placeholders that guard nothing, and may well be words of an answer."""
_PRINTABLE = re.compile(r"[!-~]+")
# One character as URLs, JSON, Python and HTML spell it, or as it is.
_SPELLED = re.compile(
    r"%[0-9a-f]{2}|\\u00[0-9a-f]{2}|\\x[0-9a-f]{2}|\\[\\/\"']|&#[0-9]{1,4};|&#x[0-9a-f]{1,4};"
    r"|&(?:amp|lt|gt|quot|apos);|.",
    re.IGNORECASE | re.DOTALL,
)
_LOGGERS = (
    "httpx",
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.http2",
    "httpcore.proxy",
    "httpcore.socks",
    "googleapiclient.discovery",
    "googleapiclient.http",
    "googleapiclient.model",
)
"""Those that log what a server answered, headers included; a filter holds for one logger alone."""


class Secret:
    """A key, given as a string, an object with `get_secret_value`, another `Secret`, or None.

    White space around a key is dropped. With `variable`, the key is read from that environment
    variable if none is given; a pickle then holds the name of the variable, otherwise pickling
    fails. Raises `InputError`, which does not show the key, for one that no HTTP header can carry:
    with blanks or control characters inside, or not ASCII.
    """

    __slots__ = ("__weakref__", "_value", "variable")
    _value: str

    def __init__(self, given: Any, variable: str = "") -> None:
        self.variable = variable
        if isinstance(given, Secret):
            given = given._value or None
        elif callable(getattr(given, "get_secret_value", None)):
            given = given.get_secret_value()
        is_blank = given is None or (variable and isinstance(given, str) and not given.strip())
        self._value = "" if is_blank else self._checked(given)
        _quiet.add(self)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_quiet)  # once, however often

    @property
    def found(self) -> bool:
        """Whether there is a key, here or in the environment."""
        return bool(self._value or (self.variable and os.environ.get(self.variable, "").strip()))

    @property
    def weak(self) -> bool:
        """Whether the key is too short to be a real one."""
        return len(self.reveal()) < WEAK

    def reveal(self) -> str:
        """Return the key, or an empty string."""
        if self._value or not self.found:
            return self._value
        return self._checked(os.environ[self.variable])

    def redact(self, text: str) -> str:
        """Replace the key by `[hidden]`, also where it is escaped or truncated after its beginning.

        Redact before shortening a text: the other way round a short beginning may remain.
        """
        key = self.reveal() if self.found else ""
        return _without(text, (key, _plain(key))) if key else text

    def _checked(self, given: object) -> str:
        if isinstance(given, str) and _PRINTABLE.fullmatch(given.strip()):
            return given.strip()
        what = type(given).__name__
        allowed = "a key of printable ASCII without blanks inside, or None"
        raise InputError(f"{self.variable or 'api_key'}: given {what}, allowed {allowed}")

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._value and not self.variable:
            raise TypeError("a key is not pickled: make what holds it anew")
        return Secret, (None, self.variable)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


def _without(text: str, keys: Sequence[str]) -> str:
    plain = _plain(text)
    if not any(key[:PREFIX] in plain for key in keys):
        return text
    ends = [match.end() for match in _SPELLED.finditer(text)]  # of each character of plain
    kept, at = [], 0
    for first, last in _places(plain, keys):
        kept.append(text[at : ends[first - 1] if first else 0])
        at = ends[last - 1]
    return HIDDEN.join([*kept, text[at:]])


def _places(plain: str, keys: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where a key stands, as it is or with its own escapes read, as much as is there."""
    last = 0
    starts = re.compile("|".join(re.escape(key[:PREFIX]) for key in keys))
    while found := starts.search(plain, last):
        first = found.start()
        shared = (os.path.commonprefix([plain[first : first + len(key)], key]) for key in keys)
        last = first + max(map(len, shared))
        yield first, last


def _plain(text: str) -> str:
    """Read every escape as its one character."""
    return _SPELLED.sub(_character, text) if any(mark in text for mark in "%\\&") else text


def _character(match: re.Match[str]) -> str:
    spelled = match.group()
    if len(spelled) == 1:
        return spelled
    if spelled[0] == "&":
        return unescape(spelled)[:1] or spelled[:1]
    if spelled[0] == "%":
        return unquote(spelled, "latin-1")
    if spelled[1] in "uUxX":
        return chr(int(spelled[2:], 16))
    return spelled[1]


class _Quiet(logging.Filter):
    """Logging filter that redacts every key in use; it never drops a record."""

    def __init__(self) -> None:
        super().__init__()
        self._secrets: WeakSet[Secret] = WeakSet()
        self._lock = Lock()

    def add(self, secret: Secret) -> None:
        """Redact one more key, as long as it is referenced."""
        with self._lock:
            self._secrets.add(secret)

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace a message that holds a key, and its arguments, by the redacted message."""
        with self._lock:
            secrets = list(self._secrets)
        message = redacted = record.getMessage()
        for secret in secrets:
            redacted = secret.redact(redacted)
        if redacted != message:
            record.msg, record.args = redacted, ()
        return True


_quiet = _Quiet()
