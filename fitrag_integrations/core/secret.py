"""An API key that is sent, but never shown in a repr, a pickle, a message or a log."""

from __future__ import annotations

import logging
import os
import re
from typing import Any, Self
from weakref import WeakSet

from fitrag_integrations.errors import InputError, raise_if

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
    with blanks, control characters, quotes or backslashes inside, or not ASCII.
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
        _quiet.secrets.add(self)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_quiet)  # once, however often

    @property
    def found(self) -> bool:
        """Whether there is a key, given or in the environment."""
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
        """Replace the key by `[hidden]`, and what is left of one that was cut off.

        Redact before shortening a text: the other way round a short beginning may remain.
        """
        key = self.reveal()
        for size in range(len(key), min(len(key), PREFIX) - 1, -1):
            text = text.replace(key[:size], HIDDEN) if size else text
        return text

    def _checked(self, given: object) -> str:
        if isinstance(given, str) and _PRINTABLE.fullmatch(given.strip()):
            return given.strip()
        allowed = "a key of printable ASCII without blanks, quotes or backslashes inside, or None"
        raise InputError(
            f"`{self.variable or 'api_key'}` must be {allowed}; its value is not shown"
        )

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise_if(
            self._value and not self.variable,
            TypeError,
            "a key is not pickled: make what holds it anew",
        )
        return Secret, (None, self.variable)

    def __deepcopy__(self, memo: object = None) -> Self:
        return self

    __copy__ = __deepcopy__


class _Quiet(logging.Filter):
    """Logging filter that redacts every key in use; it never drops a record."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: WeakSet[Secret] = WeakSet()  # redacted as long as they are referenced

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace a message that holds a key, and its arguments, by the redacted message."""
        message = redacted = record.getMessage()
        for secret in list(self.secrets):
            redacted = secret.redact(redacted)
        if redacted != message:
            record.msg, record.args = redacted, ()
        return True


_quiet = _Quiet()
