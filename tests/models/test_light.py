"""What ships decides without torch what it decides with it, and loads no torch."""

import subprocess
import sys
import types

import pytest

from fitrag_integrations import Passage
from fitrag_integrations.core import extras
from fitrag_integrations.errors import MissingExtraError, ModelLoadError
from fitrag_integrations.methods import defaults
from fitrag_integrations.models import (
    BiLabelScorer,
    ExtractiveReader,
    OnePassScorer,
    RetrievalEvaluator,
)
from fitrag_integrations.models.light import engine as light_engine
from fitrag_integrations.models.light.models import (
    LightEvaluator,
    LightOnePass,
    LightReader,
    LightScorer,
)

NEAR = 0.02  # the embeddings ship in eight bits
TEXT = "The Danube rises in the Black Forest. It ends in the Black Sea. Vienna lies on it."
PAIRS = [
    ("Where does the Danube end?", Passage("1", TEXT, "Danube")),
    ("Where does the Danube end?", Passage("2", "The Rhine ends in the North Sea.", "Rhine")),
    ("Who wrote Hamlet?", Passage("3", "Hamlet is a play by William Shakespeare. " * 60)),
    ("Who wrote Hamlet?", Passage("4", "?", "")),
]
SPANS = [(0, 37), (38, 63), (64, len(TEXT))]


def near(found, wanted):
    for one, two in zip(found, wanted, strict=True):
        assert one.has_answer == pytest.approx(two.has_answer, abs=NEAR)
        assert one.llm_prefer == pytest.approx(two.llm_prefer, abs=NEAR)


@pytest.fixture(scope="module")
def light():
    return LightOnePass.embedded()


async def test_scores_are_those_of_torch(light):
    wanted = BiLabelScorer.embedded(device="cpu", dtype="float32")
    near(light.score(PAIRS), wanted.score(PAIRS))
    assert await light.ascore(PAIRS[:1]) == pytest.approx(light.score(PAIRS[:1]), abs=1e-5)
    assert light.name == wanted.name  # so that what is fitted to its scores fits


async def test_sentences_are_those_of_torch(light):
    items = [(*PAIRS[0], SPANS), (*PAIRS[2], [(0, 40), (2000, 2040)]), (*PAIRS[3], [])]
    wanted = OnePassScorer.embedded(device="cpu", dtype="float32").score_sentences(items)
    found = light.score_sentences(items)
    assert len(await light.ascore_sentences(items[:1])) == 1
    for (whole, spans), (their_whole, their_spans) in zip(found, wanted, strict=True):
        near([whole, *spans], [their_whole, *their_spans])


async def test_grades_are_those_of_torch():
    light, wanted = LightEvaluator.embedded(), RetrievalEvaluator.embedded(device="cpu")
    assert light.evaluate(PAIRS) == pytest.approx(wanted.evaluate(PAIRS), abs=2 * NEAR)
    assert await light.aevaluate(PAIRS) == light.evaluate(PAIRS)
    assert (light.name, light.thresholds) == (wanted.name, wanted.thresholds)
    light.unload()


async def test_answers_are_those_of_torch():
    light, wanted = LightReader.embedded(), ExtractiveReader.embedded(device="cpu")
    for one, two in zip(light.read(PAIRS), wanted.read(PAIRS), strict=True):
        assert (one.text, one.start, one.end) == (two.text, two.start, two.end)
        assert one.score == pytest.approx(two.score, abs=NEAR)
    assert len(await light.aread(PAIRS)) == len(PAIRS)
    assert light.abstain_below == wanted.abstain_below
    light.unload()


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.setattr(defaults, "installed", lambda name: name != "torch")
    monkeypatch.setattr(defaults, "_loaded", {})


def test_defaults_need_no_torch_where_it_is_not(no_torch):
    scorer, one_pass = map(defaults.default_model, ("scorer", "one_pass"))
    assert (type(scorer), type(one_pass)) == (LightScorer, LightOnePass)
    assert scorer._engine is one_pass._engine
    assert defaults.home_of("detector")[1] == "EligibilityDetector"
    with pytest.raises(MissingExtraError, match=r"embedded gate: .*\[torch\]"):
        defaults.default_model("gate")


def test_nothing_of_it_loads_torch():
    script = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = sys.modules["peft"] = None
from fitrag_integrations.core import extras
from fitrag_integrations.methods import defaults
defaults.installed = lambda name: name != "torch"
from fitrag_integrations import Passage
for role, verb in [("scorer", "score"), ("evaluator", "evaluate"), ("reader", "read")]:
    getattr(defaults.default_model(role), verb)([("who?", Passage("1", "the king of Rome"))])
scorer = defaults.EMBEDDED_SCORER
print(defaults.embedded_detector(scorer.name, window=3, stride=1, per_passage=1).threshold)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.5
    assert extras.installed("torch")


def test_one_of_two_over_an_engine_is_unloaded_alone():
    first, second = LightScorer(), LightOnePass()
    first.unload()
    assert len(second.score(PAIRS[:1])) == 1
    second.unload()
    with pytest.raises(ModelLoadError, match="was unloaded"):
        second.score(PAIRS[:1])
    assert len(LightScorer().score(PAIRS[:1])) == 1


def test_the_default_runs_without_torch_where_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(extras, "GPU_DRIVERS", ())
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert not extras.torch_sees_gpu()
    assert "torch" not in sys.modules
    assert defaults.home_of("reader") == (defaults.LIGHT_HOME, "LightReader")
    monkeypatch.setattr(defaults, "torch_sees_gpu", lambda: True)
    assert defaults.home_of("reader") == defaults.HOMES["reader"]


def test_a_driver_alone_is_no_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "GPU_DRIVERS", (str(tmp_path),))
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not extras.torch_sees_gpu()
    cuda = types.SimpleNamespace(is_available=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda, __spec__=True))
    assert extras.torch_sees_gpu()


def test_what_another_head_asks_of_the_same_pairs_is_not_read_again(monkeypatch):
    model = LightOnePass()
    engine, read = model._engine, []
    engine.forget()
    states = engine.states
    monkeypatch.setattr(
        engine, "states", lambda batch: read.append(len(batch.pairs)) or states(batch)
    )
    near(model.score(PAIRS[:2]), wanted := model.score(PAIRS[:2]))
    once = sum(read)
    items = [(*pair, [(0, 10)]) for pair in PAIRS[:2]]
    near([whole for whole, _ in model.score_sentences(items)], wanted)
    assert sum(read) == once
    near(model.score(PAIRS)[:2], wanted)  # the others are read, these are not
    assert sum(read) == once + len([c for g in engine.tokenizer.encode(PAIRS[2:]) for c in g])
    engine.forget()
    near(model.score(PAIRS[:2]), wanted)
    assert sum(read) > once + 2
    model.unload()


def test_states_are_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(light_engine, "KEPT", 60)
    model = LightScorer()
    model._engine.forget()
    wanted = model.score(PAIRS)
    near(model.score([*PAIRS, PAIRS[0]]), [*wanted, wanted[0]])
    assert model._engine._tokens == sum(map(len, model._engine._kept.values())) <= 60
    model.unload()
