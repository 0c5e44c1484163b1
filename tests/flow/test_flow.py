"""The drivers: who is asked what, who hears of an error, and what is left behind."""

import asyncio
import json
import pickle
import threading
import time
from contextvars import ContextVar

import pytest

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import Ask, Port, Step, Traced, arun, arun_many, run, run_many
from fitrag_integrations.types import BiLabelScore, Context, Excerpt, Passage, RetrievalDecision


class Doubler:
    """A backend that remembers its calls, and fails on any call with a negative item."""

    def __init__(self):
        self.calls = []

    def double(self, items):
        self.calls.append(list(items))
        if any(item < 0 for item in items):
            raise ValueError(f"negative: {min(items)}")
        return [2 * item for item in items]

    async def adouble(self, items):
        await asyncio.sleep(0)
        return self.double(items)

    @property
    def port(self):
        return Port.of("double", self.double, self.adouble)


def twice(port, *items):
    """Double the items, then their sum."""
    first = yield from port.ask(items)
    (second,) = yield from port.ask([sum(first)])
    return second


def run_both(make_flows):
    """Run the same flows sync and async; give the traces of both."""
    return run_many(make_flows()), asyncio.run(arun_many(make_flows()))


def test_a_flow_can_be_driven_by_hand():
    port = Doubler().port
    flow = twice(port, 1, 2)
    assert flow.send(None) == Ask(port, (1, 2))
    assert flow.send([2, 4]) == Ask(port, [6])
    with pytest.raises(StopIteration) as done:
        flow.send([12])
    assert done.value.value == 12


def test_flows_in_lock_step_share_calls():
    backend = Doubler()
    traces = run_many([twice(backend.port, 1, 2), twice(backend.port, 3)])
    assert [trace.value for trace in traces] == [12, 12]
    assert backend.calls == [[1, 2, 3], [6, 6]]
    assert traces[0].steps[0].items == (1, 2)
    assert traces[1].steps[0].answers == (6,)


def test_sync_and_async_agree():
    backend = Doubler()
    blocking, waiting = run_both(lambda: [twice(backend.port, n) for n in range(3)])
    assert [trace.value for trace in blocking] == [trace.value for trace in waiting] == [0, 4, 8]
    assert asyncio.run(arun(twice(backend.port, 5))).value == run(twice(backend.port, 5)).value


def test_only_the_guilty_flow_hears_of_a_failed_joined_call():
    backend = Doubler()
    for traces in run_both(lambda: [twice(backend.port, n) for n in (1, -1, 2)]):
        assert [trace.error is None for trace in traces] == [True, False, True]
        assert [traces[0].value, traces[2].value] == [4, 8]
        assert traces[1].steps[0].error == "ValueError: negative: -1"
        assert traces[1].steps[0].answers == ()
        with pytest.raises(ValueError, match="negative"):
            _ = traces[1].value
    assert backend.calls[:4] == [[1, -1, 2], [1], [-1], [2]]
    alone = Doubler()
    assert isinstance(run(twice(alone.port, -1)).error, ValueError)
    assert alone.calls == [[-1]], "a call that nobody shares is not repeated"


def test_a_flow_may_recover_from_a_failed_port():
    port = Doubler().port

    def flow():
        try:
            return (yield from port.ask([-1]))
        except ValueError:
            return (yield from port.ask([1]))

    trace = run(flow())
    assert trace.value == [2]
    assert [step.error is None for step in trace.steps] == [False, True]


def test_an_answer_that_is_an_exception_reaches_its_own_flow_alone():
    port = Port.of("check", lambda items: [KeyError(i) if i == 2 else i for i in items])
    traces = run_many([port.ask([1]), port.ask([2, 1]), port.ask([3])])
    assert [trace.outcome for trace in traces[::2]] == [[1], [3]]
    assert isinstance(traces[1].error, KeyError)
    assert traces[1].steps[0].error == "KeyError: 2"
    assert len(traces[1].steps[0].answers) == 2


@pytest.mark.parametrize("answers", [[1], 7])
def test_a_port_that_breaks_its_promise_is_told(answers):
    trace = run(Port.of("short", lambda items: answers).ask([1, 2]))
    with pytest.raises(PortError, match="port 'short' g"):
        _ = trace.value


@pytest.mark.parametrize(
    ("fail", "error"), [(lambda: 1 / 0, ZeroDivisionError), (lambda: next(iter(())), RuntimeError)]
)
def test_a_flow_that_fails_leaves_the_others_running(fail, error):
    def broken():
        yield from Doubler().port.ask([1])
        fail()

    for traces in run_both(lambda: [broken(), twice(Doubler().port, 1)]):
        assert isinstance(traces[0].error, error)
        assert traces[1].value == 4
        assert len(traces[0].steps) == 1


def test_flows_that_end_at_once_or_not_at_all_given():
    assert run_many([]) == []
    assert run(Doubler().port.ask([])) == Traced([], ())


def test_different_ports_do_not_join():
    calls = []
    ports = [Port.of("p", lambda items, n=n: calls.append(n) or items) for n in (1, 2)]
    run_many([port.ask([0]) for port in ports])
    assert calls == [1, 2]
    assert ports[0] != ports[1]


def test_a_callable_that_cannot_be_hashed_still_makes_a_port():
    class Backend(list):
        def __call__(self, items):
            return items

    backend = Backend()
    traces = run_many([Port.of("p", backend).ask([n]) for n in (1, 2)])
    assert [trace.value for trace in traces] == [[1], [2]]


def test_an_async_only_port_says_so_in_a_sync_run():
    async def answer(items):
        return items

    port = Port.of("search", answer)
    assert port.call is None
    with pytest.raises(PortError, match="port 'search' has only an async call: use arun"):
        _ = run(port.ask([1])).value
    assert asyncio.run(arun(port.ask([1]))).value == [1]


@pytest.mark.parametrize("who", ["a sync-only port", "a flow's own work"])
def test_what_takes_its_time_does_not_hold_the_loop(who):
    loop_goes_on = threading.Event()

    def flow():
        own = who == "a flow's own work"
        assert not own or loop_goes_on.wait(10)
        (found,) = yield from Port.of("slow", lambda items: [own or loop_goes_on.wait(10)]).ask([1])
        return found

    async def main():
        task = asyncio.create_task(arun_many([flow(), flow()]))
        await asyncio.sleep(0)
        loop_goes_on.set()  # which nobody does while the loop is held
        return await task

    assert [trace.value for trace in asyncio.run(main())] == [True, True]


def test_cancelling_does_not_wait_for_a_flows_own_work_and_still_closes_it():
    begun, go, closed = threading.Event(), threading.Event(), []

    def waiting():
        try:
            yield from Doubler().port.ask([1])
        finally:
            closed.append("waiting")

    def working():
        try:
            begun.set()
            assert go.wait(10)
            yield from Doubler().port.ask([1])
        finally:
            closed.append("working")

    async def main():
        task = asyncio.create_task(arun_many([waiting(), working()]))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left = list(closed)
        go.set()
        return left

    assert asyncio.run(main()) == []  # the one lock step of both is at work
    assert sorted(closed) == ["waiting", "working"]


def test_context_variables_are_the_callers_and_last_for_the_whole_flow():
    user, depth = ContextVar("user"), ContextVar("depth", default=0)
    seen = []

    async def look(items):
        seen.append((user.get(), depth.get()))
        return items

    port = Port.of("look", look)

    def flow():
        token = depth.set(1)
        yield from port.ask([1])
        seen.append((user.get(), depth.get()))
        depth.reset(token)
        yield from port.ask([2])

    async def main():
        user.set("ada")
        trace = await arun(flow())
        return trace.value, depth.get()

    assert asyncio.run(main()) == (None, 0)
    assert seen == [("ada", 1), ("ada", 1), ("ada", 0)]


def test_cancelling_cancels_the_calls_and_closes_the_flows():
    seen = []

    async def forever(items):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("call cancelled")
            raise

    def flow():
        try:
            yield from Port.of("wait", forever).ask([1])
        finally:
            seen.append("flow closed")

    async def main():
        async with asyncio.timeout(0.05):
            await arun_many([flow(), flow()])

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert sorted(seen) == ["call cancelled", "flow closed", "flow closed"]


def test_a_port_that_cancels_itself_fails_its_own_flow():
    async def give_up(items):
        raise asyncio.CancelledError

    async def main():
        return await arun_many([Port.of("quit", give_up).ask([1]), Doubler().port.ask([1])])

    quitter, other = asyncio.run(main())
    assert isinstance(quitter.error, PortError)
    assert other.value == [2]


def test_an_interrupt_closes_every_flow():
    closed = []

    def interrupted(items):
        raise KeyboardInterrupt

    def flow(n):
        try:
            yield from Port.of("p", interrupted).ask([n])
        finally:
            closed.append(n)

    with pytest.raises(KeyboardInterrupt):
        run_many([flow(1), flow(2)])
    assert sorted(closed) == [1, 2]


def test_seconds_of_a_joined_call_are_shared_by_items():
    def slow(items):
        time.sleep(0.04)
        return items

    port = Port.of("slow", slow)
    one, three = run_many([port.ask([1]), port.ask([1, 2, 3])])
    assert three.steps[0].seconds == pytest.approx(3 * one.steps[0].seconds)
    assert one.seconds + three.seconds >= 0.039


def test_tokens_are_counted_per_flow():
    def count(prompts, texts):
        return sum(len(text.split()) for text in [*prompts, *texts])

    port = Port("generate", lambda prompts: ["b c"] * len(prompts), tokens=count)
    traces = run_many([port.ask(["a"]), port.ask(["a", "b"])])
    assert [trace.steps[0].tokens for trace in traces] == [3, 6]


def test_an_observer_sees_each_step():
    seen, threads, port = [], set(), Doubler().port

    def observe(at, step):
        seen.append((at, step.count, step.answers))
        threads.add(threading.get_ident())

    run_many([twice(port, 1), twice(port, 2)], on_step=observe)
    assert seen == [(0, 1, (2,)), (1, 1, (4,)), (0, 1, (4,)), (1, 1, (8,))]
    threads.clear()
    asyncio.run(arun_many([twice(port, 1), twice(port, 2)], on_step=observe))
    assert len(seen) == 8 and threading.get_ident() not in threads, "the loop is not held up"


@pytest.mark.parametrize("wrong", ["question", None, lambda: None])
def test_what_is_no_flow_is_refused(wrong):
    with pytest.raises(InputError, match=r"flows\[0\]` must be a flow"):
        run(wrong)


def test_a_flow_that_yields_something_else_is_told():
    def flow():
        yield 7

    assert isinstance(run(flow()).error, InputError)


def test_a_trace_survives_pickle_and_json():
    trace = run(twice(Doubler().port, 1))
    assert pickle.loads(pickle.dumps(trace)) == trace
    row = json.loads(json.dumps(trace.to_dict(full=True)))
    assert row["value"] == 4
    assert row["steps"][0]["items"] == [1] and row["steps"][0]["count"] == 1
    assert "items" not in trace.to_dict()["steps"][0]
    failed = Traced(ValueError("no luck"), ())
    assert failed.to_dict()["error"] == {"error": "ValueError", "message": "no luck"}


def test_explain_tells_steps_decision_excerpts_and_notes():
    passage = Passage("p", "Nino Rota wrote it.", "Amarcord")
    steps = (
        Step("retrieve", ("q",), ([passage, passage],), 0.002),
        Step("score", (1, 2), (BiLabelScore(0.9, 0.8), BiLabelScore(0.1, 0.1)), 0.01, tokens=40),
        Step("search", ("q",), (), 0.5, error="OSError: down"),
    )
    decision = RetrievalDecision(True, 0.25, 0.5, "not sure")
    context = Context(
        "Who wrote it?", (Excerpt(passage, 0, 9, 0.85),), decision=decision, notes=("no web",)
    )
    assert Traced(context, steps).explain().splitlines() == [
        "question: Who wrote it?",
        "decision: retrieve, p_known 0.25, threshold 0.50: not sure",
        "kept 1 excerpts",
        "  Amarcord [0:9] 0.85: Nino Rota",
        "note: no web",
        "1. retrieve: 1 asked, 2.0 ms -> 2 found",
        "2. score: 2 asked, 10.0 ms, 40 tokens -> from 0.10 to 0.85",
        "3. search: 1 asked, 500.0 ms -> failed, OSError: down",
    ]


def test_a_value_may_tell_its_own_story():
    class Found:
        question = "Who wrote it?"

        def trace_lines(self):
            return ["found: Nino Rota"]

    told = Traced(Found(), (Step("search", ("q",), (), 0.002),)).explain()
    assert told.splitlines() == [
        "question: Who wrote it?",
        "found: Nino Rota",
        "1. search: 1 asked, 2.0 ms -> nothing",
    ]
    assert Traced({"a": 1}).explain() == "value: {'a': 1}"
