"""Methods by name, and put together in Python."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run, run_many
from fitrag_integrations.methods import ITRG, Crag, Direct, IKnow, Over, SlimPLM, method_from
from fitrag_integrations.methods.baselines import Gated, GenRead
from fitrag_integrations.methods.compose.composing import NAMES
from fitrag_integrations.methods.crag.evaluator import ActionThresholds
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage

QUESTIONS = [f"How long is the river number {n}?" for n in range(32)]


class Gate:
    """Know even questions."""

    threshold = 0.5
    draft_tokens = 0

    def __init__(self):
        self.calls = []

    def p_known(self, questions, drafts):
        self.calls.append(len(questions))
        return [0.9 if int(q.split()[-1][:-1]) % 2 == 0 else 0.1 for q in questions]


class Evaluator:
    """Find long what says so."""

    thresholds = ActionThresholds(0.5, -0.5, -0.5, "")

    def __init__(self):
        self.calls = []

    def evaluate(self, pairs):
        self.calls.append(len(pairs))
        return [0.9 if "long" in passage.text else -0.9 for _, passage in pairs]


class World:
    """A retriever and a writer that count their calls."""

    def __init__(self):
        self.retrieved, self.written = [], []

    def retrieve(self, queries):
        self.retrieved.append(list(queries))
        return [[Passage("a", "It is long."), Passage("b", "Rain falls.")] for _ in queries]

    def generate(self, prompts):
        self.written.append(list(prompts))
        return ["It is very long." for _ in prompts]

    @property
    def ports(self):
        return Ports(retrieve=self.retrieve, generate=self.generate)


def test_every_method_has_a_name():
    needing = {
        **dict.fromkeys(("flare", "replug", "selfrag"), "model"),
        "skrknn": "bank",
        "targ": "drafter",
    }
    for name in NAMES:
        if name in needing:
            with pytest.raises(InputError, match=f"^`{needing[name]}` must be"):
                method_from(name)
        else:
            made = method_from(name)
            assert type(made).__name__.lower() == name
            assert made == type(made)()


@pytest.mark.parametrize("name", ["gen-read", "GenRead", "gen_read", "gen read"])
def test_marks_and_case_of_a_name_do_not_count(name):
    assert method_from(name) == GenRead()


def test_fields_are_those_of_the_class():
    assert method_from("crag", top_n=7) == Crag(top_n=7)
    inner = ITRG("refresh", rounds=1)
    assert method_from("iknow", method=inner, threshold=0.6) == IKnow(threshold=0.6, method=inner)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("cragg", {}, "^`method` must be .*crag, iknow.*did you mean crag"),
        ("", {}, "^`method` must be"),
        (3, {}, "^`method` must be"),
        (Crag, {}, "^`method` must be"),
        ("mine.toml", {}, "^`method` must be"),
        ("guessing.py", {}, "^`method` must be"),
        ("crag", {"topn": 3}, "^`topn` must be one of evaluator, .*top_n"),
        ("crag", {"top_n": "five"}, "^`top_n` must be .*an integer"),
        ("selfrag", {}, "^`model` must be an object, which SelfRag is given in Python"),
        ("vanilla", {"template": "none"}, "^`template` must be"),
    ],
    ids=str,
)
def test_what_is_wrong_is_reported_with_its_place(name, fields, message):
    with pytest.raises(InputError, match=message):
        method_from(name, **fields)


def test_crag_inside_itrg_reads_strips_and_is_asked_in_every_round():
    world, evaluator = World(), Evaluator()
    method = Over(ITRG("refresh", rounds=2), retriever=Crag(evaluator))
    traced = run(method(QUESTIONS[0], world.ports))
    assert [excerpt.text for excerpt in traced.value.excerpts] == ["It is long."]
    assert traced.value.method == "itrg"
    assert len(world.retrieved) == 2 == len(evaluator.calls) / 2
    assert all("Rain falls." not in prompt for prompts in world.written for prompt in prompts)


def test_what_the_inner_method_drops_is_in_the_selection_with_its_reason():
    found = [Passage(str(n), f"It is {n} miles long.", f"River {n}") for n in range(4)]
    ports = Ports(retrieve=lambda queries: [[*found, Passage("", " ")] for _ in queries])
    method = Over(Direct(k=1), retriever=Direct(k=2))
    context = run(method(QUESTIONS[0], ports)).value
    assert [(row.name, row.kept, row.why) for row in context.selection if row.whole] == [
        ("River 2", False, "k=2, by direct"),
        ("River 3", False, "k=2, by direct"),
        ("", False, "no text, by direct"),
        ("River 0", True, ""),
        ("River 1", False, "k=1"),
    ]
    assert "dropped 3. River 2 0.00: k=2, by direct" in context.explain(dropped=True)
    rounds = Over(ITRG("refresh", rounds=2), retriever=Direct(k=1))
    context = run(rounds(QUESTIONS[0], Ports(ports.retrieve, generate=lambda p: ["long"]))).value
    assert len([row for row in context.selection if row.name == "River 3"]) == 1


@pytest.mark.parametrize(
    "inner",
    [
        *("direct", "vanilla", "cot", "genread", "refeed", "selfeval", "selfask", "iterretgen"),
        "itrg",
        Crag(Evaluator()),
        SlimPLM(judge=Gate(), proxy=World().generate),
        IKnow(Gate()),
    ],
    ids=lambda inner: inner if isinstance(inner, str) else type(inner).__name__,
)
def test_any_gate_goes_before_any_method(inner):
    world = World()
    made = method_from(inner) if isinstance(inner, str) else inner
    method = Gated(Gate(), method=made)
    even, odd = run_many([method(question, world.ports) for question in QUESTIONS[:2]])
    assert not even.value.decision.retrieve
    assert even.value.excerpts == ()
    assert odd.value.decision.retrieve
    assert not any(QUESTIONS[0] in query for queries in world.retrieved for query in queries)


def test_32_questions_share_every_call_of_all_the_parts():
    world, gate, evaluator = World(), Gate(), Evaluator()
    method = Over(IKnow(gate, method=ITRG("refresh", rounds=1)), retriever=Crag(evaluator))
    traces = run_many([method(question, world.ports) for question in QUESTIONS])
    assert gate.calls == [32]
    assert [len(queries) for queries in world.retrieved] == [16]
    assert evaluator.calls == [32, 32]
    assert [len(prompts) for prompts in world.written] == [16]
    assert [bool(trace.value.excerpts) for trace in traces] == [False, True] * 16
