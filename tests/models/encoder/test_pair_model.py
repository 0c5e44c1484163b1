"""What holds for the scorer and the reader alike: queueing, batching, checking, pickling."""

import json
import pickle
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple

import pytest
from tiny import PAIRS, make_reader, make_scorer

from fitrag_integrations import Passage
from fitrag_integrations.core.progress import BLOCK
from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader


def ask(model, pairs):
    return model.score(pairs) if isinstance(model, BiLabelScorer) else model.read(pairs)


def aask(model, pairs):
    return model.ascore(pairs) if isinstance(model, BiLabelScorer) else model.aread(pairs)


def assert_equal(found, expected):
    """Compare scores or answers; float32 sums in another order differ in the sixth place."""
    for a, b in zip(found, expected, strict=True):
        for x, y in zip(astuple(a), astuple(b), strict=True):
            assert x == (pytest.approx(y, abs=1e-5) if isinstance(y, float) else y)


def test_a_bar_is_drawn_where_asked_for_and_changes_nothing(model, capsys):
    many = [PAIRS[i % len(PAIRS)] for i in range(BLOCK + 1)]
    expected = ask(model, many)
    assert capsys.readouterr().err == ""
    call = model.score if isinstance(model, BiLabelScorer) else model.read
    assert_equal(call(many, show_progress=True), expected)
    assert f"{type(model).__name__}, inputs" in capsys.readouterr().err


@pytest.mark.parametrize("batch_tokens", [1, 500, 100_000])
def test_batches_and_order_do_not_matter(model, load, batch_tokens):
    expected = [ask(model, [pair])[0] for pair in PAIRS]
    other = load(batch_tokens=batch_tokens)
    order = random.Random(batch_tokens).sample(range(len(PAIRS)), len(PAIRS))
    found = ask(other, [PAIRS[i] for i in order])
    assert_equal(found, [expected[i] for i in order])


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


def test_answers_differ_and_are_plain_python(model):
    assert len(set(ask(model, PAIRS))) == len(PAIRS)
    for answer in ask(model, PAIRS):
        assert {type(value) for value in astuple(answer)} <= {float, int, str}


def test_sixteen_threads_get_what_one_gets(model):
    pairs = PAIRS * 8
    expected = [ask(model, [pair])[0] for pair in pairs]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda pair: ask(model, [pair])[0], pairs))
    assert_equal(found, expected)


async def test_nothing_asked_is_nothing(model):
    assert ask(model, []) == [] == await aask(model, [])


@pytest.mark.parametrize(
    ("pair", "named"),
    [
        (("  ", PAIRS[0][1]), r"pairs\[1\].question` must be"),
        ((None, PAIRS[0][1]), r"pairs\[1\].question` must be"),
        (("who", Passage("1", " \n")), r"pairs\[1\].passage.text"),
        (("who", "rome"), r"pairs\[1\]` must be a \(question, Passage\) tuple"),
        (["who", PAIRS[0][1]], r"pairs\[1\]` must be"),
        (("who",), r"pairs\[1\]"),
        ("who", r"pairs\[1\]` must be .*got "),
    ],
)
async def test_a_wrong_pair_is_named(model, pair, named):
    with pytest.raises(InputError, match=named):
        ask(model, [PAIRS[0], pair, PAIRS[1]])
    with pytest.raises(InputError, match=named):
        await aask(model, [PAIRS[0], pair, PAIRS[1]])


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
@pytest.mark.parametrize("question", ["who", "\x00?", "x" * 5000, "מי"])
def test_any_text_is_answered(model, question, text):
    (answer,) = ask(model, [(question, Passage("1", text, text))])
    assert astuple(answer) == astuple(answer)  # NaN is not itself


def test_half_precision_is_near(model, load):
    half = load(dtype="bfloat16")
    for found, expected in zip(ask(half, PAIRS), ask(model, PAIRS), strict=True):
        # 8 bits of mantissa, a relative 0.004 an operation, through two layers
        name = "has_answer" if isinstance(half, BiLabelScorer) else "score"
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=0.1)


def test_a_megabyte_is_read_in_chunks(model):
    text = "the king wrote the score of a film, rome and the ocean in 1954. " * 15_700
    assert len(text) > 1_000_000
    whole, start = ask(model, [("who", Passage("1", text)), ("who", Passage("1", text[:200]))])
    assert whole != start and astuple(whole) == astuple(whole)


def test_a_pickle_is_the_folder_and_the_options(load, model):
    made = load(batch_tokens=77)
    pickled = pickle.dumps(made)
    assert len(pickled) < 1000
    again = pickle.loads(pickled)
    assert again._engine is made._engine is not model._engine and again._engine.budget == 77
    assert_equal(ask(again, PAIRS), ask(model, PAIRS))


@pytest.mark.parametrize("make", [make_scorer, make_reader])
def test_what_was_never_saved_is_not_pickled(make, bert):
    made = make(bert)
    with pytest.raises(TypeError, match="save_pretrained it before"):
        pickle.dumps(made)
    assert "in memory" in repr(made)


def test_repr_names_folder_and_device(model, kind):
    assert repr(model) == f"{type(model).__name__}({kind!r}, device='cpu')"


async def test_unloading_is_final(load):
    made = load(batch_tokens=99)
    assert ask(made, PAIRS[:1])
    made.unload()
    with pytest.raises(ModelLoadError, match="unloaded: load it again"):
        ask(made, PAIRS)
    with pytest.raises(ModelLoadError, match="unloaded: load it again"):
        await aask(made, PAIRS)
    assert ask(load(batch_tokens=99), PAIRS[:1])


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
