"""What ships decides without torch what it decides with it, and loads no torch."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest
from tiny import forget

from fitrag_integrations import Passage, compress
from fitrag_integrations.core import extras
from fitrag_integrations.errors import InputError, MissingExtraError, ModelLoadError
from fitrag_integrations.methods import defaults
from fitrag_integrations.models import (
    BiLabelScorer,
    EligibilityDetector,
    ExtractiveReader,
    OnePassScorer,
    RetrievalEvaluator,
)
from fitrag_integrations.models import bundled as bundled
from fitrag_integrations.models.bundled import (
    BundledDense,
    BundledEvaluator,
    BundledReader,
    BundledScorer,
)
from fitrag_integrations.models.encoder.items import Lines
from fitrag_integrations.models.runtime import engine
from fitrag_integrations.retrieval.encoder import Encoder

ROOT = Path(__file__).parents[2]
NEAR = 1e-4  # the same rounded embeddings
TEXT = "The Danube rises in the Black Forest. It ends in the Black Sea. Vienna lies on it."
PAIRS = [
    ("Where does the Danube end?", Passage("1", TEXT, "Danube")),
    ("Where does the Danube end?", Passage("2", "The Rhine ends in the North Sea.", "Rhine")),
    ("Who wrote Hamlet?", Passage("3", "Hamlet is a play by William Shakespeare. " * 60)),
    ("Who wrote Hamlet?", Passage("4", "?", "")),
]
TABLE = "| river | ends in |\n|---|---|\n| Danube | Black Sea |\n| Rhine | North Sea |\n"
QUESTIONS = ["Where does the Danube end?", "What was volleyball first called?"]
SPANS = [(0, 37), (38, 63), (64, len(TEXT))]


def near(found, wanted):
    for one, two in zip(found, wanted, strict=True):
        assert one.has_answer == pytest.approx(two.has_answer, abs=NEAR)
        assert one.llm_prefer == pytest.approx(two.llm_prefer, abs=NEAR)


@pytest.fixture(scope="module")
def light():
    return BundledScorer.embedded()


async def test_scores_are_those_of_torch(light):
    wanted = BiLabelScorer.embedded(device="cpu", dtype="float32")
    near(light.score(PAIRS), wanted.score(PAIRS))
    assert await light.ascore(PAIRS[:1]) == pytest.approx(light.score(PAIRS[:1]), abs=1e-5)
    assert light.name == wanted.name  # so that what is fitted to its scores fits


def test_tables_have_a_calibration_of_their_own():
    light = BundledScorer.embedded(similarity=False)
    slope, shift = light.manifest["tables"]
    passages = [Passage("1", TABLE), Passage("2", TABLE + "It ends in the Black Sea. " * 9)]
    pairs = [("Where does the Danube end?", passage) for passage in passages]
    table, prose = light.score(pairs)
    judged = [whole for whole, _ in light.score_sentences([(*pair, []) for pair in pairs])]
    wanted = BiLabelScorer.embedded(device="cpu", dtype="float32", similarity=False)
    near(wanted.score(pairs), [table, prose])
    near(judged, [table, prose])
    assert wanted.name == light.name
    light._lines = Lines()
    raw = light.score(pairs)
    assert table.has_answer_logit == pytest.approx(slope * raw[0].has_answer_logit + shift)
    assert table.llm_prefer == raw[0].llm_prefer and prose == raw[1]


async def test_sentences_are_those_of_torch(light):
    items = [(*PAIRS[0], SPANS), (*PAIRS[2], [(0, 40), (2000, 2040)]), (*PAIRS[3], [])]
    wanted = OnePassScorer.embedded(device="cpu", dtype="float32").score_sentences(items)
    found = light.score_sentences(items)
    assert len(await light.ascore_sentences(items[:1])) == 1
    for (whole, spans), (their_whole, their_spans) in zip(found, wanted, strict=True):
        near([whole, *spans], [their_whole, *their_spans])
        assert whole.llm_prefer is not None and all(one.llm_prefer is None for one in spans)


async def test_grades_and_answers_are_those_of_torch():
    light, wanted = BundledEvaluator.embedded(), RetrievalEvaluator.embedded(device="cpu")
    assert light.evaluate(PAIRS) == pytest.approx(wanted.evaluate(PAIRS), abs=2 * NEAR)
    assert await light.aevaluate(PAIRS) == light.evaluate(PAIRS)
    assert (light.name, light.thresholds) == (wanted.name, wanted.thresholds)
    light, wanted = BundledReader.embedded(), ExtractiveReader.embedded(device="cpu")
    for one, two in zip(light.read(PAIRS), wanted.read(PAIRS), strict=True):
        assert (one.text, one.start, one.end) == (two.text, two.start, two.end)
        assert one.score == pytest.approx(two.score, abs=NEAR)
    assert await light.aread(PAIRS) == light.read(PAIRS)
    assert light.abstain_below == wanted.abstain_below


def test_runs_are_measured_on_the_part_of_a_question_that_the_engine_reads(light, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts" / "student")
    import reference  # type: ignore[import-not-found]

    story = (
        "My mother moved in with us after her fall in March, and since then I have worked only two "
        "days a week in the shop, for which I was paid 95 pounds. We own the house. Neither of us "
        "has savings to speak of. Can I get an allowance for looking after her?"
    )
    read = reference.Student._question(None, story)
    assert read == light._engine.tokenizer._question(story) != story


def test_nothing_of_it_loads_torch():
    script = """
import sys
sys.modules["torch"] = sys.modules["transformers"] = sys.modules["peft"] = None
from fitrag_integrations.core import extras
from fitrag_integrations.flow import run
from fitrag_integrations.methods import ITRG, defaults
from fitrag_integrations import Passage, compress
for role, verb in [("scorer", "score"), ("evaluator", "evaluate"), ("reader", "read")]:
    getattr(defaults.default_model(role), verb)([("who?", Passage("1", "the king of Rome"))])
scorer = defaults.EMBEDDED_SCORER
from fitrag_integrations import MissingExtraError, models
pair = ("who?", Passage("1", "the king of Rome"))
assert models.BundledReader.embedded().read([pair])[0].text
models.BundledScorer.embedded().score([pair]), models.BundledEvaluator().evaluate([pair])
from fitrag_integrations.retrieval import Encoder
assert Encoder().encode(["the king of Rome"]).shape == (1, 384)
for load in (
    lambda: models.BundledReader.from_pretrained("mine"),
    lambda: models.BundledReader.embedded(device="cpu"),
    lambda: models.ExtractiveReader,
    lambda: models.Continuer,
):
    try:
        load()
    except MissingExtraError as error:
        assert "[torch]" in str(error)
    else:
        raise AssertionError(load)
print(defaults.embedded_detector(scorer.name, window=3, stride=1, per_passage=1).threshold)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.5
    assert extras.installed("torch")


def test_one_of_two_over_an_engine_is_unloaded_alone():
    first, second = BundledScorer(), BundledScorer()
    first.unload()
    assert len(second.score(PAIRS[:1])) == 1
    second.unload()
    with pytest.raises(ModelLoadError, match="was unloaded"):
        second.score(PAIRS[:1])
    assert len(BundledScorer().score(PAIRS[:1])) == 1


def test_the_default_runs_without_torch_where_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(extras, "GPU_DRIVERS", ())
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert not extras.torch_sees_gpu()
    assert "torch" not in sys.modules
    monkeypatch.setattr(defaults, "_loaded", {})
    assert type(defaults.default_model("scorer")) is BundledScorer
    assert defaults.kind_of("detector") is EligibilityDetector
    assert defaults.kind_of("reader") is BundledReader
    monkeypatch.setattr(defaults, "torch_sees_gpu", lambda: True)
    assert defaults.kind_of("reader") is ExtractiveReader


def test_vectors_are_those_of_torch():
    texts = [TEXT, "", "half a pair \ud800", "long " * 600, *(passage.text for _, passage in PAIRS)]
    light, wanted = Encoder(), Encoder(dtype="float32")
    found = light.encode(texts)
    assert type(light._loaded) is BundledDense
    assert found == pytest.approx(wanted.encode(texts), abs=1e-5)
    assert (light.width, light.settings) == (wanted.width, wanted.settings)
    assert light.encode([]).shape == (0, 384)
    with pytest.raises(InputError, match="prompt_name` must be"):
        light.encode(texts, prompt_name="answer")
    light.unload()
    with pytest.raises(ModelLoadError, match="was unloaded"):
        light.encode(texts)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_fork_encodes_as_its_parent():
    encoder = Encoder()
    wanted = encoder.encode([TEXT] * 40)
    home = multiprocessing.get_context("fork")
    ends, other = home.Pipe()

    def work():
        other.send(encoder.encode([TEXT] * 40))

    child = home.Process(target=work)
    child.start()
    assert ends.poll(60)
    found = ends.recv()
    child.join()
    assert found == pytest.approx(wanted, abs=1e-6)
    encoder.unload()


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        # what the manifest of an index holds
        ({"pooling": "mean", "normalize": True, "max_tokens": 256, "prompts": {}}, "BundledDense"),
        ({"dtype": "bfloat16"}, "Dense"),
        ({"backend": "onnx"}, "Dense"),
        ({"max_length": 64}, "Dense"),
    ],
)
def test_an_encoder_with_options_of_torch_runs_in_it(given, kind, monkeypatch):
    monkeypatch.setattr(engine, "compiled", lambda *_, **__: None)  # has tests of its own
    encoder = Encoder(**given)
    encoder.encode([TEXT])
    assert type(encoder._loaded).__name__ == kind
    encoder.unload()


def test_a_driver_alone_is_no_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "GPU_DRIVERS", (str(tmp_path),))
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not extras.torch_sees_gpu()
    cuda = types.SimpleNamespace(is_available=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda, __spec__=True))
    assert extras.torch_sees_gpu()


def test_what_another_head_asks_of_the_same_pairs_is_not_read_again(monkeypatch):
    model = BundledScorer()
    engine, read = model._engine, []
    forget(engine)
    run = engine.read
    monkeypatch.setattr(engine, "read", lambda batch: read.append(len(batch)) or run(batch))
    near(model.score(PAIRS[:2]), wanted := model.score(PAIRS[:2]))
    once = sum(read)
    items = [(*pair, [(0, 10)]) for pair in PAIRS[:2]]
    near([whole for whole, _ in model.score_sentences(items)], wanted)
    BundledEvaluator().evaluate(PAIRS[:2])
    BundledReader().read(PAIRS[:2])
    assert sum(read) == once
    near(model.score(PAIRS)[:2], wanted)  # the others are read, these are not
    assert sum(read) == once + len([c for g in engine.tokenizer.encode(PAIRS[2:]) for c in g])
    forget(engine)
    near(model.score(PAIRS[:2]), wanted)
    assert sum(read) > once + 2


def test_logits_are_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(bundled, "KEPT", 60)
    model = BundledScorer()
    forget(model._engine)
    wanted = model.score(PAIRS)
    near(model.score([*PAIRS, PAIRS[0]]), [*wanted, wanted[0]])
    assert (
        model._engine._tokens
        == sum(len(each.tokens) for each in model._engine._kept.values())
        <= 60
    )


def test_eight_bits_are_the_default_and_near_float32(light, monkeypatch):
    monkeypatch.delenv("FITRAG_CPU_DTYPE")
    model, items = BundledScorer.embedded(), [(*pair, [(0, 1)]) for pair in PAIRS]
    assert (model.dtype, light.dtype) == ("int8", "float32")
    assert model.name == light.name  # what is fitted to one's scores fits the other's
    for one, two in zip(model.score(PAIRS), light.score(PAIRS), strict=True):
        assert one.has_answer == pytest.approx(two.has_answer, abs=0.05)
        assert one.llm_prefer == pytest.approx(two.llm_prefer, abs=0.05)
    together = model.score_sentences(items)
    for item, (whole, _) in zip(items, together, strict=True):
        forget(model._engine)
        near([model.score_sentences([item])[0][0]], [whole])  # whatever it is scored beside
    assert pickle.loads(pickle.dumps(light)).dtype == "float32"
    assert BundledReader("int8")._engine is model._engine is not BundledReader("float32")._engine


@pytest.mark.parametrize(
    ("made", "noted"),
    [(lambda: None, 0), (BiLabelScorer.embedded, 1), (lambda: lambda _: [1.0], 0)],
    ids=["default", "torch", "other"],
)
def test_a_bundled_scorer_passed_in_torch_says_that_the_default_computes_otherwise(made, noted):
    kept = compress("Where does the Danube end?", [TEXT], scorer=made())
    assert sum("runs in PyTorch" in note for note in kept.context.notes) == noted
    assert kept.explain().count("runs in PyTorch") == noted


def test_a_precision_that_is_not_there():
    with pytest.raises(InputError, match=r"`dtype` must be int8 or float32, got .bfloat16"):
        BundledEvaluator.embedded(dtype="bfloat16")
    with pytest.raises(MissingExtraError, match="the option 'backend'"):
        BundledEvaluator.embedded(backend="onnx")
