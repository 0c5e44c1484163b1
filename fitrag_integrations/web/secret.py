"""Hold a key so that it shows in no ``repr``, no pickle and no message."""

from __future__ import annotations

import os
import re
from typing import Any, Self
from urllib.parse import quote, quote_plus

from fitrag_integrations.errors import InputError, SearchError

HIDDEN = "[hidden]"


class Secret:
    """Hold a key, or the name of the environment variable to read it from.

    A pickle carries the variable's name only: where it is read back, the key must be in the
    environment. ``value`` may be a text, another ``Secret``, pydantic's ``SecretStr``, or None.
    Raises ``InputError``, which does not show the key, for one that no HTTP header can carry.
    """

    __slots__ = ("_value", "variable")
    _value: str

    def __init__(self, value: Any, variable: str) -> None:
        self.variable = variable
        if isinstance(value, Secret):
            value = value._value
        elif callable(getattr(value, "get_secret_value", None)):
            value = value.get_secret_value()
        self._value = "" if value is None else self._checked(value)

    @property
    def found(self) -> bool:
        """Tell whether there is a key, here or in the environment."""
        return bool(self._value or os.environ.get(self.variable, "").strip())

    def reveal(self) -> str:
        """Give the key; raise ``SearchError`` of kind ``auth`` where there is none."""
        key = self._value or self._checked(os.environ.get(self.variable, ""))
        if not key:
            raise SearchError(f"no key: set {self.variable}", kind="auth")
        return key

    def redact(self, text: str) -> str:
        """Put ``[hidden]`` in place of the key, also where it is written as in a URL."""
        key = self.reveal() if self.found else HIDDEN
        for form in (key, quote(key, safe=""), quote_plus(key)):
            text = text.replace(form, HIDDEN)
        return text

    def _checked(self, value: Any) -> str:
        if isinstance(value, str) and re.fullmatch(r"[!-~]*", value.strip()):
            return value.strip()
        raise InputError(f"{self.variable}: {HIDDEN}, allowed printable ASCII without blanks")

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __reduce__(self) -> tuple[type[Secret], tuple[None, str]]:
        return Secret, (None, self.variable)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
