"""Judge from a text whether a question is known (SlimPLM, section 3.2).

A verdict that cannot be parsed counts as not known, so passages are retrieved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Literal, cast

from fitrag_integrations.core.checks import Checked, Share, can, trait
from fitrag_integrations.errors import PortError, refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.flow.ask import AnyPort
from fitrag_integrations.methods.ik.decider import decide_by
from fitrag_integrations.methods.ik.gates import TRUE, FlowGate, check_fitted
from fitrag_integrations.methods.prompts import JUDGE
from fitrag_integrations.ports import pair_port, port_of
from fitrag_integrations.text.replies import read_yes_no, strip_thoughts
from fitrag_integrations.text.tokens import TokenCounter
from fitrag_integrations.types import Context, RetrievalDecision
from fitrag_integrations.values.slimplm import read_verdict

KNOWN = "the judge says that the model knows it"
UNKNOWN = "the judge says that the model does not know it"
UNREADABLE = "the judge's verdict could not be read: retrieving"


@dataclass(frozen=True)
class Verdict:
    """Decision on one question, with the text that it was parsed from.

    Args:
        decision: Whether to retrieve.
        written: Text of a generating judge; blank for a gate.
    """

    decision: RetrievalDecision
    written: str = ""

    def details(self) -> dict[str, object]:
        """Return the verdict as plain values; `known` is None if it could not be parsed."""
        known = None if self.decision.why == UNREADABLE else not self.decision.retrieve
        return {"known": known, "p_known": self.decision.p_known}


@dataclass(frozen=True)
class NecessityCheck(Checked):
    """Judge of questions with texts that answer them, in one call.

    Args:
        judge: Gate with `p_known`; an object with `judge(questions, drafts)`, which returns True,
            False or None; or an object with `generate`, a callable or a `Port`, which continues the
            paper's prompt.
        threshold: Threshold of a gate's number, in [0, 1]. Defaults to the gate's, or 0.5.
        allow_other_model: Accept a threshold that was fitted for another model.
        instructed: Whether a generating judge replies Yes or No instead.
        is_own: Whether the judge is the gate of a model without a trained one.
    """

    judge: object
    _: KW_ONLY
    threshold: Share | None = None
    allow_other_model: bool = False
    instructed: bool = False
    is_own: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._port
        refuse_if(
            self.threshold is not None and self._kind != "gate",
            "threshold",
            self.threshold,
            "None for a judge that gives verdicts, not numbers",
        )

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> Flow[list[Verdict]]:
        """Return the flow that ends in a verdict for each pair of question and text."""
        items: list[object] = list(pairs)
        if self._kind == "generate":
            prompt = TRUE if self.instructed else JUDGE
            items = [prompt.render(Context(question, draft=text)) for question, text in pairs]
        answers: list[object] = []
        if not self.is_own:
            answers = yield from self._port.ask(items)
        for pair in pairs if self.is_own else ():  # flows, whose asks those of other questions join
            answers.append((yield from cast(FlowGate, self.judge).known(*pair)))
        if items and self._kind == "gate":
            return [Verdict(decide_by(self.judge, answer, self.threshold)) for answer in answers]
        return [self._verdict(answer) for answer in answers]

    def reads(self, text: str, count: TokenCounter) -> tuple[str, ...]:
        """Return a note if the judge reads only the first ``draft_tokens`` of a text.

        Args:
            text: Heuristic answer.
            count: Counter of tokens.
        """
        most = trait(self.judge, "draft_tokens", int) or 0
        if not 0 < most < (long := count(text)):
            return ()
        return (f"the judge read the first {most} tokens of about {long} of the heuristic answer",)

    def check_model(self, proxy: object) -> None:
        """Require that the judge's own threshold was fitted for the proxy."""
        if self._kind == "gate" and self.threshold is None:
            check_fitted(self.judge, proxy, allow_other_model=self.allow_other_model)

    @cached_property
    def _kind(self) -> Literal["gate", "judge", "generate"]:
        """Return how the judge is asked."""
        if can(self.judge, "p_known"):
            return "gate"
        return "judge" if can(self.judge, "judge") else "generate"

    @cached_property
    def _port(self) -> AnyPort:
        if self._kind == "generate":
            return port_of("judge", self.judge, "generate", argument="judge")
        return pair_port(self._kind, self.judge, "p_known" if self._kind == "gate" else "judge")

    def _verdict(self, answer: object) -> Verdict:
        """Read a verdict; one that cannot be read is none."""
        if not isinstance(answer, str | bool | None):
            raise PortError(
                f"a judge gives True, False, None or a text, this one gave {answer!r:.80}"
            )
        if isinstance(answer, str):
            read = read_yes_no if self.instructed else read_verdict
            written, known = answer, read(strip_thoughts(answer))
        else:
            written, known = "Known (True)", answer  # as tokens are counted
        why = {None: UNREADABLE, True: KNOWN, False: UNKNOWN}[known]
        return Verdict(RetrievalDecision(not known, why=why), written)
