"""What counts tokens: estimates, encodings, tokenizers and callables."""

import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from token_fakes import slow_tokenizer, small_bpe, small_encoding, wordpiece

from fitrag_integrations import ModelLoadError, Passage
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import Crag, FitRag, approximate_tokens, tiktoken_counter
from fitrag_integrations.methods.budget import Budget
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.text.tokens import counter_for
from fitrag_integrations.types import Excerpt

TEXT = "Nino Rota wrote the score of Amarcord in 1973."
HALF = "half \ud83d a character"


@pytest.fixture
def shipped(monkeypatch):
    """Use the encodings that llama_index.core brings, as there is no network."""
    pytest.importorskip("tiktoken")
    pytest.importorskip("llama_index")
    (folder,) = find_spec("llama_index.core").submodule_search_locations
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(Path(folder) / "_static" / "tiktoken_cache"))


def test_nothing_is_the_estimate_and_a_callable_itself():
    assert counter_for() is counter_for(None) is counter_for("approximate") is approximate_tokens
    assert approximate_tokens(TEXT) == 11
    assert counter_for(len) is len


def test_bare_encodings_and_tokenizers_count_too():
    encoding, tokenizer = small_encoding(), wordpiece()
    assert counter_for(encoding)(TEXT) == len(encoding.encode(TEXT))
    assert counter_for(encoding)(HALF) > 0
    assert counter_for(tokenizer.backend_tokenizer)(TEXT) == counter_for(tokenizer)(TEXT)


@pytest.mark.parametrize(("name", "tokens"), [("cl100k_base", 16), ("o200k_base", 15)])
def test_the_name_of_an_encoding_counts_to_the_token(shipped, name, tokens):
    import tiktoken

    count = counter_for(name)
    assert count(TEXT) == len(tiktoken.get_encoding(name).encode(TEXT)) == tokens
    assert count("<|endoftext|>") > 1  # text, not the end of one
    assert count == tiktoken_counter(name) == counter_for(tiktoken.get_encoding(name))
    assert pickle.loads(pickle.dumps(count))(TEXT) == tokens


RULED = """
=======  ==============================  =======
Name     Meaning                         Default
=======  ==============================  =======
wait     Seconds to wait for a boat.     ``30``
=======  ==============================  =======

+------+---------------------+
| crew | Sailors on board... |
+------+---------------------+
"""


def test_a_ruler_costs_what_a_tokenizer_takes_for_it(shipped):
    assert 0.6 < approximate_tokens(RULED) / counter_for("cl100k_base")(RULED) < 1.2


@pytest.mark.parametrize("make", [small_bpe, wordpiece, slow_tokenizer])
def test_a_tokenizer_counts_the_text_alone(make):
    tokenizer = make()
    count = counter_for(tokenizer)
    expected = len(tokenizer.encode(TEXT, add_special_tokens=False))
    assert count(TEXT) == expected < len(tokenizer.encode(TEXT))
    assert count(HALF) > 0 == count("")
    assert pickle.loads(pickle.dumps(count))(TEXT) == expected


@pytest.mark.parametrize("make", [small_bpe, wordpiece, slow_tokenizer])
def test_neither_truncation_nor_padding_of_a_tokenizer_counts(make):
    tokenizer = make()
    before = counter_for(tokenizer)(TEXT)
    tokenizer(TEXT, truncation=True, max_length=3)
    tokenizer(TEXT, padding="max_length", max_length=300)
    count = counter_for(tokenizer)
    assert count(TEXT) == before > 3
    tokenizer(TEXT, truncation=True, max_length=3)  # what its owner does later is not ours
    assert count(TEXT) == before


@pytest.mark.parametrize("wrong", [3, [], {}, object(), int, b"cl100k_base"])
def test_what_counts_nothing_is_refused_with_what_to_do(wrong):
    with pytest.raises(InputError, match="must be .*Hugging Face .* lambda text: len"):
        counter_for(wrong)


def test_an_unknown_encoding_names_the_known_ones():
    pytest.importorskip("tiktoken")
    with pytest.raises(InputError, match=r"count_tokens` must be .*tiktoken knows .*o200k_base"):
        FitRag(count_tokens="gpt")


def test_an_encoding_that_cannot_be_fetched_says_where_to_put_it(monkeypatch, tmp_path):
    pytest.importorskip("tiktoken")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ModelLoadError, match="TIKTOKEN_CACHE_DIR"):
        counter_for("p50k_base")


def test_a_counter_that_gives_tokens_instead_of_their_number_is_told_of():
    excerpts = [Excerpt.whole(Passage("p", TEXT))]
    with pytest.raises(InputError, match=r"count_tokens` must be .*lambda text: len\("):
        _ = run(Budget(9, count=str.split).fitted(excerpts)).value
    assert run(Budget(9, count=lambda text: np.int64(9)).fitted(excerpts)).value.kept == excerpts


@pytest.mark.parametrize("kind", [FitRag, Crag, TokenReducer])
def test_methods_take_all_of_them(shipped, kind):
    for given in ("cl100k_base", small_encoding(), wordpiece(), len):
        method = kind(count_tokens=given)
        assert method.count_tokens(TEXT) == counter_for(given)(TEXT)
    assert kind().count_tokens is None
    assert kind(count_tokens="cl100k_base") == kind(count_tokens="cl100k_base")
