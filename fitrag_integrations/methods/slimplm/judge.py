"""Judge from a text whether a question is known, by any kind of judge (SlimPLM, section 3.2).

A verdict that cannot be read means: not known, retrieve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from fitrag_integrations.core.checks import check_is, check_number
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.defaults import EMBEDDED_GATE
from fitrag_integrations.methods.ik.decider import check_fitted, decide, limit_of
from fitrag_integrations.methods.slimplm.prompts import JUDGE
from fitrag_integrations.ports import gate_port, pair_port, port_of
from fitrag_integrations.text.tokens import TokenCounter
from fitrag_integrations.types import Context, RetrievalDecision
from fitrag_integrations.values.slimplm import read_verdict

KNOWN = "the judge says that the model knows it"
UNKNOWN = "the judge says that the model does not know it"
UNREADABLE = "the judge's verdict could not be read: retrieving"
VERDICT = "Known (True)"
"""What a judge that gives bare verdicts is taken to have written, in the account of tokens."""


@dataclass(frozen=True)
class Verdict:
    """Hold the decision on one question, and what was written for it."""

    decision: RetrievalDecision
    written: str

    def told(self) -> dict[str, Any]:
        """Give it in plain values; `known` is None where the verdict could not be read."""
        unread = self.decision.why == UNREADABLE
        known = None if unread else not self.decision.retrieve
        return {"known": known, "p_known": self.decision.p_known}


@dataclass(frozen=True)
class Judging:
    """Ask a judge about questions and texts that answer them, all in one ask.

    `judge` is a gate with `p_known`, whose number is compared with `threshold`, else with its own,
    else with 0.5; an object with `judge(questions, drafts)`, which gives True, False or None; or
    one with `generate`, a callable or a `Port`, which continues the paper's prompt. None is the
    embedded gate.
    """

    judge: Any = None
    _: KW_ONLY
    threshold: float | None = None
    allow_other_model: bool = False

    def __post_init__(self) -> None:
        """Tell of a wrong argument here rather than in the middle of a flow."""
        _ = self.port
        if self.threshold is not None:
            check_number("threshold", self.threshold, low=0.0, high=1.0)
            if self.kind != "gate":
                allowed = "None for a judge that gives verdicts, not numbers"
                raise InputError.of("threshold", given=self.threshold, allowed=allowed)
        check_is("allow_other_model", self.allow_other_model, bool)

    @property
    def kind(self) -> Literal["gate", "judge", "generate"]:
        """Say how the judge is asked."""
        if self.judge is None:
            return "gate"
        if not isinstance(self.judge, Port | type):
            if callable(getattr(self.judge, "p_known", None)):
                return "gate"
            if callable(getattr(self.judge, "judge", None)):
                return "judge"
        return "generate"

    @property
    def port(self) -> Port[Any, Any]:
        """Give the port that is asked."""
        if self.kind == "gate":
            return gate_port(self._gate)
        if self.kind == "judge":
            return pair_port("judge", self.judge, "judge")
        return port_of("judge", self.judge, "generate", argument="judge")

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Flow[list[Verdict]]:
        """Give the flow that ends in a verdict for each pair of question and text."""
        items: list[Any] = list(pairs)
        if self.kind == "generate":
            items = [JUDGE.render(Context(question, draft=text)) for question, text in pairs]
        answers = yield from self.port.ask(items)
        limit = self.limit() if items else None
        return [_verdict(answer, limit) for answer in answers]

    def reads(self, text: str, count: TokenCounter) -> tuple[str, ...]:
        """Note where the judge reads the beginning of a text alone, by its ``draft_tokens``."""
        most = getattr(self.judge, "draft_tokens", None)
        if not isinstance(most, int) or not 0 < most < (long := count(text)):
            return ()
        return (f"the judge read the first {most} tokens of about {long} of the heuristic answer",)

    def limit(self) -> float | None:
        """Give the threshold in use, None for a judge without numbers."""
        return limit_of(self._gate, self.threshold) if self.kind == "gate" else None

    def check_model(self, proxy: Any) -> None:
        """Refuse the judge's own threshold where it was fitted for another model than the proxy."""
        if self.kind == "gate" and self.threshold is None:
            check_fitted(self._gate, proxy, allow_other_model=self.allow_other_model)

    @property
    def _gate(self) -> Any:
        return EMBEDDED_GATE if self.judge is None else self.judge


def _verdict(answer: Any, limit: float | None) -> Verdict:
    if limit is not None:
        return Verdict(decide(answer, limit), "")
    if isinstance(answer, str):
        return Verdict(_decision(read_verdict(answer)), answer)
    if answer is None or isinstance(answer, bool):
        return Verdict(_decision(answer), VERDICT)
    raise PortError(f"a judge gives True, False, None or a text, this one gave {answer!r:.80}")


def _decision(known: bool | None) -> RetrievalDecision:
    if known is None:
        return RetrievalDecision(True, why=UNREADABLE)
    return RetrievalDecision(not known, why=KNOWN if known else UNKNOWN)
