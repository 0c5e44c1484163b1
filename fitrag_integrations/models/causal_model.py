"""What the models over a causal engine share: queueing, checking, unloading, pickling."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fitrag_integrations._checks import check_many, check_text
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models.causal import CausalEngine
from fitrag_integrations.models.engine import Options
from fitrag_integrations.models.pairs import whole
from fitrag_integrations.models.worker import Task, Worker

_FIELD = re.compile(r"\{(\w+)\}")


class CausalModel:
    """Hold an engine, and what the model was loaded from."""

    def __init__(self, engine: CausalEngine, *, manifest: Mapping[str, Any] | None = None) -> None:
        self._engine = engine
        self.manifest = dict(manifest or {})
        self._origin: tuple[str, Options, dict[str, Any]] | None = None
        self._adapter: str | None = None
        self._unloaded = False

    def unload(self) -> None:
        """Give the memory back; models of the same base go on. A later call raises."""
        if not self._unloaded:
            self._unloaded = True
            if self._adapter is not None:
                self._engine.detach(self._adapter)
            self._engine.release()

    def _call(self, task: Task, items: Sequence[Any]) -> list[Any]:
        return self._worker().call(task, items)

    async def _acall(self, task: Task, items: Sequence[Any]) -> list[Any]:
        return await self._worker().acall(task, items)

    def _worker(self) -> Worker:
        if self._unloaded:
            raise ModelLoadError(f"{self!r} was unloaded: load it again to use it")
        return self._engine.worker

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the folder and the options; the weights stay where they are."""
        if self._origin is None:
            raise TypeError(f"{type(self).__name__}: save_pretrained it before pickling it")
        return _reload, (type(self), *self._origin)

    def __repr__(self) -> str:
        origin = self._origin[0] if self._origin else "in memory"
        return f"{type(self).__name__}({Path(origin).name!r}, device={str(self._engine.device)!r})"


def _reload(cls: Any, folder: str, options: Options, others: dict[str, Any]) -> Any:
    return cls.from_pretrained(
        folder,
        device=options.device,
        dtype=options.dtype,
        batch_tokens=options.batch_tokens,
        **others,
    )


def checked_texts(field: str, texts: Sequence[str]) -> list[str]:
    """Check that each text is a string that is not blank; lone surrogates are replaced."""
    many = check_many(field, texts, str)
    return [whole(check_text(f"{field}[{i}]", text, blank=False)) for i, text in enumerate(many)]


def checked_pairs(questions: Sequence[str], drafts: Sequence[str]) -> list[tuple[str, str]]:
    """Check questions and their drafts, one each; blank drafts become empty ones."""
    asked = checked_texts("questions", questions)
    given = [whole(draft.strip()) for draft in check_many("drafts", drafts, str)]
    if len(given) != len(asked):
        raise InputError.of("drafts", given=len(given), allowed=f"{len(asked)}, one per question")
    return list(zip(asked, given, strict=True))


def filled(prompt: str, **fields: str) -> str:
    """Fill the fields of a prompt; braces in what fills them stay braces."""
    return _FIELD.sub(lambda found: fields.get(found[1], found[0]), prompt)


def needs_fields(field: str, prompt: str, names: Sequence[str]) -> str:
    """Check that a prompt has its fields."""
    allowed = "a text with " + " and ".join(f"{{{name}}}" for name in names)
    if not isinstance(prompt, str) or any(f"{{{name}}}" not in prompt for name in names):
        raise InputError.of(field, given=prompt, allowed=allowed)
    return prompt
