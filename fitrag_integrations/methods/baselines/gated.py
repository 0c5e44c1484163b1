"""A gate before a method: `Gated` with any gate, `Targ` with the model's own token probabilities.

TARG (Wang et al., 2025, arXiv:2511.09803) gates on the first tokens of a draft; what `MarginGate`
and `EntropyGate` leave out of it is said in `methods.gates`. `SelfEval` asks the model instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.defaults import EMBEDDED_MODEL
from fitrag_integrations.methods.ik.decider import OnError
from fitrag_integrations.methods.ik.draft_confidence import EntropyGate, LikelihoodGate, MarginGate
from fitrag_integrations.methods.ik.method import IKnow
from fitrag_integrations.ports import Gate, Method, Ports
from fitrag_integrations.types import Context

GATES: Mapping[str, Any] = {
    "margin": MarginGate,
    "entropy": EntropyGate,
    "likelihood": LikelihoodGate,
}


@dataclass(frozen=True)
class Gated:
    """Ask a gate, and go on with a method for what is not known: `IKnow` with that gate.

    `gate` None is the embedded one and `method` None direct retrieval; the rest is as in `IKnow`.
    """

    gate: Gate | None = None
    method: Method | None = None
    _: KW_ONLY
    drafter: Any = None
    threshold: float | None = None
    on_error: OnError = "retrieve"
    allow_other_model: bool = False
    _inner: IKnow = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        inner = IKnow(
            self.gate,
            drafter=self.drafter,
            threshold=self.threshold,
            method=self.method,
            on_error=self.on_error,
            allow_other_model=self.allow_other_model,
        )
        object.__setattr__(self, "_inner", inner)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Give the flow that ends in the context for one question."""
        context = yield from self._inner(question, ports)
        return replace(context, method="gated")


@dataclass(frozen=True)
class Targ:
    """Retrieve only where the model is unsure of its own first tokens.

    `drafter` is an object with `draft` and `rescore`, as `LocalGenerator` and `RemoteGenerator`
    have; None is the embedded generator. `kind` is "margin", "entropy" or "likelihood". A
    `threshold` of None is 0.5, which means little before one was fitted (`fitrag calibrate`). What
    is not known goes on with `method`, None for direct retrieval; a drafter that fails ends in
    retrieval, or raises with `on_error` "raise".
    """

    drafter: Any = None
    _: KW_ONLY
    kind: Literal["margin", "entropy", "likelihood"] = "margin"
    threshold: float | None = None
    method: Method | None = None
    on_error: OnError = "retrieve"
    _inner: IKnow = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        if self.kind not in GATES:
            allowed = " or ".join(map(repr, GATES))
            raise InputError.of("kind", given=self.kind, allowed=allowed)
        gate = GATES[self.kind](EMBEDDED_MODEL if self.drafter is None else self.drafter)
        given, on_error = self.threshold, self.on_error
        inner = IKnow(gate, threshold=given, method=self.method, on_error=on_error)
        object.__setattr__(self, "_inner", inner)

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Give the flow that ends in the context for one question.

        A known one has no excerpts, and its answer is left to the caller's prompt.
        """
        context = yield from self._inner(question, ports)
        return replace(context, method="targ", details={**context.details, "kind": self.kind})
