"""Gate by how sure a model is of its own first words, without training.

`MarginGate` and `EntropyGate` follow TARG (Wang et al., 2025, arXiv:2511.09803), which gates on the
first tokens of a draft; its margin is a link of the logit gap, ours the gap of the two
probabilities, which any service with log-probabilities can tell. TARG's variance over several
drafts is left out. `PTrueGate` and `AskGate`, which ask the model instead, are in `asking`.

All numbers are in [0, 1], higher is surer. None is a probability of being right before its
threshold was fitted (`fitrag calibrate`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from fitrag_integrations.core.checks import can, check_is, check_text
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.ik.decider import draft_port
from fitrag_integrations.methods.ik.flow_gate import FlowGate
from fitrag_integrations.methods.ik.self_evaluation import AskGate, PTrueGate
from fitrag_integrations.ports import Drafter, rescore_port
from fitrag_integrations.types import Draft

__all__ = ["AskGate", "EntropyGate", "LikelihoodGate", "MarginGate", "PTrueGate"]


@dataclass(frozen=True)
class _DraftGate(FlowGate):
    """Measure a draft token by token: the caller's words re-scored, or the drafter's own.

    With `draft_tokens` 0 the drafter writes and measures in one pass, and nobody else is asked for
    a draft. A draft without numbers or without tokens raises `PortError`. `threshold`, `fitted` and
    `allow_other_model` are those of `FlowGate`.
    """

    drafter: Drafter

    def __post_init__(self) -> None:
        if not (can(self.drafter, "draft") and can(self.drafter, "rescore")):
            allowed = "an object with 'draft' and 'rescore' methods; AskGate needs none"
            raise InputError.of("drafter", given=self.drafter, allowed=allowed)
        super().__post_init__()

    @property
    def judged(self) -> Drafter:
        """The drafter."""
        return self.drafter

    def known(self, question: str, draft: str) -> Flow[float]:
        """Return the flow that ends in one question's number, in [0, 1]; surer is higher."""
        check_text("question", question, blank=False)
        answer: object
        if draft.strip():
            (answer,) = yield from rescore_port(self.drafter).ask([(question, draft)])
        else:
            (answer,) = yield from draft_port(self.drafter).ask([question])
        numbers = self.numbers(check_is("draft", answer, Draft))
        if not numbers:
            kind, name = type(self).__name__, type(self.drafter).__name__
            raise PortError(f"{name} told nothing of its tokens, which {kind} needs; see AskGate")
        return self.sureness(math.fsum(numbers) / len(numbers))

    @staticmethod
    @abstractmethod
    def numbers(draft: Draft) -> tuple[float, ...]:
        """Choose what is averaged over the tokens."""

    @staticmethod
    @abstractmethod
    def sureness(mean: float) -> float:
        """Turn the average into a number in [0, 1], higher is surer."""


class MarginGate(_DraftGate):
    """Average how far the likeliest token is ahead of the second (TARG, margin)."""

    @staticmethod
    def numbers(draft: Draft) -> tuple[float, ...]:
        """Choose the margins."""
        return draft.margins

    @staticmethod
    def sureness(mean: float) -> float:
        """Return the mean margin unchanged."""
        return min(1.0, mean)


class EntropyGate(_DraftGate):
    """Gate by exp(-mean entropy) of the next token, in nats (TARG, entropy)."""

    @staticmethod
    def numbers(draft: Draft) -> tuple[float, ...]:
        """Choose the entropies."""
        return draft.entropies

    @staticmethod
    def sureness(mean: float) -> float:
        """Turn nats into one over the effective number of choices."""
        return math.exp(-mean)


class LikelihoodGate(_DraftGate):
    """Gate by the geometric mean of the token probabilities."""

    @staticmethod
    def numbers(draft: Draft) -> tuple[float, ...]:
        """Choose the log-probabilities."""
        return draft.logprobs

    @staticmethod
    def sureness(mean: float) -> float:
        """Turn the mean log-probability into a probability."""
        return math.exp(mean)


GATES: Mapping[str, type[_DraftGate]] = {
    "margin": MarginGate,
    "entropy": EntropyGate,
    "likelihood": LikelihoodGate,
}
