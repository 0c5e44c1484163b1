"""`fitrag gate`: does the model know the answer, or should it be looked up? (IK, section 3)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from fitrag_integrations._checks import check_text
from fitrag_integrations.commands import models, options
from fitrag_integrations.commands.batch import Verb
from fitrag_integrations.commands.progress import run_verb
from fitrag_integrations.commands.rows import question_of
from fitrag_integrations.flow import Flow, Port, Traced
from fitrag_integrations.methods.deciding import Decided, Decider
from fitrag_integrations.ports import Gate

ADDS = ("p_known", "retrieve", "why")
EMPTY = {"p_known": None, "retrieve": True, "why": "the row failed: retrieving"}


def gate(
    source: options.Input,
    target: options.Output,
    drafts: Annotated[
        bool,
        typer.Option(
            "--drafts/--no-drafts",
            help="Read the row's draft, or have the gate's model write one; or the question alone.",
        ),
    ] = True,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Known is what lies above.", show_default="the gate's, or 0.5"
        ),
    ] = None,
    model: options.Model = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_tokens: options.BatchTokens = None,
    overwrite: options.Overwrite = False,
    strict: options.Strict = False,
    quiet: options.Quiet = False,
    json: options.AsJson = False,
) -> None:
    """Decide for each question whether to retrieve.

    Reads question and, where there is one, draft: the first words of the model's own answer. Adds
    p_known in [0, 1], retrieve (unless p_known is above the threshold) and why. A row that fails is
    retrieved for, with a p_known of null.
    """
    chosen = options.ModelOptions(model, device, dtype, batch_tokens)
    how = options.RunOptions(overwrite, strict, quiet, json)

    def load() -> Verb[Decided]:
        return gate_verb(models.load_gate(chosen), drafts=drafts, threshold=threshold)

    run_verb("gate", load, source, target, how)


def gate_verb(gate: Gate, *, drafts: bool = True, threshold: float | None = None) -> Verb[Decided]:
    """Decide for a row; the questions of a chunk share the gate's batch."""
    asked = gate if drafts else QuestionAlone(gate)

    def flow(row: Mapping[str, Any]) -> Flow[Decided]:
        question, draft = question_of(row), row.get("draft")
        written = None if draft is None or not drafts else _written(draft)
        decider = Decider(asked, drafter=written, threshold=threshold, on_error="raise")
        return (yield from decider(question))

    return Verb(flow, _fields, ADDS, EMPTY)


@dataclass(frozen=True)
class QuestionAlone:
    """Ask a gate without a draft."""

    gate: Gate
    draft_tokens: int = 0

    @property
    def threshold(self) -> float | None:
        """Give the gate's."""
        found: float | None = getattr(self.gate, "threshold", None)
        return found

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> Sequence[float]:
        """Pass the questions on."""
        return self.gate.p_known(questions, drafts)


def _written(draft: Any) -> Port[str, str]:
    """Answer with the row's own draft; raises `InputError` for a blank one."""
    text = check_text("draft", draft, blank=False)
    return Port.of("draft", lambda prompts: [text] * len(prompts))


def _fields(traced: Traced[Decided]) -> dict[str, Any]:
    decision = traced.value.decision
    return {"p_known": decision.p_known, "retrieve": decision.retrieve, "why": decision.why}
