"""The contracts of methods, which end in a context, and of compressors, which end in excerpts."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from contracts.batches import (
    ODD_PASSAGES,
    PASSAGES,
    QUESTIONS,
    Check,
    promise,
    tried,
)
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import arun_many, run, run_many
from fitrag_integrations.ports import Method, Ports
from fitrag_integrations.types import Context, Excerpt, Passage


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


Compress: TypeAlias = Callable[[str, Sequence[Passage]], Sequence[Excerpt]]


def compressor_checks(make: Callable[[], Compress]) -> list[Check]:
    """Return the checks of a call ``(question, passages) -> excerpts``, which ``make`` builds.

    Every excerpt is a stretch of a passage that was given, none overlap, none is blank, all of them
    are no longer than what was given; the passages stay as they were.
    """
    promises = [keeps_only_what_was_given, sends_no_word_twice, takes_nothing, takes_odd_texts]
    promises += [changes_no_passage, repeats_itself]
    return [Check(each.__name__, partial(tried, each, make)) for each in promises]


def keeps_only_what_was_given(compress: Compress) -> None:
    for question in QUESTIONS:
        for excerpt in compress(question, PASSAGES):
            promise(excerpt.passage.id in {p.id for p in PASSAGES}, f"nobody gave {excerpt}")
            source = next(p for p in PASSAGES if p.id == excerpt.passage.id)
            promise(
                source.text[excerpt.start : excerpt.end] == excerpt.body, f"{excerpt} is not there"
            )
            promise(bool(excerpt.body.strip()), "an excerpt is blank")


def sends_no_word_twice(compress: Compress) -> None:
    for question in QUESTIONS:
        kept = sorted((e.passage.id, e.start, e.end) for e in compress(question, PASSAGES))
        for (one, _, end), (other, start, _) in zip(kept, kept[1:], strict=False):
            promise(one != other or end <= start, f"two excerpts of {one!r} overlap at {start}")


def takes_nothing(compress: Compress) -> None:
    promise(list(compress(QUESTIONS[0], [])) == [], "no passages must give no excerpts")


def takes_odd_texts(compress: Compress) -> None:
    for passage in ODD_PASSAGES:
        for excerpt in compress(QUESTIONS[0], [passage]):
            promise(
                excerpt.body in passage.text, f"{passage.id}: {excerpt.body[:60]!r} is not there"
            )


def changes_no_passage(compress: Compress) -> None:
    given = copy.deepcopy(list(PASSAGES))
    compress(QUESTIONS[0], given)
    promise(given == list(PASSAGES), "the passages given were changed")


def repeats_itself(compress: Compress) -> None:
    first, again = (
        [(one.passage.id, one.start, one.end) for one in compress(QUESTIONS[0], PASSAGES)]
        for _ in range(2)
    )
    promise(first == again, f"the same question kept {first}, then {again}")
