"""What holds for the scorer and the reader alike: queueing, batching, checking, pickling."""

import json
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple

import pytest
from tiny import PAIRS, make_reader, make_scorer

from fitrag_integrations import Passage
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader


def ask(model, pairs):
    return model.score(pairs) if isinstance(model, BiLabelScorer) else model.read(pairs)


def assert_equal(found, expected):
    """Compare scores or answers; float32 sums in another order differ in the sixth place."""
    for a, b in zip(found, expected, strict=True):
        for x, y in zip(astuple(a), astuple(b), strict=True):
            assert x == (pytest.approx(y, abs=1e-5) if isinstance(y, float) else y)


def test_a_bar_is_drawn_where_asked_for_and_changes_nothing(model, capsys):
    many = [PAIRS[i % len(PAIRS)] for i in range(129)]
    expected = ask(model, many)
    assert capsys.readouterr().err == ""
    call = model.score if isinstance(model, BiLabelScorer) else model.read
    assert_equal(call(many, show_progress=True), expected)
    assert f"{type(model).__name__}, inputs" in capsys.readouterr().err


def test_equal_pairs_are_read_once(model, monkeypatch):
    rows, compute = [], model._engine.compute

    def counted(ids, mask, types):
        rows.append(len(ids))
        return compute(ids, mask, types)

    expected = ask(model, PAIRS)
    monkeypatch.setattr(model._engine, "compute", counted)
    found = ask(model, [*PAIRS, *PAIRS])
    assert_equal(found, [*expected, *expected])
    twice = sum(rows)
    rows.clear()
    ask(model, PAIRS)
    assert twice == sum(rows)


def test_sixteen_threads_get_what_one_gets(model):
    pairs = PAIRS * 8
    expected = [ask(model, [pair])[0] for pair in pairs]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda pair: ask(model, [pair])[0], pairs))
    assert_equal(found, expected)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"device": "nowhere"}, "device` must be"),
        ({"dtype": "int8"}, "dtype` must be one of float32, bfloat16"),
        ({"batch_tokens": -1}, "batch_tokens` must be"),
        ({"batch_tokens": 0}, "batch_tokens` must be"),
    ],
)
def test_a_wrong_option_is_named(load, options, named):
    with pytest.raises(InputError, match=named):
        load(**options)


@pytest.mark.parametrize(
    "text", ["a\x00", "\u200bb", "👩‍👩‍👧‍👦", "אבגד مرحبا", "e\u0301" * 99, "x" * 5000, "[SEP] </s>"]
)
def test_any_text_is_answered(model, text):
    questions = ["who", "\x00?", "x" * 5000, "מי"]
    for answer in ask(model, [(question, Passage("1", text, text)) for question in questions]):
        assert astuple(answer) == astuple(answer)  # NaN is not itself


def test_half_precision_is_near(model, load):
    half = load(dtype="bfloat16")
    for found, expected in zip(ask(half, PAIRS), ask(model, PAIRS), strict=True):
        # 8 bits of mantissa, a relative 0.004 an operation, through two layers
        name = "has_answer" if isinstance(half, BiLabelScorer) else "score"
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=0.1)


def test_a_long_book_is_read_in_chunks(model):
    text = "the king wrote the score of a film, rome and the ocean in 1954. " * 3_200
    assert len(text) > 200_000
    whole, start = ask(model, [("who", Passage("1", text)), ("who", Passage("1", text[:200]))])
    assert whole != start and astuple(whole) == astuple(whole)


@pytest.mark.parametrize("make", [make_scorer, make_reader])
def test_what_was_never_saved_is_not_pickled(make, bert):
    made = make(bert)
    with pytest.raises(TypeError, match="save_pretrained it before"):
        pickle.dumps(made)
    assert "in memory" in repr(made)


@pytest.fixture
def two(folders, tmp_path):
    """A scorer and a reader over the scorer's encoder."""
    shutil.copytree(folders["bilabel"], tmp_path / "bilabel")
    shutil.copytree(folders["reader"], tmp_path / "reader")
    manifest = json.loads((tmp_path / "reader" / "model.json").read_text())
    manifest["encoder"] = "../bilabel/encoder"
    (tmp_path / "reader" / "model.json").write_text(json.dumps(manifest))
    scorer = BiLabelScorer.from_pretrained(tmp_path / "bilabel", device="cpu")
    return scorer, ExtractiveReader.from_pretrained(tmp_path / "reader", device="cpu")


def test_models_over_one_encoder_share_an_engine(two):
    scorer, reader = two
    assert scorer._engine is reader._engine
    answers = reader.read(PAIRS)
    scorer.unload()
    scorer.unload()
    assert reader.read(PAIRS) == answers
    with pytest.raises(ModelLoadError, match="unloaded"):  # also not through its neighbour
        scorer.score(PAIRS)
    reader.unload()
    with pytest.raises(ModelLoadError, match="unloaded"):
        reader.read(PAIRS)
