"""Checks of the contracts of `fitrag_integrations.ports`; the folder can be copied and used alone.

Each function takes a factory that makes a fresh object and gives its checks, one callable each:

    @pytest.mark.parametrize("check", scorer_checks(MyScorer), ids=str)
    def test_my_scorer(check):
        check()

No test framework is needed to call them. A broken promise raises ``ContractError``, an
``AssertionError`` that says what was asked, what came and what is promised.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from fitrag_integrations.errors import FitRagError, InputError
from fitrag_integrations.flow import arun_many, run, run_many
from fitrag_integrations.ports import Evaluator, Gate, Method, Pair, Ports, Retriever, Scorer
from fitrag_integrations.types import BiLabelScore, Context, Excerpt, Passage

__all__ = [
    "Check",
    "ContractError",
    "compressor_checks",
    "evaluator_checks",
    "gate_checks",
    "method_checks",
    "retriever_checks",
    "scorer_checks",
]
QUESTIONS = (
    "Which river runs through Vienna?",
    "Who wrote the letters from the lighthouse?",
    "When was the bridge at Harrow Ford built?",
)
VIENNA = "Vienna lies on the Danube, which the city has kept from flooding since 1875."
BRIDGE = "The bridge at Harrow Ford was built in 1931. It carries one lane."
PASSAGES = (
    Passage("vienna", VIENNA),
    Passage("bridge", BRIDGE, "Harrow Ford"),
    Passage("weather", "It rained for most of the week."),
    Passage("letters", "Ida Morrow wrote the letters while she kept the lighthouse. " * 6),
)
ODD_QUESTIONS = (
    "?",
    "Was heißt „Fluß“ — 川は何ですか？ 👩‍👩‍👧 \u202enaib\u202c",
    "so anyway, we were talking about trains, " * 60 + "which river runs through Vienna?",
)
ODD_PASSAGES = (
    Passage("mark", "."),
    Passage("scripts", "Die Donau fließt durch Wien. 川です。 👩‍👩‍👧 \x00 \ud7ff \u202enaib\u202c"),
    Passage("long", "The river was cold that year and nobody crossed it. " * 100),
    Passage("word", "a" * 5_000),
    Passage("marks", "[CLS] [SEP] </s> <|im_start|> {{question}} %s"),
)
PAIRS: Sequence[Pair] = [(question, passage) for question in QUESTIONS for passage in PASSAGES]
ODD: Sequence[Pair] = [
    *((question, PASSAGES[0]) for question in ODD_QUESTIONS),
    *((QUESTIONS[0], passage) for passage in ODD_PASSAGES),
]
DRAFTED = [(q, draft) for q in QUESTIONS for draft in ("The Danube.", "I do not know.", "")]
THREADS = 8


class ContractError(AssertionError):
    """A promise of a port that an implementation does not keep."""


@dataclass(frozen=True)
class Check:
    """One promise of an interface, as a call without arguments.

    Args:
        name: Name of the promise, by which the check is shown.
        run: Tests it; raises ``ContractError`` if it is broken.
    """

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Try the promise; raises ``ContractError`` where it is broken."""
        self.run()

    def __str__(self) -> str:
        return self.name


def promise(kept: bool, message: str) -> None:
    """Raise ``ContractError`` with what was found, unless the promise is kept."""
    if not kept:
        raise ContractError(message)


@dataclass(frozen=True)
class Batched:
    """A batched call: n items in, n answers out, in order, whoever else calls.

    ``numbers`` turns an answer into the numbers compared, ``wrong`` returns what is wrong with one.
    """

    make: Callable[[], object]
    verb: str
    items: Sequence[Any]
    odd: Sequence[Any]
    numbers: Callable[[Any], Sequence[float]]
    wrong: Callable[[Any], str | None]
    tolerance: float

    def checks(self) -> list[Check]:
        """Return a check for each promise."""
        names = [name for name, made in vars(Batched).items() if inspect.isfunction(made)]
        promises = [name for name in names if not name.startswith("_") and name != "checks"]
        return [Check(name, partial(self._kept, name)) for name in promises]

    def _kept(self, name):
        getattr(self, name)(self.make())

    def _calls(self, backend):
        """Return the plain call and its async twin, each of one list; None is one there is not."""
        found = [getattr(backend, name, None) for name in (self.verb, f"a{self.verb}")]
        if self.verb != "p_known":
            return found
        return [call and (lambda items, call=call: call(*_columns(items))) for call in found]

    def _asked(self, backend, items):
        call, acall = self._calls(backend)
        if call is not None:
            return list(call(items))
        promise(acall is not None, f"{type(backend).__name__} has neither the call nor its twin")
        return list(asyncio.run(_awaited(acall, items)))

    def _near(self, one, other, message):
        promise(len(one) == len(other), f"{message}: {len(one)} answers against {len(other)}")
        for at, (mine, its) in enumerate(zip(one, other, strict=True)):
            pairs = zip(self.numbers(mine), self.numbers(its), strict=True)
            apart = max((abs(a - b) for a, b in pairs), default=0.0)
            promise(apart <= self.tolerance, f"{message}: answer {at} was {mine}, then {its}")

    def gives_one_valid_answer_each(self, backend):
        answers, many = self._asked(backend, self.items), len(self.items)
        promise(len(answers) == many, f"{many} items got {len(answers)} answers")
        for at, answer in enumerate(answers):
            wrong = self.wrong(answer)
            promise(wrong is None, f"answer {at} is {answer!r}: {wrong}")

    def keeps_the_order(self, backend):
        there = self._asked(backend, self.items)
        back = self._asked(backend, list(reversed(self.items)))
        self._near(there, back[::-1], "the same items in reverse")

    def answers_alone_as_in_a_batch(self, backend):
        together = self._asked(backend, self.items)
        alone = [self._asked(backend, [item])[0] for item in self.items]
        self._near(together, alone, "in a batch, then alone")

    def repeats_itself(self, backend):
        first, *rest = (self._asked(backend, self.items) for _ in range(3))
        for again in rest:
            self._near(first, again, "asked again (is dropout still on?)")

    def answers_equal_items_equally(self, backend):
        item = self.items[0]
        first, *_, last = self._asked(backend, [item, *self.items, item])
        self._near([first], [last], "one item twice in a batch")

    def takes_an_empty_batch(self, backend):
        promise(self._asked(backend, []) == [], "no items must get no answers")

    def changes_no_input(self, backend):
        given, kept = list(self.items), copy.deepcopy(list(self.items))
        self._asked(backend, given)
        promise(given == kept, "the list of items or an item of it was changed")

    def answers_odd_texts_or_refuses_them_by_name(self, backend):
        for item in self.odd:
            try:
                (answer,) = self._asked(backend, [item])
            except FitRagError:
                continue
            promise((wrong := self.wrong(answer)) is None, f"{str(item)[:60]!r} gave {wrong}")

    def answers_many_threads(self, backend):
        expected = self._asked(backend, self.items)
        with ThreadPoolExecutor(THREADS) as pool:
            for each in [pool.submit(self._asked, backend, self.items) for _ in range(THREADS)]:
                self._near(expected, each.result(), f"from one of {THREADS} threads")

    def answers_async_as_plain(self, backend):
        call, acall = self._calls(backend)
        if call is not None and acall is not None:
            found = list(asyncio.run(_awaited(acall, self.items)))
            self._near(self._asked(backend, self.items), found, "by the async twin")


def _columns(items):
    return [question for question, _ in items], [draft for _, draft in items]


async def _awaited(acall, items):
    return await acall(items)


def scorer_checks(make: Callable[[], Scorer], *, tolerance: float = 1e-3) -> list[Check]:
    """Return the checks of ``ports.Scorer``.

    Besides what holds for every batched call, a scorer carries a ``name`` that does not change:
    thresholds and detectors are held to it.

    Args:
        make: Builds a new one for each check.
        tolerance: Maximum difference between two results for the same item: float32 sums in
            another order stay below it, and a batch mate that leaks moves far more.
    """

    def labels(score):
        return [label for label in (score.has_answer, score.llm_prefer) if label is not None]

    def wrong(score):  # a BiLabelScore checks its own numbers
        return None if isinstance(score, BiLabelScore) else "not a BiLabelScore"

    return _named(make, Batched(make, "score", PAIRS, ODD, labels, wrong, tolerance))


def evaluator_checks(make: Callable[[], Evaluator], *, tolerance: float = 1e-3) -> list[Check]:
    """Return the checks of ``ports.Evaluator``: those of a scorer, for grades in [-1, 1].

    Args:
        make: Builds a new one for each check.
        tolerance: Maximum difference between two results for the same item.
    """

    def wrong(grade):
        if isinstance(grade, bool) or not isinstance(grade, int | float):
            return "not a number"
        return None if math.isfinite(grade) and -1 <= grade <= 1 else "not in [-1, 1]"

    return _named(make, Batched(make, "evaluate", PAIRS, ODD, lambda g: [g], wrong, tolerance))


def _named(make, batched):
    def carries_a_name():
        backend = make()
        name = getattr(backend, "name", None)
        promise(isinstance(name, str) and bool(name.strip()), f"its name is {name!r}: give a text")
        promise(name == getattr(backend, "name", None), "its name changes from look to look")

    return [*batched.checks(), Check("carries_a_name", carries_a_name)]


def gate_checks(make: Callable[[], Gate], *, tolerance: float = 1e-3) -> list[Check]:
    """Return the checks of ``ports.Gate``: p and the threshold are in [0, 1].

    Args:
        make: Builds a new one for each check.
        tolerance: Maximum difference between two results for the same item.
    """

    def wrong(p):
        return None if math.isfinite(p) and 0 <= p <= 1 else "not in [0, 1]"

    def has_a_threshold_in_range():
        threshold = getattr(make(), "threshold", None)
        kept = threshold is None or wrong(threshold) is None
        promise(kept, f"its threshold is {threshold}, and p lies in [0, 1]")

    odd = [(question, "") for question in ODD_QUESTIONS]
    batched = Batched(make, "p_known", DRAFTED, odd, lambda p: [p], wrong, tolerance)
    return [*batched.checks(), Check("has_a_threshold_in_range", has_a_threshold_in_range)]


def retriever_checks(
    make: Callable[[], Retriever], queries: Sequence[str] = QUESTIONS
) -> list[Check]:
    """Return the checks of ``ports.Retriever``.

    A query finds the same passages alone and in a batch and no passage twice, and changes to what
    was found are not seen by the next caller.

    Args:
        make: Builds a new retriever for each check.
        queries: Queries that must find something.
    """
    numbers: dict[str, float] = {}

    def numbered(found):
        return [numbers.setdefault(passage.id, float(len(numbers))) for passage in found]

    def wrong(found):
        if not all(isinstance(passage, Passage) for passage in found):
            return "not a list of Passage"
        ids = [passage.id for passage in found]
        return None if len(set(ids)) == len(ids) else "two passages of one id"

    def finds_something():
        found = any(map(len, make().retrieve(queries)))
        promise(found, f"nothing was found for {list(queries)}")

    def hands_out_what_nobody_else_changes():
        retriever = make()
        found = retriever.retrieve(queries)
        before = [list(each) for each in found]
        for each in found:
            if isinstance(each, list):
                each.clear()
        again = [list(each) for each in retriever.retrieve(queries)]
        promise(again == before, "a caller who empties its list empties that of the next one")

    both = (finds_something, hands_out_what_nobody_else_changes)
    batched = Batched(make, "retrieve", queries, ODD_QUESTIONS, numbered, wrong, 0.0)
    return [*batched.checks(), *(Check(each.__name__, each) for each in both)]


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
    return [Check(each.__name__, lambda each=each: each(make(), given)) for each in promises]


def _found(queries):
    return [list(PASSAGES) for _ in queries]


def _fails(items):
    raise ConnectionError("the service is away")


def ends_in_a_context(method, ports):
    for question in QUESTIONS:
        context = run(method(question, ports)).value
        promise(isinstance(context, Context), f"the flow ended in {type(context).__name__}")
        promise(context.question == question, f"{question!r} became {context.question!r}")
        promise(bool(context.prompt().strip()), "its prompt is blank")


def cites_what_was_found(method, ports):
    context = run(method(QUESTIONS[0], ports)).value
    if ports.retrieve.call is not _found:
        return
    known = {passage.id: passage.text for passage in PASSAGES}
    for excerpt in context.excerpts:
        text = known.get(excerpt.passage.id, excerpt.text)  # else it was written, not found
        promise(excerpt.text in text, f"{excerpt} is no stretch of the passage it names")


def refuses_a_blank_question(method, ports):
    for blank in ("", " \n"):
        error = run(method(blank, ports)).error
        promise(isinstance(error, InputError), f"a blank question gave {error!r}: raise InputError")


def answers_alike_from_every_driver(method, ports):
    alone = [run(method(question, ports)).value for question in QUESTIONS]
    together = [each.value for each in run_many(method(q, ports) for q in QUESTIONS)]
    promise(alone == together, "a question alone and among others ends in other contexts")
    awaited = asyncio.run(arun_many([method(question, ports) for question in QUESTIONS]))
    promise(alone == [each.value for each in awaited], "async ends in other contexts")


def survives_its_record(method, ports):
    context = run(method(QUESTIONS[0], ports)).value
    promise(Context.from_dict(context.to_dict()) == context, "its record reads back as another one")


def tells_when_a_port_fails(method, ports):
    ended = run(method(QUESTIONS[0], Ports(retrieve=_fails, search=_fails, generate=_fails)))
    asked = any(step.port in ("retrieve", "search", "generate") for step in ended.steps)
    reported = ended.error is not None or bool(ended.value.notes)
    promise(reported or not asked, "a port failed, and neither an error nor a note says so")


def compressor_checks(
    make: Callable[[], Callable[[str, Sequence[Passage]], Sequence[Excerpt]]],
) -> list[Check]:
    """Return the checks of a call ``(question, passages) -> excerpts``, which ``make`` builds.

    Every excerpt is a stretch of a passage that was given, none overlap, none is blank, all of them
    are no longer than what was given; the passages stay as they were.
    """
    promises = [keeps_only_what_was_given, sends_no_word_twice, takes_nothing, takes_odd_texts]
    promises += [changes_no_passage, repeats_itself]
    return [Check(each.__name__, lambda each=each: each(make())) for each in promises]


def keeps_only_what_was_given(compress):
    sources = {passage.id: passage.text for passage in PASSAGES}
    for excerpt in (one for question in QUESTIONS for one in compress(question, PASSAGES)):
        promise(excerpt.passage.id in sources, f"nobody gave {excerpt}")
        body = sources[excerpt.passage.id][excerpt.start : excerpt.end]
        promise(body == excerpt.body, f"{excerpt} is not there")
        promise(bool(excerpt.body.strip()), "an excerpt is blank")


def sends_no_word_twice(compress):
    for question in QUESTIONS:
        kept = sorted((e.passage.id, e.start, e.end) for e in compress(question, PASSAGES))
        for (one, _, end), (other, start, _) in zip(kept, kept[1:], strict=False):
            promise(one != other or end <= start, f"two excerpts of {one!r} overlap at {start}")


def takes_nothing(compress):
    promise(list(compress(QUESTIONS[0], [])) == [], "no passages must give no excerpts")


def takes_odd_texts(compress):
    for passage in ODD_PASSAGES:
        for excerpt in compress(QUESTIONS[0], [passage]):
            there = excerpt.body in passage.text
            promise(there, f"{passage.id}: {excerpt.body[:60]!r} is not there")


def changes_no_passage(compress):
    given = copy.deepcopy(list(PASSAGES))
    compress(QUESTIONS[0], given)
    promise(given == list(PASSAGES), "the passages given were changed")


def repeats_itself(compress):
    kept = (
        [(e.passage.id, e.start, e.end) for e in compress(QUESTIONS[0], PASSAGES)] for _ in "ab"
    )
    first, again = kept
    promise(first == again, f"the same question kept {first}, then {again}")
