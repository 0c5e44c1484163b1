"""`fitrag gate`: does the model know the answer, or should it be looked up? (IK, section 3)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import Files, ModelOptions, RunOptions
from fitrag_integrations.commands.engine.progress import run_plan
from fitrag_integrations.commands.engine.rows import question_of
from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.flow import Flow, Port, Traced
from fitrag_integrations.methods.ik.decider import Decided, Decider, limit_of
from fitrag_integrations.ports import Gate

ADDS = ("p_known", "retrieve", "why")
EMPTY = {"p_known": None, "retrieve": True, "why": "the row failed: retrieving"}


@dataclass(frozen=True)
class GatePlan:
    """Decide for each question whether to retrieve.

    Reads question and, where there is one, draft: the first words of the model's own answer. Adds
    p_known in [0, 1], retrieve (unless p_known is above the threshold) and why. A row that fails is
    retrieved for, with a p_known of null.
    """

    files: Files
    drafts: Annotated[
        bool,
        Option(
            "Use the row's draft, or one by the gate's model; otherwise the question alone.",
            name="--drafts/--no-drafts",
        ),
    ] = True
    threshold: Annotated[
        float | None,
        Option(
            "Decision threshold; a higher p_known means known.",
            min=0,
            max=1,
            default="the gate's, or 0.5",
        ),
    ] = None
    model: ModelOptions = ModelOptions()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Decide."""
        run_plan("gate", self)

    def verb(self) -> Verb[Decided]:
        """Load the gate."""
        gate = models.load_gate(self.model)
        return gate_verb(gate, drafts=self.drafts, threshold=self.threshold)


def gate_verb(gate: Gate, *, drafts: bool = True, threshold: float | None = None) -> Verb[Decided]:
    """Decide for a row; the questions of a chunk share the gate's batch."""
    asked = gate if drafts else QuestionAlone(gate)

    def flow(row: Row) -> Flow[Decided]:
        question, draft = question_of(row), row.get("draft")
        written = None if draft is None or not drafts else _written(draft)
        decider = Decider(asked, drafter=written, threshold=threshold, on_error="raise")
        return (yield from decider(question))

    return Verb(flow, _fields, ADDS, EMPTY)


@dataclass(frozen=True)
class QuestionAlone:
    """Call of a gate without a draft."""

    gate: Gate
    draft_tokens: int = 0

    @property
    def threshold(self) -> float:
        """The gate's."""
        return limit_of(self.gate, None)

    def p_known(
        self, questions: Sequence[str], drafts: Sequence[str]
    ) -> Sequence[float | Exception]:
        """Pass the questions on."""
        return self.gate.p_known(questions, drafts)


def _written(draft: object) -> Port[str, str]:
    """Answer with the row's own draft; raises `InputError` for a blank one."""
    text = check_text("draft", draft, blank=False)
    return Port.of("draft", lambda prompts: [text] * len(prompts))


def _fields(traced: Traced[Decided]) -> Row:
    decision = traced.value.decision
    return {"p_known": decision.p_known, "retrieve": decision.retrieve, "why": decision.why}
