"""The contract of ``Method``: a question and ports in, a flow that ends in a context out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import arun_many, run, run_many
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.testing.batches import PASSAGES, QUESTIONS, Check, promise, tried
from fitrag_integrations.types import Context, Passage


def method_checks(make: Callable[[], Method], ports: Ports | None = None) -> list[Check]:
    """Return the checks of ``ports.Method``.

    Args:
        make: Builds a new method for each check.
        ports: What the method is run with; None is a retrieval and a search that find the same four
            passages for every query, and a language model that continues with "The Danube.".
    """
    given = ports or Ports(_found, _found, lambda prompts: ["The Danube."] * len(prompts))
    promises = [ends_in_a_context, cites_what_was_found, refuses_a_blank_question]
    promises += [answers_alike_from_every_driver, survives_its_record, tells_when_a_port_fails]
    return [Check(each.__name__, partial(tried, each, make, given)) for each in promises]


def _found(queries: Sequence[str]) -> list[list[Passage]]:
    return [list(PASSAGES) for _ in queries]


def _fails(items: Sequence[str]) -> list[str]:
    raise ConnectionError("the service is away")


def ends_in_a_context(method: Method, ports: Ports) -> None:
    for question in QUESTIONS:
        context = run(method(question, ports)).value
        promise(isinstance(context, Context), f"the flow ended in {type(context).__name__}")
        promise(context.question == question, f"{question!r} became {context.question!r}")
        promise(bool(context.prompt().strip()), "its prompt is blank")


def cites_what_was_found(method: Method, ports: Ports) -> None:
    context = run(method(QUESTIONS[0], ports)).value
    if ports.retrieve.call is not _found:
        return
    known = {passage.id: passage.text for passage in PASSAGES}
    for excerpt in context.excerpts:
        text = known.get(excerpt.passage.id, excerpt.text)  # else it was written, not found
        promise(excerpt.text in text, f"{excerpt} is no stretch of the passage it names")


def refuses_a_blank_question(method: Method, ports: Ports) -> None:
    for blank in ("", " \n"):
        error = run(method(blank, ports)).error
        promise(isinstance(error, InputError), f"a blank question gave {error!r}: raise InputError")


def answers_alike_from_every_driver(method: Method, ports: Ports) -> None:
    alone = [run(method(question, ports)).value for question in QUESTIONS]
    together = [each.value for each in run_many(method(q, ports) for q in QUESTIONS)]
    promise(alone == together, "a question alone and among others ends in other contexts")
    awaited = asyncio.run(arun_many([method(question, ports) for question in QUESTIONS]))
    promise(alone == [each.value for each in awaited], "async ends in other contexts")


def survives_its_record(method: Method, ports: Ports) -> None:
    context = run(method(QUESTIONS[0], ports)).value
    promise(Context.from_dict(context.to_dict()) == context, "its record reads back as another one")


def tells_when_a_port_fails(method: Method, ports: Ports) -> None:
    ended = run(method(QUESTIONS[0], Ports(retrieve=_fails, search=_fails, generate=_fails)))
    asked = any(step.port in ("retrieve", "search", "generate") for step in ended.steps)
    reported = ended.error is not None or bool(ended.value.notes)
    promise(reported or not asked, "a port failed, and neither an error nor a note says so")
