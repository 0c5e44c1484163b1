"""A gate before a method, and three papers that are one.

``Gated`` takes any gate. ``SelfEval`` (Kadavath et al., 2022, arXiv:2207.05221) asks the language
model whether it can answer by itself, as SlimPLM compares with it (section 4.3); with ``draft`` it
writes an answer first and is asked whether that is true, which is the paper's P(True). Simplified:
no examples in the prompt, one answer instead of several to compare with, and a model that gives no
probabilities says Yes or No. ``Targ`` (Wang et al., 2025, arXiv:2511.09803) retrieves where the
first tokens are unsure; `methods.ik.gates` says what its gates leave out. ``SkrKnn`` (Wang et al.,
Findings of EMNLP 2023, arXiv:2310.05002) lets the nearest questions of a bank vote. Simplified: a
question of our bank was answered correctly without retrieval or was not, where the paper compares
answering with and without; and the plain fraction of known ones is compared with a threshold, where
the authors' code also weighs how many of each kind there are.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from fitrag_integrations.core.checks import Checked, Count, Share, can, check_callable, check_text
from fitrag_integrations.core.show import describe_error
from fitrag_integrations.errors import PortError, refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.methods.direct import Direct
from fitrag_integrations.methods.fitrag.recognizer import Bank, CheckedBank
from fitrag_integrations.methods.ik.decider import OnError, decide_by
from fitrag_integrations.methods.ik.gates import GATES, AskGate, PTrueGate
from fitrag_integrations.methods.ik.method import IKnow
from fitrag_integrations.ports import Drafter, Method, Ports
from fitrag_integrations.types import Context, RetrievalDecision


class Gating(Checked):
    """`IKnow` with a gate built from the fields, under the name of the class."""

    shown: ClassVar[str]  # the field that `Context.details` has besides

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.inner

    @property
    @abstractmethod
    def inner(self) -> IKnow:
        """Return the method that is run."""

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in the context for one question.

        A known one has no excerpts, and its answer is left to the caller's prompt.
        """
        context = yield from self.inner(question, ports)
        name = type(self).__name__.lower()
        details = {**context.details, self.shown: getattr(self, self.shown)}
        return replace(context, method=name, details=details)


@dataclass(frozen=True)
class Gated(IKnow):
    """Method that runs another method behind a gate: `IKnow` under another name (IK, section 3).

    Args:
        gate: Gate with `p_known(questions, drafts)`. Defaults to `own_gate` of the caller's
            language model, as in `IKnow`.
        drafter: Model that writes the draft for the gate. Defaults to the gate's own.
        threshold: A question is known above this number, in [0, 1]. Defaults to the gate's, or 0.5.
        on_error: "retrieve" retrieves if the gate or the drafter fails or the draft is blank;
            "raise" raises the error.
        allow_other_model: Accept a threshold that was fitted for another model.
        method: Method run for an unknown question; None is direct retrieval.
    """

    method: Annotated[Method, check_callable] | None = None


@dataclass(frozen=True)
class SelfEval(Checked):
    """Self-Eval: the language model says whether it knows the answer; if not, another method runs.

    Args:
        model: Model to query. A model with `p_yes` returns a probability; any other replies Yes or
            No. Defaults to the caller's language model.
        draft: Whether to show the model its own answer first.
        threshold: A question is known above this probability.
        method: Method run for an unknown question; None is direct retrieval.
        on_error: "retrieve" retrieves if the call fails or the reply is neither Yes nor No, "raise"
            raises the error.
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
        known, error = yield from attempt(gate.known(question, ""), strict=self.on_error == "raise")
        if error is None:
            return decide_by(None, known, self.threshold)
        why = f"the model did not say ({describe_error(error)}): retrieving"
        return RetrievalDecision(True, None, self.threshold, why)

    def _gate(self, model: object) -> AskGate | PTrueGate:
        kind = PTrueGate if can(model, "p_yes") else AskGate
        if not self.draft:
            return kind(model, draft_tokens=0)
        gate = kind(model, drafter=model if kind is AskGate else None)
        allowed = "False, or a model that also writes, with 'draft' or 'generate'"
        refuse_if(gate.drafter is None, "draft", True, allowed)
        return gate


@dataclass(frozen=True)
class Targ(Gating):
    """Method that retrieves only if the model is unsure of its own first tokens (TARG).

    Args:
        drafter: Object with `draft` and `rescore`, such as `LocalGenerator` or `RemoteGenerator`.
        kind: "margin", "entropy" or "likelihood" of the first tokens.
        threshold: A question is known above this number, in [0, 1]. Defaults to 0.5, which means
            little; `fitrag calibrate gate` fits one.
        method: Method run for an unknown question; None is direct retrieval.
        on_error: "retrieve" retrieves if the drafter fails, "raise" raises the error.
    """

    shown: ClassVar = "kind"
    drafter: Drafter
    _: KW_ONLY
    kind: Literal["margin", "entropy", "likelihood"] = "margin"
    threshold: float | None = None
    method: Method | None = None
    on_error: OnError = "retrieve"

    @cached_property
    def inner(self) -> IKnow:
        """Return the method with the gate of this kind."""
        gate, given = GATES[self.kind](self.drafter), self.threshold
        return IKnow(gate, threshold=given, method=self.method, on_error=self.on_error)


@dataclass(frozen=True)
class NeighbourGate:
    """Gate by the fraction of the nearest questions that were known (SKR-kNN).

    A question without neighbors gets a `PortError` in place of a number.

    Args:
        bank: Bank of labeled questions with `neighbours`.
        k: Number of neighbors.
        draft_tokens: Always 0: no draft is read.
    """

    bank: Bank
    k: int = 10
    draft_tokens: int = field(init=False, default=0)

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float | PortError]:
        """Compute the fraction of known questions among the neighbors of each, in [0, 1].

        Args:
            questions: Questions.
            drafts: Not used.
        """
        return [_share(known) for known in self.bank.neighbours(list(questions), self.k)]

    async def ap_known(
        self, questions: Sequence[str], drafts: Sequence[str]
    ) -> list[float | PortError]:
        """Async version of `p_known`."""
        twin = getattr(self.bank, "aneighbours", None)
        if twin is None:
            return await asyncio.to_thread(self.p_known, questions, drafts)
        return [_share(known) for known in await twin(list(questions), self.k)]


@dataclass(frozen=True)
class SkrKnn(Gating):
    """Method that retrieves unless more than `threshold` of the nearest questions were known.

    Args:
        bank: `QuestionBank`, or an object with `neighbours(questions, k)` that returns for each
            question which of its k nearest were known.
        k: Number of neighbors.
        threshold: A question is known if a larger fraction of its neighbors was.
        method: Method run for an unknown question; None is direct retrieval.
        on_error: "retrieve" retrieves if the bank fails, "raise" raises the error.
    """

    shown: ClassVar = "k"
    bank: CheckedBank
    _: KW_ONLY
    k: Count = 10
    threshold: Share = 0.5
    method: Method | None = None
    on_error: OnError = "retrieve"

    @cached_property
    def inner(self) -> IKnow:
        """Return the method with the neighbors as its gate."""
        gate, given = NeighbourGate(self.bank, self.k), self.threshold
        return IKnow(gate, threshold=given, method=self.method, on_error=self.on_error)


def _share(known: Sequence[bool]) -> float | PortError:
    if not len(known):
        return PortError("the bank gave no neighbour to vote")
    return sum(map(bool, known)) / len(known)
