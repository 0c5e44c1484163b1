"""Gate by asking a model whether its own answer is true.

`PTrueGate` is P(True) of Kadavath et al. (2022, arXiv:2207.05221) with one answer and no examples;
`AskGate` is the same for a service that gives texts only. The prompts are in our own words.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass

from fitrag_integrations.core.checks import Size, can, check_number, check_text
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.ik.decider import draft_port, write_draft
from fitrag_integrations.methods.ik.flow_gate import FlowGate
from fitrag_integrations.ports import port_of, writer_of
from fitrag_integrations.values.prompt import Asked

TRUE_PROMPT = (
    "Question: {question}\nProposed answer: {draft}\n"
    "Is the proposed answer true? Answer Yes or No.\nAnswer:"
)
KNOW_PROMPT = (
    "Question: {question}\nCan you answer this question correctly without looking it up? "
    "Answer Yes or No.\nAnswer:"
)
_VERDICT = re.compile(r"\W*(yes|no|true|false)\b", re.IGNORECASE)


@dataclass(frozen=True)
class _SelfGate(FlowGate):
    """Show a model its own answer and ask whether it is true.

    `drafter` None is the model itself where it writes texts. With `draft_tokens` 0, or where
    nobody writes a draft, the model is asked about the question alone. `threshold`, `fitted` and
    `allow_other_model` are those of `FlowGate`.
    """

    model: object
    _: KW_ONLY
    drafter: object = None
    draft_tokens: Size = 32

    def __post_init__(self) -> None:
        _ = self.port
        super().__post_init__()
        if self.drafter is None and (can(self.judged, "draft") or can(self.judged, "generate")):
            object.__setattr__(self, "drafter", self.judged)
        if self.drafter is not None:
            draft_port(self.drafter)

    @property
    def judged(self) -> object:
        """The model, adapted where it is one of a framework."""
        return writer_of(self.model)

    def known(self, question: str, draft: str) -> Flow[float]:
        """Return the flow that ends in one question's number, in [0, 1]; surer is higher."""
        check_text("question", question, blank=False)
        if not draft.strip() and self.draft_tokens and self.drafter is not None:
            draft = yield from write_draft(question, self.drafter, self.draft_tokens)
        prompt = TRUE_PROMPT if draft.strip() else KNOW_PROMPT
        asked = prompt.format(question=question, draft=draft)
        (answer,) = yield from self.port.ask([Asked(asked, one_line=True)])
        return self.verdict(answer)

    @property
    @abstractmethod
    def port(self) -> Port[str, object]:
        """The port that is asked."""

    @staticmethod
    @abstractmethod
    def verdict(answer: object) -> float:
        """Read a number in [0, 1] from the answer."""


class PTrueGate(_SelfGate):
    """Gate by the probability of Yes when the model is asked whether its answer is true (P(True)).

    `model` is an object with `p_yes(prompts)`, as `LocalGenerator` and `RemoteGenerator` are.
    """

    @property
    def port(self) -> Port[str, object]:
        """The port of `p_yes`."""
        if not can(self.judged, "p_yes"):
            allowed = "an object with a 'p_yes' method; AskGate asks a model without one"
            raise InputError.of("model", given=self.model, allowed=allowed)
        return port_of("p_yes", self.judged, "p_yes", argument="model")

    @staticmethod
    def verdict(answer: object) -> float:
        """Check the probability."""
        return check_number("p_yes", answer, low=0.0, high=1.0)


class AskGate(_SelfGate):
    """Gate that asks in plain text and reads Yes as 1.0 and No as 0.0: for services without
    log-probabilities.

    `model` is any language model of LangChain or LlamaIndex (bound, configured, with retries or
    fallbacks, a chain to text), an object with `generate(prompts)`, a callable from prompts to
    replies, or a `Port`. A reply that begins with neither raises `PortError`, and so ends in
    retrieval.
    """

    @property
    def port(self) -> Port[str, object]:
        """The port of `generate`."""
        return port_of("generate", self.model, "generate", argument="model")

    @staticmethod
    def verdict(answer: object) -> float:
        """Read the first word."""
        reply = check_text("reply", answer)
        found = _VERDICT.match(reply)
        if found is None:
            raise PortError(f"asked for Yes or No, the model gave {reply[:40]!r}")
        return float(found[1].lower() in ("yes", "true"))
