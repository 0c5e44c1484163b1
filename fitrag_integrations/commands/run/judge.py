"""`fitrag score`, `gate`, `route` and `read`: judge or read what a row brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from fitrag_integrations.commands.engine import models, options
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.models import searched
from fitrag_integrations.commands.engine.options import GateOptions
from fitrag_integrations.commands.engine.progress import ModelPlan, SearchingPlan
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.option import Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.crag.evaluator import (
    ActionJudge,
    ActionThresholds,
    thresholds_of,
)
from fitrag_integrations.methods.fitrag.options import score_port
from fitrag_integrations.methods.ik.decider import Decider, decide_by
from fitrag_integrations.methods.ik.gates import FlowGate, own_gate
from fitrag_integrations.ports import AnswerLike, Evaluator, Gate, gate_port, port_of
from fitrag_integrations.types import BiLabelScore

NO_ANSWER: Row = {"answer": "", "passage": None, "start": None, "end": None, "score": None}


@dataclass(frozen=True)
class ScorePlan(SearchingPlan):
    """Score each passage of each row.

    Reads question and, without --index, passages[{title, text}]; adds scores[{has_answer,
    llm_prefer}], both in [0, 1], in the order of the passages.
    """

    name: ClassVar = "score"

    def verb(self) -> Verb:
        """Load the scorer, which scores the passages of a row in one call."""
        port = score_port(models.load_scorer(self.model))

        def flow(row: Row) -> Flow[Row]:
            question, passages = question_of(row), passages_of(row)
            found: list[BiLabelScore] = yield from port.ask([(question, one) for one in passages])
            names = ("has_answer", "llm_prefer")
            return {"scores": [{name: getattr(one, name) for name in names} for one in found]}

        return searched(Verb(flow, ("scores",), {"scores": []}), self.search)


@dataclass(frozen=True)
class GatePlan(ModelPlan):
    """Decide for each question whether to retrieve.

    A trained gate of --model decides. A language model without one (--llm) is judged by the mean
    probability of its greedy draft if it is local, and else asked; --signal chooses. Reads question
    and, where there is one, draft: the first words of the model's own answer. Adds p_known in
    [0, 1], retrieve (false if p_known is above the threshold) and why, which names the signal. A
    failed row gets a p_known of null and retrieve true.
    """

    name: ClassVar = "gate"
    model: GateOptions = GateOptions()
    llm: Annotated[
        str | None,
        Option(
            "Language model to judge without a trained gate: a hub name, a folder, a LangChain "
            "PROVIDER:MODEL, or with --url the model's name on the server."
        ),
    ] = None
    signal: Annotated[
        str | None,
        Option(
            "What --llm is judged by: likelihood, entropy or margin of its draft; p_true, the "
            "probability of Yes; or ask, its word.",
            default="likelihood for a local model, else ask",
        ),
    ] = None
    drafts: Annotated[
        bool,
        Option(
            "Use the row's draft, or one that the gate's model writes; otherwise the question "
            "alone.",
            name="--drafts/--no-drafts",
        ),
    ] = True
    threshold: options.Threshold = None
    server: options.Server = options.Server()

    def verb(self) -> Verb:
        """Load the gate, or make one of the language model."""
        refuse_if(
            self.llm is not None and self.model.model is not None,
            "Pass `--model` or `--llm`, not both: each is a gate.",
        )
        refuse_if(self.llm is None and self.signal is not None, "--signal", self.signal, "an --llm")
        gate: Gate
        if self.llm is None:
            gate = models.load_gate(self.model)
        else:
            llm = models.load_writer(self.llm, self.server, self.model)
            gate = own_gate(llm, self.signal, drafts=self.drafts)
        return gate_verb(gate, drafts=self.drafts, threshold=self.threshold)


def gate_verb(gate: Gate, *, drafts: bool = True, threshold: float | None = None) -> Verb:
    """Decide for a row; the questions of a chunk share the gate's batch."""
    reading, alone = gate, not drafts
    if isinstance(gate, FlowGate):  # may write its draft itself, in one pass, and is asked so
        reading, alone = replace(gate, draft_tokens=max(1, gate.draft_tokens)), False

    def flow(row: Row) -> Flow[Row]:
        question, draft = question_of(row), row.get("draft")
        written: Port[str, str] | None = None
        if drafts and draft is not None:
            text = check_text("draft", draft, blank=False)
            written = Port.of("draft", lambda prompts: [text] * len(prompts))
        if alone:
            (answer,) = yield from gate_port(gate).ask([(question, "")])
            decision = decide_by(gate, answer, threshold)
        else:
            one = reading if written else gate
            decider = Decider(one, drafter=written, threshold=threshold, on_error="raise")
            decision = (yield from decider(question)).decision
        return {name: getattr(decision, name) for name in empty}

    empty: Row = {"p_known": None, "retrieve": True, "why": "the row failed: retrieving"}
    return Verb(flow, tuple(empty), empty)


@dataclass(frozen=True)
class RoutePlan(SearchingPlan):
    """Grade the passages of each row and decide what to do with them.

    Reads question and, without --index, passages[{title, text}]; adds action (correct, ambiguous
    or incorrect) and grades[] in [-1, 1], in the order of the passages. A row without passages is
    incorrect. A passage that the evaluator refuses has -1, and notes say why.
    """

    name: ClassVar = "route"
    upper: Annotated[
        float | None, Option("Lowest grade of Correct.", min=-1, max=1, default="the model's")
    ] = None
    lower: Annotated[
        float | None, Option("Grades below are Incorrect.", min=-1, max=1, default="the model's")
    ] = None

    def verb(self) -> Verb:
        """Load the evaluator."""
        evaluator = models.load_evaluator(self.model)
        thresholds = chosen_thresholds(evaluator, self.upper, self.lower)
        return searched(route_verb(evaluator, thresholds), self.search)


def chosen_thresholds(
    evaluator: Evaluator, upper: float | None = None, lower: float | None = None
) -> ActionThresholds:
    """Return the evaluator's own thresholds, overridden by the options; if both are given, none is
    needed.
    """
    if upper is not None and lower is not None:
        return ActionThresholds(upper, lower)
    own = thresholds_of(evaluator)
    return ActionThresholds(
        own.upper if upper is None else upper, own.lower if lower is None else lower, own.strip
    )


def route_verb(evaluator: Evaluator, thresholds: ActionThresholds) -> Verb:
    """Grade the passages of a row in one ask."""
    judge = ActionJudge(evaluator, thresholds=thresholds)

    def flow(row: Row) -> Flow[Row]:
        question, none = question_of(row), row.get("passages") == []
        judged = yield from judge(question, [] if none else passages_of(row, blank=True))
        notes = {"notes": list(judged.notes)} if judged.notes else {}
        return {"action": judged.action.value, "grades": list(judged.grades), **notes}

    return Verb(flow, ("action", "grades"), {"action": None, "grades": []})


@dataclass(frozen=True)
class ReadPlan(SearchingPlan):
    """Read the answer to each row out of its passages.

    Reads question and, without --index, passages[{title, text}]; adds answer, passage (its place
    in the list), start, end (characters of its text) and score. If there is no answer, answer is
    empty and the places are null.
    """

    name: ClassVar = "read"
    abstain: Annotated[bool, Option("Return no answer below the reader's threshold.")] = False

    def verb(self) -> Verb:
        """Load the reader, which reads all passages of a row in one call."""
        reader = models.load_reader(self.model)
        port = port_of("read", reader, "read")
        below = getattr(reader, "abstain_below", None) if self.abstain else None

        def flow(row: Row) -> Flow[Row]:
            question, passages = question_of(row), passages_of(row)
            answers: list[AnswerLike] = yield from port.ask([(question, p) for p in passages])
            return best_answer(answers, below)

        return searched(Verb(flow, tuple(NO_ANSWER), NO_ANSWER), self.search)


def best_answer(answers: Sequence[AnswerLike], below: float | None) -> Row:
    """Choose the best-scored answer, the first of equals; under `below` there is none."""
    at = max(range(len(answers)), key=lambda i: (bool(answers[i].text), answers[i].score))
    best = answers[at]
    if not best.text or (below is not None and best.score < below):
        return {**NO_ANSWER, "score": best.score}
    return {
        "answer": best.text,
        "passage": at,
        "start": best.start,
        "end": best.end,
        "score": best.score,
    }
