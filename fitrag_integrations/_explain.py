"""Tell a trace to a reader: one line per step, then what was decided, kept and degraded.

A flow may end in a value of any type. One that has a ``question`` and a method ``told`` tells its
part of the story itself, with the helpers of this module.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from fitrag_integrations._prompting import is_web
from fitrag_integrations.types import BiLabelScore, Context, Excerpt

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


@runtime_checkable
class Telling(Protocol):
    """A value that tells, line by line, what it holds."""

    @property
    def question(self) -> str: ...
    def told(self) -> Iterable[str]: ...


def explain(steps: Sequence[StepLike], outcome: object) -> str:
    """Write the question, the steps and the outcome, a line each."""
    head = []
    if isinstance(outcome, Context | Telling):
        head = [f"question: {shortened(outcome.question)}"]
    asked = [_step_line(number, step) for number, step in enumerate(steps, start=1)]
    return "\n".join([*head, *asked, *_outcome_lines(outcome)])


def _step_line(number: int, step: StepLike) -> str:
    tokens = "" if step.tokens is None else f", {step.tokens} tokens"
    asked = f"{len(step.items)} asked, {1000 * step.seconds:.1f} ms{tokens}"
    back = f"failed, {shortened(step.error)}" if step.error else _brief(step.answers)
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
    return shortened(answers[0]) if len(answers) == 1 else f"{len(answers)} answers"


def _outcome_lines(outcome: object) -> Iterator[str]:
    if isinstance(outcome, Exception):
        yield f"failed: {type(outcome).__name__}: {outcome}"
        return
    if isinstance(outcome, Context):
        yield from [*decided(outcome), *noted(outcome)]
    elif isinstance(outcome, Telling):
        yield from outcome.told()
    else:
        yield f"value: {shortened(outcome)}"


def decided(context: Context) -> Iterator[str]:
    """Tell what a method decided and what it kept."""
    if context.decision is not None:
        yield f"decision: {_decision(context)}"
    if context.action is not None:
        yield f"action: {context.action}{_graded(context)}"
    if context.queries:
        yield f"queries: {shortened('; '.join(context.queries))}"
    yield f"kept {len(context.excerpts)} excerpts{_kept(context)}"


def noted(context: Context) -> Iterator[str]:
    """Tell what was degraded or left out."""
    return (f"note: {note}" for note in context.notes)


def place(excerpt: Excerpt) -> str:
    """Name an excerpt by its source, its offsets and its score."""
    name = excerpt.passage.title or excerpt.passage.source or excerpt.passage.id
    web = "web: " if is_web(excerpt.passage) else ""
    return f"{web}{name} [{excerpt.start}:{excerpt.end}] {excerpt.score:.2f}"


def shortened(value: object) -> str:
    """Give a value in one line of at most a hundred characters."""
    if isinstance(value, str):
        line = " ".join(value.split())
        return line if len(line) <= 100 else f"{line[:99]}…"
    return reprlib.repr(value)


def _decision(context: Context) -> str:
    decision = context.decision
    assert decision is not None
    verdict = "retrieve" if decision.retrieve else "do not retrieve"
    known = "" if decision.p_known is None else f", p_known {decision.p_known:.2f}"
    threshold = "" if decision.threshold is None else f", threshold {decision.threshold:.2f}"
    return f"{verdict}{known}{threshold}" + (f": {decision.why}" if decision.why else "")


def _graded(context: Context) -> str:
    """Say what an action was decided by, where the details tell."""
    grades, thresholds = context.details.get("grades"), context.details.get("thresholds")
    if not grades or not isinstance(thresholds, Mapping):
        return ""
    upper, lower = thresholds.get("upper", 0.0), thresholds.get("lower", 0.0)
    return f", best grade {max(grades):.2f}, thresholds {upper:.2f} and {lower:.2f}"


def _kept(context: Context) -> str:
    named = list(map(place, context.excerpts[:SHOWN]))
    more = len(context.excerpts) - SHOWN
    return ": " + "; ".join(named + [f"and {more} more"] * (more > 0)) if named else ""
