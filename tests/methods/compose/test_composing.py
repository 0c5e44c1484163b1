"""Methods put together by name, from mappings and from TOML."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run, run_many
from fitrag_integrations.methods import (
    ITRG,
    Crag,
    Direct,
    FitRag,
    IKnow,
    Over,
    approximate_tokens,
    method_from,
    method_named,
)
from fitrag_integrations.methods.baselines import GenRead
from fitrag_integrations.methods.compose.recipe import NAMES, Models
from fitrag_integrations.methods.crag.evaluator import ActionThresholds
from fitrag_integrations.methods.prompts import TEMPLATES
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage

QUESTIONS = [f"How long is the river number {n}?" for n in range(32)]
ASSEMBLED = """
method = "iknow"
threshold = 0.6
[inner]
method = "crag"
top_n = 3
thresholds = { upper = 0.5, lower = -0.5, strip = -0.5 }
[retriever]
method = "itrg"
mode = "refresh"
rounds = 2
stop = ["empty", "unchanged"]
demonstrations = [["Who built it?", "Anna Vell built it.", "Anna Vell"]]
"""


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
                method_named(name)
        else:
            made = method_named(name)
            assert type(made).__name__.lower() == name
            assert made == type(made)()


@pytest.mark.parametrize("name", ["gen-read", "GenRead", "gen_read", "gen read"])
def test_marks_and_case_of_a_name_do_not_count(name):
    assert method_named(name) == GenRead()


def test_toml_mapping_and_python_read_the_same(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(ASSEMBLED, encoding="utf-8")
    shot = ("Who built it?", "Anna Vell built it.", "Anna Vell")
    by_hand = Over(
        IKnow(threshold=0.6, method=Crag(top_n=3, thresholds=ActionThresholds(0.5, -0.5, -0.5))),
        retriever=ITRG("refresh", rounds=2, stop=("empty", "unchanged"), demonstrations=[shot]),
    )
    mapping = {
        "method": "iknow",
        "threshold": 0.6,
        "inner": Crag(top_n=3, thresholds=ActionThresholds(0.5, -0.5, -0.5)),
        "retriever": {
            "method": "itrg",
            "mode": "refresh",
            "rounds": 2,
            "stop": ["empty", "unchanged"],
            "demonstrations": [shot],
        },
    }
    assert method_from(path) == method_from(str(path)) == method_from(mapping) == by_hand


def test_fields_given_beside_a_recipe_stand_over_its_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('method = "crag"\ntop_n = 3\nsentences = 2', encoding="utf-8")
    assert method_from(path, top_n=7) == Crag(top_n=7, sentences=2)
    assert method_from("crag", top_n=7) == Crag(top_n=7)
    mapping = {"method": "crag"}
    assert method_from(mapping, top_n=7) == Crag(top_n=7)
    assert mapping == {"method": "crag"}


def test_texts_stand_for_counters_templates_and_embedded_models():
    assert method_from("fitrag", count_tokens="approximate") == FitRag(
        count_tokens=approximate_tokens
    )
    template = next(iter(TEMPLATES))
    assert method_from("vanilla", template=template).template == TEMPLATES[template]
    assert method_from("fitrag", scorer="embedded").scorer is None


def test_models_are_loaded_by_role_and_once(tmp_path, monkeypatch):
    loaded = []
    monkeypatch.setattr(
        Models, "_load", lambda self, kind, name: loaded.append((kind, name)) or Gate()
    )
    folder = tmp_path / "judge"
    folder.mkdir()
    (folder / "model.json").write_text('{"kind": "necessity"}', encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(
        'method = "slimplm"\njudge = "judge"\nproxy = "some/model"\n'
        '[retriever]\nmethod = "gated"\ngate = "judge"',
        encoding="utf-8",
    )
    with pytest.raises(InputError, match="proxy"):  # a gate is no proxy: the checks still hold
        method_from(path)
    path.write_text(
        'method = "iknow"\ngate = "judge"\n[retriever]\nmethod = "gated"\ngate = "judge"',
        encoding="utf-8",
    )
    loaded.clear()
    made = method_from(path)
    assert loaded == [("NecessityJudge", str(folder))]
    assert made.method.gate is made.retriever.gate
    method_from("iknow", gate="some/ik")
    assert loaded[-1] == ("IKClassifier", "some/ik")


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("cragg", "method` must be .*crag, iknow"),
        ("", "method` must be"),
        (3, "method` must be"),
        ({}, "method` must be"),
        ({"method": ["crag"]}, "method` must be"),
        ({"method": "crag", "topn": 3}, "topn` must be one of method, evaluator, .*top_n"),
        ({"method": "crag", "split": "x"}, "split` must be"),
        ({"method": "crag", "inner": "direct"}, "inner` must be"),
        ({"method": "crag", "top_n": "five"}, "top_n` must be .*an integer"),
        ({"method": "crag", "top_n": {"a": 1}}, "top_n` must be .*a number, a text or a list"),
        ({"method": "crag", "thresholds": {"upper": 1}}, "lower"),
        ({"method": "iknow", "inner": {"method": "itrg", "k": 0}}, "^`inner.k` must be"),
        ({"method": "iknow", "inner": {"topn": 3}}, "^`inner.method` must be"),
        ({"method": "iknow", "retriever": {"method": "no"}}, "^`retriever.method` must be"),
        ({"method": "iknow", "inner": IKnow}, "^`inner` must be"),
        ({"method": "slimplm", "rewriter": "embedded"}, "rewriter` must be"),
        ({"method": "selfrag", "model": "embedded"}, "model` must be"),
        ({"method": "selfrag", "model": "x"}, "model` must be .*in Python"),
        ({"method": "vanilla", "template": "none"}, "template` must be"),
    ],
    ids=str,
)
def test_what_is_wrong_is_reported_with_its_place(recipe, message):
    with pytest.raises(InputError, match=message):
        method_from(recipe)


@pytest.mark.parametrize("text", ["method = ", None, "\xff"])
def test_a_file_that_cannot_be_read_is_told(tmp_path, text):
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="a TOML file"):
        method_from(path)


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
        {"method": "crag", "evaluator": Evaluator()},
        {"method": "slimplm", "judge": Gate(), "proxy": World().generate},
        {"method": "iknow", "gate": Gate()},
    ],
    ids=lambda inner: inner if isinstance(inner, str) else inner["method"],
)
def test_any_gate_goes_before_any_method(inner):
    world = World()
    method = method_from({"method": "gated", "gate": Gate(), "inner": inner})
    even, odd = run_many([method(question, world.ports) for question in QUESTIONS[:2]])
    assert not even.value.decision.retrieve
    assert even.value.excerpts == ()
    assert odd.value.decision.retrieve
    assert not any(QUESTIONS[0] in query for queries in world.retrieved for query in queries)


def test_32_questions_share_every_call_of_all_the_parts():
    world, gate, evaluator = World(), Gate(), Evaluator()
    method = method_from(
        {
            "method": "iknow",
            "gate": gate,
            "inner": {"method": "itrg", "mode": "refresh", "rounds": 1},
            "retriever": {"method": "crag", "evaluator": evaluator},
        }
    )
    traces = run_many([method(question, world.ports) for question in QUESTIONS])
    assert gate.calls == [32]
    assert [len(queries) for queries in world.retrieved] == [16]
    assert evaluator.calls == [32, 32]
    assert [len(prompts) for prompts in world.written] == [16]
    assert [bool(trace.value.excerpts) for trace in traces] == [False, True] * 16
