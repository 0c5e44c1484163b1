"""The port of a model that goes on with a text and tells how likely each of its tokens was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from fitrag_integrations.core.checks import check_is
from fitrag_integrations.errors import PortError
from fitrag_integrations.flow import Port
from fitrag_integrations.ports import pair_port
from fitrag_integrations.values.decision import Continuation


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


CONTINUES = (
    "a model that tells token probabilities: an object with 'continue_with_logprobs', such as "
    "models.Continuer(LocalGenerator.from_pretrained(...))"
)


def continue_port(model: object) -> Port[tuple[str, str], Continuation]:
    """Build the port of a continuer, whose items are (prompt, beginning) pairs."""
    verb = "continue_with_logprobs"
    return pair_port("continue", model, verb, argument="model", allowed=CONTINUES)


def measured(written: object) -> Continuation:
    """Require a continuation with its token probabilities."""
    found = check_is("continuation", written, Continuation)
    if found.text.strip() and not found.tokens:
        raise PortError("the model told no token probabilities, which this method needs")
    return found
