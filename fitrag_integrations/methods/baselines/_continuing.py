"""The port of a model that goes on with a text and tells how likely each of its tokens was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import Port
from fitrag_integrations.values.continuation import Continuation


@runtime_checkable
class Continuer(Protocol):
    """Go on with answers that were begun (FLARE, section 3.2).

    An async twin `acontinue_with_logprobs` is optional.

    A beginning is what was written of the answer to its prompt so far, blank at first.
    """

    def continue_with_logprobs(
        self, prompts: Sequence[str], beginnings: Sequence[str], /
    ) -> Sequence[Continuation]:
        """Go on with each of `beginnings`, answers to the `prompts`; one continuation each."""
        ...


def continue_port(model: Any) -> Port[tuple[str, str], Continuation]:
    """Build the port of a continuer, whose items are (prompt, beginning) pairs."""
    if isinstance(model, type) or not callable(getattr(model, "continue_with_logprobs", None)):
        allowed = (
            "a model that tells token probabilities: an object with 'continue_with_logprobs', such "
            "as models.Continuer(LocalGenerator.from_pretrained(...))"
        )
        raise InputError.of("model", given=model, allowed=allowed)
    twin = getattr(model, "acontinue_with_logprobs", None)
    call = _Unzipped(model.continue_with_logprobs)
    return Port.of("continue", call, _Unzipped(twin) if callable(twin) else None)


def measured(written: Any) -> Continuation:
    """Require a continuation with its token probabilities."""
    found = check_is("continuation", written, Continuation)
    if found.text.strip() and not found.tokens:
        raise PortError("the model told no token probabilities, which this method needs")
    return found


@dataclass(frozen=True)
class _Unzipped:
    """Hand pairs to a call that takes two lists; equal, and hashed, by that call."""

    call: Any

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return self.call([prompt for prompt, _ in pairs], [begun for _, begun in pairs])
