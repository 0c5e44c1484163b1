"""Every baseline over 32 questions: the fewest calls, and one bad reply that hurts nobody else."""

import asyncio

import pytest
from baseline_fakes import QUESTIONS, RUNAWAY, World
from gate_fakes import LengthGate

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.flow import arun_many, run, run_many
from fitrag_integrations.methods import baselines
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.tokens import approximate_tokens

CALLS = {  # a method over a world, and how often each port is called for 32 questions
    "vanilla": (lambda w: baselines.Vanilla(), {"generate": 1}),
    "cot": (lambda w: baselines.CoT(), {"generate": 1}),
    "direct": (lambda w: baselines.Direct(), {"retrieve": 1}),
    "genread": (lambda w: baselines.GenRead(), {"generate": 2}),
    "refeed": (lambda w: baselines.Refeed(), {"generate": 2, "retrieve": 1}),
    "iterretgen": (lambda w: baselines.IterRetgen(), {"generate": 2, "retrieve": 2}),
    "selfask": (lambda w: baselines.SelfAsk(), {"generate": 3, "retrieve": 1}),
    "selfeval": (lambda w: baselines.SelfEval(), {"generate": 1, "retrieve": 1}),
    "skrknn": (lambda w: baselines.SkrKnn(w), {"neighbours": 1, "retrieve": 1}),
    "targ": (lambda w: baselines.Targ(w), {"draft": 1, "retrieve": 1}),
    "gated": (lambda w: baselines.Gated(LengthGate(draft_tokens=0)), {"retrieve": 1}),
    "flare": (lambda w: baselines.Flare(w), {"continue": 2, "retrieve": 1}),
    "selfrag": (lambda w: baselines.SelfRag(w), {"reflect": 2, "retrieve": 1}),
    "replug": (lambda w: baselines.Replug(w), {"ensemble": 1, "retrieve": 1}),
}
ANSWERING = set(CALLS) - {"direct", "selfeval", "skrknn", "targ", "gated"}
ASKING = [name for name in CALLS if name not in ("direct", "skrknn", "gated")]
BAD = {
    "blank": "",
    "runaway": RUNAWAY,
    "another form": "Well, who can say.",
    "raises": PortError("connection refused"),
}


def all_of(name, bad=None):
    world = World(bad)
    method = CALLS[name][0](world)
    return world, run_many([method(question, world.ports) for question in QUESTIONS])


@pytest.mark.parametrize("name", CALLS)
def test_32_questions_are_the_fewest_calls_and_waiting_gives_the_same(name):
    world, traces = all_of(name)
    assert world.calls == CALLS[name][1]
    method = CALLS[name][0](world)
    waited = asyncio.run(arun_many([method(q, world.ports) for q in QUESTIONS]))
    assert [trace.value for trace in waited] == [trace.value for trace in traces]
    for n, trace in enumerate(traces):
        assert trace.value.method == name
        assert trace.value.notes == () or name == "replug", "there is no retrieval score there"
        assert bool(trace.value.details.get("answers")) == (name in ANSWERING)
        if name in ANSWERING:
            assert trace.value.draft == str(n)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", ASKING)
def test_one_bad_reply_degrades_its_question_alone(name, bad):
    _, good = all_of(name)
    _, traces = all_of(name, BAD[bad])
    for n, (trace, other) in enumerate(zip(traces, good, strict=True)):
        if n != 13:
            assert trace.value == other.value
    context = traces[13].value
    if name != "targ" or bad in ("blank", "raises"):  # which looks at how sure, not at what
        assert context != good[13].value
    why = context.decision.why if context.decision else ""
    if bad in ("blank", "raises"):
        assert not context.details.get("answers")
        assert context.draft is None or name == "targ"
        # who writes nothing knows nothing: targ then decides so
        assert context.notes or "retrieving" in why or "draft's tokens: 0.000" in why
    if bad == "raises":
        assert "connection refused" in " ".join((*context.notes, why))
    if context.draft:
        assert approximate_tokens(context.draft) <= 256 or name == "targ"
    if bad == "runaway" and name in ANSWERING:
        message = "the model repeated itself" if name == "flare" else "was cut to 256 tokens"
        assert any(message in note for note in context.notes)


@pytest.mark.parametrize("name", sorted(ANSWERING))
def test_with_raise_the_error_is_the_questions_own(name):
    world = World(BAD["raises"])
    kind = type(CALLS[name][0](world))
    takes_model = name in ("flare", "selfrag", "replug")
    method = kind(world, on_error="raise") if takes_model else kind(on_error="raise")
    traces = run_many([method(question, world.ports) for question in QUESTIONS])
    failed = [n for n, trace in enumerate(traces) if isinstance(trace.outcome, Exception)]
    assert failed == [13]


@pytest.mark.parametrize("name", CALLS)
def test_a_blank_question_and_a_missing_port_are_told(name):
    make, calls = CALLS[name]
    world = World()
    assert isinstance(run(make(world)(" ", world.ports)).outcome, InputError)
    for port, ports in {"retrieve": Ports(generate=world), "generate": Ports(world)}.items():
        if port in calls:
            outcome = run(make(world)(QUESTIONS[2], ports)).outcome
            assert isinstance(outcome, PortError) and f"Ports({port}=...)" in str(outcome)


@pytest.mark.parametrize("name", CALLS)
def test_any_of_them_can_be_answered_from(name):
    world = World()
    answered = run(Answering(CALLS[name][0](world))(QUESTIONS[6], world.ports)).value
    assert answered.text == "6"


@pytest.mark.parametrize("name", [name for name in CALLS if name != "direct"])
def test_a_wrong_number_is_told_at_construction(name):
    made = CALLS[name][0](World())
    fields = {"answer_tokens": 0, "k": 0, "rounds": 0, "threshold": 2.0, "on_error": "skip"}
    own = {field: value for field, value in fields.items() if hasattr(made, field)}
    assert own
    model = next(
        (getattr(made, f) for f in ("model", "bank", "drafter", "gate") if hasattr(made, f)), None
    )
    given = () if model is None else (model,)
    for field, value in own.items():
        with pytest.raises(InputError, match=f"{field}` must be"):
            type(made)(*given, **{field: value})
