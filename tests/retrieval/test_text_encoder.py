"""The dense encoder, over the real MiniLM and over tiny random checkpoints."""

import asyncio
import gc
import json
import pickle
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitrag_integrations import InputError, ModelLoadError
from fitrag_integrations.retrieval import Encoder

WORDS = ["the", "a", "river", "city", "king", "wrote", "score", "film", "rome", "ocean", "1954"]
TEXTS = [
    "Who wrote the score of Amarcord?",
    "Nino Rota wrote the music for Amarcord, a film by Federico Fellini from 1973. " * 6,
    "Rome",
    "The Pacific is the largest ocean.",
]


@pytest.fixture(scope="module")
def tiny(bert):
    return Encoder.from_pretrained(bert, device="cpu", batch_tokens=24)


def test_minilm_gives_the_same_vector_alone_and_in_a_batch(minilm):
    together = minilm.encode(TEXTS)
    alone = np.concatenate([minilm.encode([text]) for text in TEXTS])
    assert together.shape == (4, 384) and together.dtype == np.float32
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert together[0] @ together[1] > max(together[0] @ together[2], together[0] @ together[3])


def test_minilm_reads_256_tokens(minilm):
    assert minilm.settings == {"pooling": "mean", "normalize": True, "max_tokens": 256}
    long = "ocean " * 254  # and two tokens that frame it
    cut, whole = minilm.encode([long + "river " * 500, long])
    np.testing.assert_allclose(cut, whole, atol=1e-5)


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=25), min_size=1, max_size=8))
@settings(max_examples=20)
def test_order_and_company_do_not_matter(tiny, rows):
    texts = [" ".join(row) for row in rows]
    np.testing.assert_allclose(tiny.encode(texts), tiny.encode(texts[::-1])[::-1], atol=1e-5)


def test_without_a_recipe_tokens_are_averaged_and_not_normalised(tiny, bert):
    import torch
    from transformers import AutoModel, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(bert)("rome film", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        expected = AutoModel.from_pretrained(bert)(input_ids=ids).last_hidden_state.mean(1)
    np.testing.assert_allclose(tiny.encode(["rome film"]), expected.numpy(), atol=1e-5)
    assert tiny.settings == {"pooling": "mean", "normalize": False, "max_tokens": 512}


def write_recipe(folder, *modules, pooling):
    kinds = [
        {"type": f"sentence_transformers.models.{name}", "path": path} for name, path in modules
    ]
    (folder / "modules.json").write_text(json.dumps(kinds))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


@pytest.mark.parametrize("pooling", [{"pooling_mode_cls_token": True}, {"pooling_mode": "cls"}])
def test_the_recipe_beside_the_weights_is_followed(tmp_path, write_bert, pooling):
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = write_bert(tmp_path)
    modules = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
    write_recipe(tmp_path, *modules, pooling={**pooling, "pooling_mode_mean_tokens": False})
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    encoder = Encoder.from_pretrained(folder, device="cpu")
    assert encoder.settings == {"pooling": "first", "normalize": True, "max_tokens": 16}
    ids = AutoTokenizer.from_pretrained(folder)("rome", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        first = AutoModel.from_pretrained(folder)(input_ids=ids).last_hidden_state[:, 0]
    expected = first / first.norm()
    np.testing.assert_allclose(encoder.encode(["rome"]), expected.numpy(), atol=1e-5)


def test_a_recipe_that_cannot_be_followed_is_refused(tmp_path, write_bert):
    folder = write_bert(tmp_path)
    modules = ("Transformer", ""), ("Pooling", "1_Pooling")
    write_recipe(tmp_path, *modules, pooling={"pooling_mode_max_tokens": True})
    with pytest.raises(ModelLoadError, match="max_tokens"):
        Encoder.from_pretrained(folder, device="cpu")
    given = Encoder.from_pretrained(folder, device="cpu", pooling="first", normalize=True)
    assert given.settings["pooling"] == "first"
    (tmp_path / "modules.json").write_text("no json")
    with pytest.raises(ModelLoadError, match="could not be loaded"):
        Encoder.from_pretrained(folder, device="cpu")


def test_t5_gives_its_encoder(t5):
    encoder = Encoder.from_pretrained(t5, device="cpu")
    together = encoder.encode(["rome", "the river of the king", ""])
    assert together.shape == (3, 32) == (3, encoder.width)
    np.testing.assert_allclose(together[1:2], encoder.encode(["the river of the king"]), atol=1e-5)


def test_options_are_kept_by_pickle_and_weights_are_not(bert):
    options = {"device": "cpu", "dtype": "bfloat16", "pooling": "first", "normalize": True}
    encoder = Encoder(bert, max_tokens=8, batch_tokens=64, **options)
    packed = pickle.dumps(encoder)
    assert len(packed) < 1000
    again = pickle.loads(packed)
    assert again.name == encoder.name and again.settings == encoder.settings
    np.testing.assert_array_equal(again.encode(["rome"]), encoder.encode(["rome"]))


def test_bfloat16_is_near_float32(tiny, bert):
    import torch

    half = Encoder(bert, device=torch.device("cpu"), dtype=torch.bfloat16)
    exact, found = tiny.encode(["the king of rome"]), half.encode(["the king of rome"])
    assert found.dtype == np.float32
    assert 0 < np.linalg.norm(found - exact) / np.linalg.norm(exact) < 0.05


async def test_the_event_loop_stays_free(tiny):
    pending = asyncio.create_task(tiny.aencode(["the king of rome"] * 400))
    turns = 0
    while not pending.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 2
    assert (await pending).shape == (400, 32)
    assert (await tiny.aencode([])).shape == (0, 32) == tiny.encode([]).shape


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\x00 rome \x00",
        "مرحبا بالعالم",
        "👩‍👩‍👧‍👦 rome",
        "\ud800 rome",
        "é́́" * 50,
        "x" * 100_000,
    ],
)
def test_any_text_gets_a_finite_vector(tiny, minilm, text):
    for encoder in (tiny, minilm):
        assert np.isfinite(encoder.encode([text, "rome"])).all()


def test_unloading_is_final(bert):
    encoder = Encoder.from_pretrained(bert, device="cpu")
    encoder.unload()
    encoder.unload()
    with pytest.raises(ModelLoadError, match="unloaded"):
        encoder.encode(["rome"])


def test_a_forgotten_encoder_is_freed_with_its_thread(bert):
    before = threading.active_count()
    encoder = Encoder.from_pretrained(bert, device="cpu")
    gone = weakref.ref(encoder)
    del encoder
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gone() is None and threading.active_count() <= before


def test_bad_texts_are_named(tiny):
    for texts, named in (("rome", "texts"), ([1], r"texts\[0\]"), (None, "texts")):
        with pytest.raises(InputError, match=named):
            tiny.encode(texts)


def test_what_is_not_there_is_named(tmp_path, offline):
    with pytest.raises(InputError, match="name_or_dir"):
        Encoder(" ")
    with pytest.raises(ModelLoadError, match="absent"):
        Encoder.from_pretrained(str(tmp_path / "absent"))
    with pytest.raises(ModelLoadError, match="nobody/nothing"):
        Encoder.from_pretrained("nobody/nothing")
