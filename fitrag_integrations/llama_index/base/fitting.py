"""Make drop-ins with what `fitrag fit` found."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any, Self

from fitrag_integrations.methods.compose.fitted import Fitted
from fitrag_integrations.methods.settings import settings_of
from fitrag_integrations.ports import model_name, writer_of


class FromFitted:
    """Mixin with the constructor `from_fitted`."""

    @classmethod
    def from_fitted(
        cls,
        folder: str | Path,
        *,
        llm: Any = None,
        allow_other_model: bool = False,
        **given: Any,
    ) -> Self:
        """Make it with what is in the `folder` of `fitrag fit`; `given` are all other arguments.

        `llm` is the language model that will answer: one of another name than was fitted for
        raises `ThresholdMismatchError`, unless `allow_other_model`. Raises `InputError` where
        nothing in the folder is for this class, and says what to do instead.
        """
        fitted, names = Fitted.read(folder), set(signature(cls).parameters)
        made = getattr(cls, "made", None)
        names |= set() if made is None else {each.name for each in settings_of(made)}
        kind = None if llm is None else type(llm).__name__
        fitted.check(model_name(llm) or kind, allow_other_model=allow_other_model)
        own = {"llm": llm} if llm is not None and "llm" in names else {}
        return cls(**{**fitted.options(names, writer_of(llm)), **own, **given})
