"""A key that is sent and otherwise shown to nobody."""

from __future__ import annotations

from typing import Any

from fitrag_integrations.errors import InputError


class Secret:
    """Hold a key: a string, an object with `get_secret_value`, or None where there is none."""

    def __init__(self, given: Any) -> None:
        value = given.get_secret_value() if hasattr(given, "get_secret_value") else given
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise InputError(f"api_key: given {type(given).__name__}, allowed a key, or None")
        self._value = value or ""

    def headers(self) -> dict[str, str]:
        """Give the header that sends the key; none without one."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def hide(self, text: str) -> str:
        """Put stars in the place of the key, which a service may repeat in its refusal."""
        return text.replace(self._value, "***") if self._value else text

    def __reduce__(self) -> tuple[Any, ...]:
        if self._value:
            raise TypeError("a key is not pickled: make what holds it anew")
        return Secret, (None,)

    def __repr__(self) -> str:
        return "***"
