"""Tell a trace to a reader: one line per step, then what was decided, kept and degraded."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from fitrag_integrations.types import BiLabelScore, Context

SHOWN = 5  # excerpts named in the last line


class StepLike(Protocol):
    """What this module reads of a step."""

    @property
    def port(self) -> str: ...
    @property
    def items(self) -> Sequence[Any]: ...
    @property
    def answers(self) -> Sequence[Any]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def error(self) -> str | None: ...


def explain(steps: Sequence[StepLike], outcome: object) -> str:
    """Write the question, the steps and the outcome, a line each."""
    head = [f"question: {_short(outcome.question)}"] if isinstance(outcome, Context) else []
    told = [_step_line(number, step) for number, step in enumerate(steps, start=1)]
    return "\n".join([*head, *told, *_outcome_lines(outcome)])


def _step_line(number: int, step: StepLike) -> str:
    tokens = "" if step.tokens is None else f", {step.tokens} tokens"
    asked = f"{len(step.items)} asked, {1000 * step.seconds:.1f} ms{tokens}"
    back = f"failed, {_short(step.error)}" if step.error else _brief(step.answers)
    return f"{number}. {step.port}: {asked} -> {back}"


def _brief(answers: Sequence[Any]) -> str:
    """Say in a few words what came back."""
    if not answers:
        return "nothing"
    if all(isinstance(answer, BiLabelScore) for answer in answers):
        answers = [answer.combine() for answer in answers]
    if all(isinstance(answer, float | int) for answer in answers):
        return f"from {min(answers):.2f} to {max(answers):.2f}"
    if all(isinstance(answer, list | tuple) for answer in answers):
        return f"{sum(map(len, answers))} found"
    return _short(answers[0]) if len(answers) == 1 else f"{len(answers)} answers"


def _outcome_lines(outcome: object) -> Iterator[str]:
    if isinstance(outcome, Exception):
        yield f"failed: {type(outcome).__name__}: {outcome}"
        return
    if not isinstance(outcome, Context):
        yield f"value: {_short(outcome)}"
        return
    if outcome.decision is not None:
        yield f"decision: {_decision(outcome)}"
    if outcome.action is not None:
        yield f"action: {outcome.action}"
    yield f"kept {len(outcome.excerpts)} excerpts{_kept(outcome)}"
    yield from (f"note: {note}" for note in outcome.notes)


def _decision(context: Context) -> str:
    decision = context.decision
    assert decision is not None
    verdict = "retrieve" if decision.retrieve else "do not retrieve"
    known = "" if decision.p_known is None else f", p_known {decision.p_known:.2f}"
    threshold = "" if decision.threshold is None else f", threshold {decision.threshold:.2f}"
    return f"{verdict}{known}{threshold}" + (f": {decision.why}" if decision.why else "")


def _kept(context: Context) -> str:
    named = [
        f"{excerpt.passage.title or excerpt.passage.source or excerpt.passage.id}"
        f" [{excerpt.start}:{excerpt.end}] {excerpt.score:.2f}"
        for excerpt in context.excerpts[:SHOWN]
    ]
    more = len(context.excerpts) - SHOWN
    return ": " + "; ".join(named + [f"and {more} more"] * (more > 0)) if named else ""


def _short(value: object) -> str:
    if isinstance(value, str):
        line = " ".join(value.split())
        return line if len(line) <= 100 else f"{line[:99]}…"
    return reprlib.repr(value)
