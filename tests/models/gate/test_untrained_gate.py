"""A local model without a trained gate is judged by its draft, behind every door."""

import json
import math
import shutil

import pytest
from closed_book import LLM
from llama_index.core import SummaryIndex
from llama_index.core.llms import MockLLM

from fitrag_integrations.cli import main
from fitrag_integrations.errors import InputError, ThresholdMismatchError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.flow import run
from fitrag_integrations.langchain import RetrievalGate
from fitrag_integrations.llama_index import KnowledgeRouterQueryEngine
from fitrag_integrations.methods import AskGate, Decider, IKnow, PTrueGate, SlimPLM
from fitrag_integrations.methods.ik import gates
from fitrag_integrations.models import LocalGenerator
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Draft, RetrievalDecision


@pytest.fixture(scope="module")
def llm():
    return LocalGenerator.from_pretrained(LLM)


@pytest.fixture(scope="module")
def asked():
    """Questions about facts that the model never saw, and that it often saw."""
    lines = (LLM / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = list(map(json.loads, lines))
    return [row for shown in (0, 64) for row in [one for one in rows if one["shown"] == shown][:8]]


def cli(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code or 0


def own_drafts(llm, questions):
    """Measure the model's drafts by hand."""
    measured = [one.logprobs for one in llm.draft(questions)]
    return [math.exp(math.fsum(each) / len(each)) for each in measured]


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_door_judges_by_the_draft_and_says_so(llm, asked, tmp_path):
    questions = [row["question"] for row in asked[:4]]
    drafts, expected = llm.draft(questions), own_drafts(llm, questions)

    def decided(decision):
        assert "judged by the mean probability of its draft's tokens" in decision.why
        assert decision.why.endswith("threshold 0.500 (not fitted)")
        return decision.p_known

    ports = Ports(lambda queries: [[] for _ in queries], generate=llm)
    by_method = [decided(run(IKnow()(one, ports)).value.decision) for one in questions]
    assert by_method == pytest.approx(expected)
    decider = Decider(llm=llm)
    assert [decided(run(decider(one)).value.decision) for one in questions] == by_method
    chained = RetrievalGate(gate=llm).batch(questions)
    assert [decided(RetrievalDecision(**one)) for one in chained] == pytest.approx(expected)
    for given in ({"gate": llm, "llm": MockLLM()}, {"gate": None, "llm": llm}):
        index = SummaryIndex([]).as_query_engine(llm=MockLLM())
        engine = KnowledgeRouterQueryEngine(**given, retrieve=index)
        found = engine.query(questions[0]).metadata["fitrag"]["decision"]
        assert decided(RetrievalDecision(**found)) == by_method[0]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [json.dumps({"question": one}) + "\n" for one in questions]
    rows += [json.dumps({"question": questions[0], "draft": drafts[0].text}) + "\n"]
    source.write_text("".join(rows))
    assert cli("gate", source, out, "--llm", LLM, "--quiet") == 0
    got = read(out)
    assert [row["p_known"] for row in got] == pytest.approx([*expected, expected[0]], abs=1e-4)
    assert all("its draft's tokens" in row["why"] for row in got)


def test_the_published_ways_stay_reachable(llm, asked, tmp_path):
    assert isinstance(gates.own_gate(llm, "p_true"), PTrueGate)
    assert isinstance(gates.own_gate(llm, drafts=False), PTrueGate)
    assert isinstance(gates.own_gate(lambda prompts: ["Yes"] * len(prompts)), AskGate)
    with pytest.raises(InputError, match="signal"):
        gates.own_gate(llm, "likelihood", drafts=False)
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps({"question": asked[0]["question"]}) + "\n")
    assert cli("gate", source, out, "--llm", LLM, "--signal", "p_true", "--quiet") == 0
    (row,) = read(out)
    assert "judged by the probability of Yes" in row["why"]
    assert cli("gate", source, out, "--llm", LLM, "--signal", "word", "--overwrite") == 2


def test_slimplm_asks_a_local_model_for_no_word(llm, asked):
    question = asked[0]["question"]
    ports = Ports(lambda queries: [[] for _ in queries], generate=llm)
    decision = run(SlimPLM(rewrite=False)(question, ports)).value.decision
    assert "judged by the mean probability of its draft's tokens" in decision.why
    (own,) = own_drafts(llm, [question])
    assert decision.p_known == pytest.approx(own)


def test_a_model_that_writes_nothing_knows_nothing():
    class Silent:
        is_greedy, name = True, "silent"

        def draft(self, questions):
            return [Draft("") for _ in questions]

        def rescore(self, questions, drafts):
            return [Draft("") for _ in questions]

    decision = run(Decider(llm=Silent(), on_error="raise")("Who?")).value.decision
    assert (decision.retrieve, decision.p_known) == (True, 0.0)


def test_a_threshold_fitted_for_the_draft_stays_with_the_model(llm, asked, tmp_path):
    own = tmp_path / "own-model"
    shutil.copytree(LLM, own)
    drafts = llm.draft([row["question"] for row in asked])
    rows = [
        {**row, "draft": one.text, "known": contains_answer(one.text, row["answers"])}
        for row, one in zip(asked, drafts, strict=True)
    ]
    labeled = tmp_path / "labeled.jsonl"
    labeled.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli("calibrate", "gate", labeled, "--model", own, "--resamples", "0") == 0
    fitted = json.loads((own / "model.json").read_text())["threshold"]
    assert fitted["model"] == "fitrag-closed-book" and 0.0 < fitted["value"] < 1.0
    gate = gates.own_gate(LocalGenerator.from_pretrained(own))
    assert gate.threshold == fitted["value"]
    why = run(Decider(gate)(asked[0]["question"])).value.decision.why
    assert why.startswith("fitrag-closed-book") and "not fitted" not in why
    out = tmp_path / "out.jsonl"
    assert cli("gate", labeled, out, "--model", own, "--quiet") == 0
    assert all(row["retrieve"] == (row["p_known"] <= fitted["value"]) for row in read(out))
    other = tmp_path / "another-model"
    shutil.copytree(own, other)
    manifest = json.loads((own / "model.json").read_text())
    (other / "model.json").write_text(json.dumps({**manifest, "name": "another"}))
    with pytest.raises(ThresholdMismatchError, match="'another'"):
        gates.own_gate(LocalGenerator.from_pretrained(other))


def test_a_threshold_fitted_with_examples_is_for_these_examples(llm, asked, tmp_path):
    own, out, shots = tmp_path / "own-model", tmp_path / "out.jsonl", tmp_path / "shots.jsonl"
    shutil.copytree(LLM, own)
    shots.write_text(json.dumps({"question": "Who built it?", "answer": "Ilse Marbach"}))
    labeled = tmp_path / "labeled.jsonl"
    labeled.write_text(
        "".join(json.dumps({**row, "known": row["shown"] > 0}) + "\n" for row in asked)
    )
    calibrate = ("calibrate", "gate", labeled, "--model", own, "--resamples", "0")
    assert cli(*calibrate, "--shots", shots) == 0
    asks = ("gate", labeled, out, "--llm", own, "--quiet", "--overwrite")
    assert cli(*asks, "--shots", shots) == 0
    assert cli(*asks) != 0
    shown = LocalGenerator.from_pretrained(own, shots=read(shots))
    assert 0 < run(Decider(llm=shown)(asked[0]["question"])).value.decision.threshold < 1
    with pytest.raises(ThresholdMismatchError, match="examples"):
        _ = run(Decider(llm=LocalGenerator.from_pretrained(own))(asked[0]["question"])).value
    gate = tmp_path / "gate"
    gate.mkdir()
    (gate / "model.json").write_text(json.dumps({"format": 1, "kind": "ik", "model": "tiny-lm"}))
    assert cli("calibrate", "gate", labeled, "--model", gate, "--shots", shots) != 0
