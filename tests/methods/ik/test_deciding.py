"""The flow every gate is asked by, driven by hand, in lock step, and failing."""

import asyncio
import threading

import pytest
from by_hand import finished
from gate_fakes import QUESTIONS, AsyncGate, DigitDrafter, LengthGate

from fitrag_integrations.errors import InputError, PortError, ThresholdMismatchError
from fitrag_integrations.flow import Port, arun, arun_many, run, run_many
from fitrag_integrations.methods import Decided, Decider, FitRag, IKnow
from fitrag_integrations.methods.ik.decider import decide_by
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Draft, Passage, RetrievalDecision
from fitrag_integrations.values.thresholds import FittedThreshold

QUESTION = "How old is bridge 7?"


class Broken(LengthGate):
    def __init__(self, error):
        super().__init__(draft_tokens=0)
        self.error = error

    def p_known(self, questions, drafts):
        raise self.error


class Saying(LengthGate):
    """Give fixed answers, whatever is asked."""

    def __init__(self, answers):
        super().__init__(draft_tokens=0)
        self.answers = answers

    def p_known(self, questions, drafts):
        return self.answers


def test_the_flow_by_hand():
    flow = Decider(LengthGate(), drafter=DigitDrafter())(QUESTION)
    ask = flow.send(None)
    assert (ask.port.name, list(ask.items)) == ("draft", [QUESTION])
    ask = flow.send([Draft("about ninety")])
    assert (ask.port.name, list(ask.items)) == ("gate", [(QUESTION, "about ninety")])
    decided = finished(flow, [0.75])
    decision = RetrievalDecision(False, 0.75, 0.5, "the model seems to know it")
    assert decided == Decided(decision, "about ninety")
    assert Decided.from_dict(decided.to_dict()) == decided


@pytest.mark.parametrize(
    ("own", "given", "p", "retrieve"),
    [
        (None, None, 0.5, True),  # at the threshold is not above it
        (None, None, 0.51, False),
        (0.7, None, 0.7, True),
        (0.7, 0.2, 0.3, False),
        (0.7, 0.0, 0.1, False),  # a threshold of 0 is one
        (0.0, None, 0.1, False),
    ],
)
def test_known_is_above_the_threshold(own, given, p, retrieve):
    gate = Saying([p])
    gate.threshold = own
    decision = run(Decider(gate, threshold=given)(QUESTION)).value.decision
    limit = own if given is None else given
    assert (decision.retrieve, decision.p_known) == (retrieve, p)
    assert decision.threshold == (0.5 if limit is None else limit)


def test_32_questions_make_one_draft_batch_and_one_gate_batch():
    gate, drafter = LengthGate(), DigitDrafter()
    decider = Decider(gate, drafter=drafter)
    run_many([decider(question) for question in QUESTIONS])
    assert [len(batch) for batch in drafter.drafted] == [32]
    assert [len(batch) for batch in gate.batches] == [32]
    run_many([Decider(gate, drafter=drafter)(question) for question in QUESTIONS])
    assert [len(batch) for batch in gate.batches] == [32, 32]  # equal deciders join as well


def test_sync_async_and_batches_decide_alike_with_equal_traces():
    def explained(traces):
        return [
            (trace.value, [(step.port, step.items, step.answers) for step in trace.steps])
            for trace in traces
        ]

    def decider():
        return Decider(AsyncGate(), drafter=DigitDrafter())

    async def one_by_one():
        return [await arun(decider()(question)) for question in QUESTIONS]

    async def together():
        gate = AsyncGate()
        asking = Decider(gate, drafter=DigitDrafter())
        traces = await arun_many([asking(question) for question in QUESTIONS])
        assert gate.threads == [threading.get_ident()] and len(gate.batches) == 1
        return traces

    expected = explained([run(decider()(question)) for question in QUESTIONS])
    both = decider()
    assert explained(run_many([both(question) for question in QUESTIONS])) == expected
    assert explained(asyncio.run(one_by_one())) == expected
    assert explained(asyncio.run(together())) == expected
    assert {value.decision.retrieve for value, _ in expected} == {True, False}


def test_a_draft_is_written_for_a_gate_that_wants_one_or_does_not_say():
    drafter = DigitDrafter()
    trace = run(Decider(LengthGate(draft_tokens=0), drafter=drafter)(QUESTION))
    assert [step.port for step in trace.steps] == ["gate"]
    assert (drafter.drafted, trace.value.draft) == ([], None)
    gate = LengthGate()
    del gate.draft_tokens, gate.drafter, gate.threshold, gate.fitted
    assert run(Decider(gate, drafter=DigitDrafter())(QUESTION)).value.draft == "xxxxxxxx"
    assert run(Decider(gate)(QUESTION)).value.draft is None


def test_the_gates_own_drafter_is_used_where_none_is_given():
    own, other = DigitDrafter(), DigitDrafter()
    run(Decider(LengthGate(drafter=own))(QUESTION)).value  # noqa: B018
    run(Decider(LengthGate(drafter=own), drafter=other)(QUESTION)).value  # noqa: B018
    assert (own.drafted, other.drafted) == ([[QUESTION]], [[QUESTION]])


class Generating:
    def generate(self, prompts):
        return [prompt.upper() for prompt in prompts]


@pytest.mark.parametrize(
    "drafter", [Generating(), Generating().generate, Port.of("llm", Generating().generate)]
)
def test_whoever_continues_prompts_can_draft(drafter):
    for asked in (QUESTION, "What does {question} or {0} mean?"):
        trace = run(Decider(LengthGate(), drafter=drafter)(asked))
        prompt = f"Question: {asked}\nAnswer:"
        assert trace.steps[0].items == (prompt,)
        assert trace.value.draft == prompt.upper()


@pytest.mark.parametrize(
    ("gate", "why"),
    [
        (Broken(RuntimeError("the line is dead")), "RuntimeError: the line is dead"),
        (Saying([float("nan")]), "InputError: `p_known` must be"),
        (Saying([1.5]), "InputError: `p_known` must be"),
        (Saying([None]), "InputError: `p_known` must be"),
        (Saying([]), "PortError: port 'gate' got 1 items but gave 0 answers"),
        (Saying([0.9, 0.9]), "PortError: port 'gate' got 1 items but gave 2 answers"),
        (Saying([TimeoutError("too late")]), "TimeoutError: too late"),
    ],
)
def test_a_failing_gate_retrieves_and_says_so(gate, why):
    decided = run(Decider(gate, threshold=0.25)(QUESTION)).value
    assert decided.decision.retrieve is True
    assert (decided.decision.p_known, decided.decision.threshold) == (None, 0.25)
    assert decided.decision.why.startswith(f"the gate failed ({why}")
    assert decided.decision.why.endswith("): retrieving")
    trace = run(Decider(gate, on_error="raise")(QUESTION))
    assert type(trace.outcome).__name__ == why.partition(":")[0]


@pytest.mark.parametrize("blank", ["", "  \n\t", Draft(""), Draft(" \n")])
def test_a_blank_draft_retrieves_and_says_so(blank):
    gate = LengthGate()
    decider = Decider(gate, drafter=lambda prompts: [blank])
    decided = run(decider(QUESTION)).value
    assert decided.decision.retrieve and decided.draft is None and not gate.batches
    assert "the drafter failed (InputError: `draft` must be" in decided.decision.why
    strict = Decider(gate, drafter=lambda prompts: [blank], on_error="raise")
    with pytest.raises(InputError, match="draft` must be"):
        run(strict(QUESTION)).value  # noqa: B018


class Unloaded:
    threshold = 0.7

    @property
    def drafter(self):
        raise PortError("unloaded")

    def p_known(self, questions, drafts):
        return [0.9] * len(questions)


def test_a_gate_that_cannot_give_its_drafter_still_tells_its_threshold():
    decision = run(Decider(Unloaded())(QUESTION)).value.decision
    assert (decision.retrieve, decision.threshold) == (True, 0.7)
    assert decision.why == "the gate failed (PortError: unloaded): retrieving"


def test_a_drafter_that_fails_on_one_question_costs_that_one_alone():
    def drafter(prompts):
        return [PortError("cut off") if "number 3?" in p else p[-20:] for p in prompts]

    gate = LengthGate()
    decider = Decider(gate, drafter=drafter)
    decided = [trace.value for trace in run_many([decider(q) for q in QUESTIONS])]
    failed = [d for d in decided if "failed" in d.decision.why]
    assert [d.decision.why for d in failed] == [
        "the drafter failed (PortError: cut off): retrieving"
    ]
    assert decided[3] is failed[0] and [len(batch) for batch in gate.batches] == [31]


def test_a_failing_gate_keeps_the_draft_that_was_written():
    gate = Broken(RuntimeError("no"))
    gate.draft_tokens = 8
    assert run(Decider(gate, drafter=DigitDrafter())(QUESTION)).value.draft == "xxxxxxxx"


def test_a_threshold_fitted_for_another_model_is_refused_unless_allowed():
    fitted = FittedThreshold(0.5, model="another")
    gate = LengthGate(threshold=0.5, fitted=fitted)
    drafter = DigitDrafter()
    for on_error in ("retrieve", "raise"):
        trace = run(Decider(gate, drafter=drafter, on_error=on_error)(QUESTION))
        assert isinstance(trace.outcome, ThresholdMismatchError)
        assert "'another', given 'digits'" in str(trace.outcome)
    assert not drafter.drafted and not gate.batches
    assert run(Decider(gate, drafter=drafter, allow_other_model=True)(QUESTION)).value.draft
    assert run(Decider(gate, drafter=drafter, threshold=0.5)(QUESTION)).value.draft  # not its own
    for model in ("digits", ""):  # its own, or one that nobody named
        gate = LengthGate(threshold=0.5, fitted=FittedThreshold(0.5, model=model))
        assert run(Decider(gate, drafter=drafter)(QUESTION)).value.draft


def test_without_a_gate_the_language_model_is_asked_in_one_batch_a_step():
    batches = []

    def llm(prompts):
        batches.append(len(prompts))
        return ["Yes" if "Yes or No" in prompt else "about ninety" for prompt in prompts]

    decided = run(Decider(llm=llm)(QUESTION)).value
    assert (decided.decision.retrieve, decided.draft, batches) == (False, "about ninety", [1, 1])
    ports = Ports(generate=llm)
    found = run_many([IKnow()(question, ports) for question in (QUESTION, "And Bridge 7?")])
    assert [one.value.decision.p_known for one in found] == [1.0, 1.0] and batches[2:] == [2, 2]
    assert found[0].value.details == {"threshold": 0.5, "draft_tokens": 32}


@pytest.mark.parametrize("asks", [Decider, lambda: run(IKnow()(QUESTION, Ports())).value])
def test_without_a_gate_and_a_language_model_an_error_names_both(asks):
    with pytest.raises(InputError, match="Pass `gate=` or `llm=`"):
        asks()


def test_fitrag_asks_its_gate_the_same_way():
    ports = Ports(lambda queries: [[Passage("a", "Bridge 7 is old.")] for _ in queries])

    class Zero:
        def score(self, pairs):
            from fitrag_integrations.types import BiLabelScore

            return [BiLabelScore(0.5) for _ in pairs]

    decider = Decider(LengthGate(), drafter=DigitDrafter(), threshold=0.9)
    context = run(FitRag(Zero(), gate=decider)(QUESTION, ports)).value
    assert context.decision == run(decider(QUESTION)).value.decision
    assert (context.draft, len(context.excerpts)) == ("xxxxxxxx", 1)
    failing = run(FitRag(Zero(), gate=Broken(OSError("gone")))(QUESTION, ports))
    assert "OSError: gone" in failing.value.decision.why and failing.value.excerpts
    assert "retrieving" in failing.explain()


def test_the_reason_names_the_model_that_was_judged():
    gate = LengthGate(fitted=FittedThreshold(0.5, "small-lm"))
    assert decide_by(gate, 0.9, 0.5).why == "small-lm seems to know it"
    assert decide_by(None, 0.1, 0.5).why == "the model does not seem to know it"
