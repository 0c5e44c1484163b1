"""Options of every `from_pretrained` over an encoder: where they go, and what is refused."""

from functools import partial

import pytest
import torch
from tiny import (
    PAIRS,
    make_evaluator,
    make_reader,
    make_scorer,
    write_bert,
    write_modernbert,
    write_t5_classifier,
)

from fitrag_integrations import InputError, ModelLoadError, Passage
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader, RetrievalEvaluator
from fitrag_integrations.models.runtime.backends import sample
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.retrieval import Encoder

LONG = ("what river", Passage("1", "the danube is a river " * 120))
MAKE = {
    "scorer": (make_scorer, BiLabelScorer, "score"),
    "reader": (make_reader, ExtractiveReader, "read"),
    "evaluator": (make_evaluator, RetrievalEvaluator, "evaluate"),
}


@pytest.fixture(scope="module", params=list(MAKE))
def saved(request, bert, tmp_path_factory):
    """Save a model over BERT; gives its folder, its class and its call."""
    make, kind, call = MAKE[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    made = make(bert)
    made.save_pretrained(folder)
    made.unload()
    return folder, kind, call


def engine_of(model):
    return getattr(model, "_grader", model)._engine


def test_options_reach_transformers(saved):
    folder, kind, call = saved
    options = {
        "model_kwargs": {"attn_implementation": "eager"},
        "tokenizer_kwargs": {"do_lower_case": False},
        "device": "cpu",
        "dtype": "float32",
    }
    made, plain = kind.from_pretrained(folder, **options), kind.from_pretrained(folder)
    assert engine_of(made) is not engine_of(plain)
    assert engine_of(made).trunk.encoder.config._attn_implementation == "eager"
    upper = [("what river", Passage("1", "THE DANUBE"))]
    assert getattr(made, call)(upper) != getattr(plain, call)(upper)
    assert len(getattr(made, call)(PAIRS)) == len(PAIRS)


@pytest.mark.parametrize(
    ("given", "environment", "multiplied", "expected"),
    [
        (None, None, False, "float32"),
        (None, None, True, "bfloat16"),
        ("auto", None, True, "bfloat16"),
        ("float32", None, True, "float32"),
        ("bfloat16", "float32", False, "bfloat16"),
        (None, "float32", True, "float32"),
    ],
)
def test_a_cpu_computes_in_what_it_multiplies(
    monkeypatch, given, environment, multiplied, expected
):
    monkeypatch.delenv("FITRAG_CPU_DTYPE", raising=False)
    if environment:
        monkeypatch.setenv("FITRAG_CPU_DTYPE", environment)
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: multiplied, raising=False)
    assert Options.checked("cpu", given).resolved()[1] == getattr(torch, expected)


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_encoder_answers_alike(bert, tmp_path, monkeypatch):
    """Of every shape, rounded up or at the end of its positions; traced, without a C++ compiler."""
    trace = partial(torch.compile, backend="eager")
    monkeypatch.setattr(torch, "compile", lambda module, mode: trace(module))
    make_scorer(bert).save_pretrained(tmp_path)
    load = BiLabelScorer.from_pretrained
    made = load(tmp_path, device="cpu", dtype="float32", compile=True)
    plain = load(tmp_path, device="cpu", dtype="float32")
    engine, other = engine_of(made), engine_of(plain)
    assert engine is not other
    for rows, tokens in ((3, 33), (1, 70)):
        given = sample(other.trunk, (rows, tokens))
        with torch.inference_mode():
            found = engine.compute(*given)
            expected = other.compute(*given)
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_what_cannot_be_compiled_is_refused(saved, tmp_path):
    folder, kind, _ = saved
    with pytest.raises(InputError, match="compile"):
        kind.from_pretrained(folder, device="cpu", compile=True, backend="onnx")
    with pytest.raises(InputError, match="compile"):
        RetrievalEvaluator.from_pretrained(write_t5_classifier(tmp_path), compile=True)


def test_a_given_length_decides_over_chunks_and_is_kept(saved, tmp_path):
    folder, kind, call = saved
    found = {}
    for length in (None, 512, 32):
        made = kind.from_pretrained(folder, device="cpu", dtype="float32", max_length=length)
        encoded = engine_of(made).tokenizer.encode([LONG])[0]
        assert max(map(len, encoded)) <= (length or 384)
        found[length] = len(encoded), getattr(made, call)([LONG])
        made.save_pretrained(tmp_path / str(length))
        made.unload()
    assert found[32][0] > found[None][0] >= found[512][0]
    again = kind.from_pretrained(tmp_path / "32", device="cpu", dtype="float32")
    assert engine_of(again).tokenizer.max_length == 32


@pytest.mark.parametrize("length", [0, 15, 513, 100_000, 1.5])
def test_a_length_beyond_the_positions_is_refused(saved, length):
    folder, kind, _ = saved
    with pytest.raises(InputError, match="max_length"):
        kind.from_pretrained(folder, device="cpu", max_length=length)


def test_a_folder_of_more_tokens_than_positions_is_refused(bert, tmp_path):
    make_scorer(bert).save_pretrained(tmp_path)
    manifest = tmp_path / "encoder" / "encoder.json"
    manifest.write_text(manifest.read_text().replace('"max_length": 384', '"max_length": 4096'))
    with pytest.raises(ModelLoadError, match=r"encoder.*max_length.*512"):
        BiLabelScorer.from_pretrained(tmp_path, device="cpu")


def test_a_classifier_reads_as_long_an_input_as_it_is_given(tmp_path):
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    folder = write_modernbert(tmp_path / "plain")
    config = AutoConfig.from_pretrained(folder, num_labels=1)
    torch.manual_seed(2)
    model = AutoModelForSequenceClassification.from_config(config).eval()
    model.classifier.weight.data /= 10  # within [-1, 1]
    model.save_pretrained(folder)
    usual, whole = (
        RetrievalEvaluator.from_pretrained(folder, device="cpu", dtype="float32", max_length=n)
        for n in (None, 2048)
    )
    assert [len(one._grader._encoded(*LONG)) for one in (usual, whole)] == [2, 1]
    text = f"{LONG[0]} [SEP] {LONG[1].text}"
    given = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    given.pop("token_type_ids", None)
    with torch.inference_mode():
        expected = model(**given).logits.item()
    assert whole.evaluate([LONG]) == pytest.approx([expected], abs=1e-5)
    whole.save_pretrained(tmp_path / "kept")
    kept = RetrievalEvaluator.from_pretrained(tmp_path / "kept", device="cpu", dtype="float32")
    assert kept.evaluate([LONG]) == whole.evaluate([LONG])
    with pytest.raises(InputError, match=r"max_length.*4096, the positions"):
        RetrievalEvaluator.from_pretrained(folder, device="cpu", max_length=4097)


def test_a_t5_classifier_takes_keyword_arguments(tmp_path):
    folder = write_t5_classifier(tmp_path)
    options = {"model_kwargs": {"attn_implementation": "eager"}, "max_length": 128, "device": "cpu"}
    made = RetrievalEvaluator.from_pretrained(folder, **options)
    assert made._grader.length == 128 and made._grader._model.config._attn_implementation == "eager"
    assert -1 <= made.evaluate([LONG])[0] <= 1


def test_an_encoder_passes_keyword_arguments_on(tmp_path):
    folder = write_bert(tmp_path)
    options = {"model_kwargs": {"attn_implementation": "eager"}, "device": "cpu"}
    encoder = Encoder(folder, tokenizer_kwargs={"do_lower_case": False}, **options)
    plain = Encoder(folder, device="cpu")
    assert abs(encoder.encode(["RIVER"]) - plain.encode(["RIVER"])).max() > 0.01
    assert abs(encoder.encode(["river"]) - plain.encode(["river"])).max() < 1e-5
    assert encoder._loaded._trunk.encoder.config._attn_implementation == "eager"
    with pytest.raises(InputError, match=r"max_length.*512"):
        Encoder.from_pretrained(folder, device="cpu", max_length=513)
