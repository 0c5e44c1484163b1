"""Which passages an index takes in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fitrag_integrations.errors import InputError
from fitrag_integrations.types import Passage

ON_BAD = ("raise", "skip")


def admit(
    passages: Iterable[Any], *, stored: Mapping[str, Passage], on_bad: str
) -> tuple[list[Passage], int]:
    """Give the passages that are new, in order, and how many were skipped as bad.

    Bad are blank texts, items that are no `Passage`, errors that `read_corpus` was asked to
    yield, and an id that another text has. An equal id with an equal text is the same passage and
    the first one stays. With `on_bad="raise"` the first bad one raises its `InputError`.
    """
    if on_bad not in ON_BAD:
        raise InputError.of("on_bad", given=on_bad, allowed=" or ".join(map(repr, ON_BAD)))
    if isinstance(passages, str | bytes | Mapping | Passage) or not isinstance(passages, Iterable):
        raise InputError.of("passages", given=passages, allowed="an iterable of Passage")
    new: dict[str, Passage] = {}
    skipped = 0
    for i, item in enumerate(passages):
        other = stored.get(item.id) or new.get(item.id) if isinstance(item, Passage) else None
        error = _fault(f"passages[{i}]", item, other)
        if error is None and other is None:
            new[item.id] = item
        elif error is not None:
            if on_bad == "raise":
                raise error
            skipped += 1
    return list(new.values()), skipped


def _fault(field: str, item: Any, other: Passage | None) -> InputError | None:
    if isinstance(item, InputError):
        return item
    if not isinstance(item, Passage):
        return InputError.of(field, given=item, allowed="a Passage")
    named = f"{field}.text (id {item.id!r})"
    if not item.text.strip():
        return InputError.of(named, given=item.text, allowed="a string that is not blank")
    if other is not None and other.text != item.text:
        allowed = "the text that is stored under this id, or another id"
        return InputError.of(named, given=item.text, allowed=allowed)
    return None
