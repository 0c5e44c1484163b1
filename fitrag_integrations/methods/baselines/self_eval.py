"""Self-Eval (Kadavath et al., 2022, arXiv:2207.05221): ask the model whether it knows.

As SlimPLM compares with it (section 4.3): the language model is asked whether it can answer by
itself, and retrieval follows where it says No. With `draft` it writes an answer first and is asked
whether that is true, which is the paper's P(True). Simplified: no examples in the prompt, one
answer instead of several to compare with, and a model that gives no probabilities says Yes or No.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated

from fitrag_integrations.core.checks import Checked, Share, can, check_callable, check_text
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.baselines.direct import Direct
from fitrag_integrations.methods.ik.decider import OnError, decide
from fitrag_integrations.methods.ik.self_evaluation import AskGate, PTrueGate
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context, RetrievalDecision


@dataclass(frozen=True)
class SelfEval(Checked):
    """Self-Eval: the language model says whether it knows the answer; if not, another method runs.

    With `draft` it is shown an answer of its own first. `model` None is the caller's own, asked for
    a Yes or No in plain text; one with `p_yes` gives a probability, which is compared with
    `threshold`. `method` None is direct retrieval. A reply that is neither, or none, ends in
    retrieval, or raises with `on_error` "raise".
    """

    model: object = None
    _: KW_ONLY
    draft: bool = False
    threshold: Share = 0.5
    method: Annotated[Method, check_callable] | None = None
    on_error: OnError = "retrieve"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is not None:
            self._gate(self.model)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        A known one has no excerpts, and its answer is left to the caller's prompt. The flow raises
        `InputError` for a blank question, and `PortError` where there is no model at all.
        """
        check_text("question", question, blank=False)
        if self.model is None and not ports.generate:
            yield from ports.generate.ask([question])  # raises
        decision = yield from self._decided(question, ports)
        context = Context(question)
        if decision.retrieve:
            method = Direct() if self.method is None else self.method
            context = yield from method(question, ports)
        details = {**context.details, "threshold": self.threshold}
        return replace(context, decision=decision, method="selfeval", details=details)

    def _decided(self, question: str, ports: Ports) -> Flow[RetrievalDecision]:
        gate = self._gate(ports.generate if self.model is None else self.model)
        try:
            known = yield from gate.known(question, "")
        except Exception as error:
            if self.on_error == "raise":
                raise
            why = f"the model did not say ({type(error).__name__}: {error}): retrieving"
            return RetrievalDecision(True, None, self.threshold, why)
        return decide(known, self.threshold)

    def _gate(self, model: object) -> AskGate | PTrueGate:
        kind = PTrueGate if can(model, "p_yes") else AskGate
        if not self.draft:
            return kind(model, draft_tokens=0)
        gate = kind(model, drafter=model if kind is AskGate else None)
        if gate.drafter is None:
            allowed = "False, or a model that also writes, with 'draft' or 'generate'"
            raise InputError.of("draft", given=True, allowed=allowed)
        return gate
