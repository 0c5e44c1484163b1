"""TARG (Wang et al., 2025, arXiv:2511.09803): retrieve where the first tokens are unsure.

What `MarginGate` and `EntropyGate` leave out of it is said in `methods.ik.draft_confidence`.
`SelfEval` asks the model instead.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Literal

from fitrag_integrations.methods.baselines.gated import Gating
from fitrag_integrations.methods.defaults import EMBEDDED_MODEL
from fitrag_integrations.methods.ik.decider import OnError
from fitrag_integrations.methods.ik.draft_confidence import GATES
from fitrag_integrations.methods.ik.method import IKnow
from fitrag_integrations.ports import Drafter, Method


@dataclass(frozen=True)
class Targ(Gating):
    """Retrieve only where the model is unsure of its own first tokens.

    `drafter` is an object with `draft` and `rescore`, as `LocalGenerator` and `RemoteGenerator`
    have; None is the embedded generator. `kind` is "margin", "entropy" or "likelihood". A
    `threshold` of None is 0.5, which means little before one was fitted (`fitrag calibrate`). What
    is not known goes on with `method`, None for direct retrieval; a drafter that fails ends in
    retrieval, or raises with `on_error` "raise".
    """

    drafter: Drafter | None = None
    _: KW_ONLY
    kind: Literal["margin", "entropy", "likelihood"] = "margin"
    threshold: float | None = None
    method: Method | None = None
    on_error: OnError = "retrieve"

    @cached_property
    def inner(self) -> IKnow:
        """The method with the gate of this kind."""
        gate = GATES[self.kind](EMBEDDED_MODEL if self.drafter is None else self.drafter)
        given, on_error = self.threshold, self.on_error
        return IKnow(gate, threshold=given, method=self.method, on_error=on_error)

    def details(self) -> dict[str, object]:
        """Return the kind of gate."""
        return {"kind": self.kind}
