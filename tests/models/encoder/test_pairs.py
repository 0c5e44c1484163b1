"""Pairs as token ids: segments, places in the passage, chunks that leave nothing out."""

from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny import MARKS, WORDS, tokenizer_of

from fitrag_integrations import Passage
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.pairs import OVERLAP_TOKENS, QUESTION_TOKENS, PairTokenizer

QUICK = settings(max_examples=40)
cached = cache(tokenizer_of)
texts = st.text(st.one_of(st.sampled_from(" .the riverÉ\n" + MARKS), st.characters(codec="utf-8")))


@pytest.fixture(scope="module")
def pairs(bert):
    return tokenizer_of(bert)


@pytest.fixture(scope="module")
def tokens_of(bert):
    return load_base(bert)[1]


def uncovered(text, chunks, read):
    """Give the characters a tokenizer reads that no token of any chunk stands for."""
    covered = {i for chunk in chunks for span in chunk.offsets if span for i in range(*span)}
    return [c for i, c in enumerate(text) if i not in covered and read(c)]


def reads(tokenizer):
    """Say of a character whether a tokenizer makes a token of it."""
    return lambda c: bool(tokenizer.tokenize(c))


def test_a_pair_by_hand(pairs, tokens_of):
    ((one,),) = pairs.encode([("Who wrote", Passage("1", "the  king", "Rome"))])
    tokens = ["[CLS]", "who", "wrote", "[SEP]", "rome", ".", "the", "king", "[SEP]"]
    assert tokens_of.convert_ids_to_tokens(one.tokens[0].tolist()) == tokens
    assert one.tokens[2].tolist() == [0, 1, 1, 0, 2, 2, 2, 2, 0]
    assert one.tokens[1].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert one.offsets == [None] * 6 + [(0, 3), (5, 9), None]
    assert len(one) == 9 and pairs.pad_id == 0
    ((one,),) = pairs.encode([("who", Passage("1", "rome"))])  # no title leaves no trace
    assert tokens_of.convert_ids_to_tokens(one.tokens[0].tolist()) == [
        "[CLS]",
        "who",
        "[SEP]",
        "rome",
        "[SEP]",
    ]
    assert one.offsets[3] == (0, 4)


def test_a_t5_pair_by_hand(t5):
    ((one,),) = tokenizer_of(t5).encode([("who wrote", Passage("1", "the  king", "rome"))])
    tokens = ["▁who", "▁wrote", "</s>", "▁rome", ".", "▁the", "▁king", "</s>"]
    assert load_base(t5)[1].convert_ids_to_tokens(one.tokens[0].tolist()) == tokens
    assert one.tokens[2].tolist() == [1, 1, 0, 2, 2, 2, 2, 0]
    assert one.offsets == [None] * 5 + [(0, 3), (5, 9), None]


@QUICK
@given(texts, texts)
@example("שלום rome مرحبا", "אב")
@example("👩‍👩‍👧‍👦 rome \x00\ufffd", "\x00")
@example("e\u0301\u0301e 가 İ ﬁ", "")
def test_offsets_slice_the_passage(pairs, tokens_of, text, title):
    fold = tokens_of.backend_tokenizer.normalizer.normalize_str
    chunks = pairs.encode([("who", Passage("1", text, title))])[0]
    for chunk in chunks:
        places = [span for span in chunk.offsets if span]
        assert places == sorted(places)
        for token, segment, span in zip(
            chunk.tokens[0].tolist(), chunk.tokens[2].tolist(), chunk.offsets, strict=True
        ):
            if span:
                assert segment == 2 and 0 <= span[0] < span[1] <= len(text)
                piece = tokens_of.convert_ids_to_tokens(token).removeprefix("##")
                assert piece == "[UNK]" or piece in fold(text[slice(*span)])
    assert uncovered(text, chunks, reads(tokens_of)) == []


words = st.sampled_from([*WORDS, "danubian", "blacksmith", "x" * 30, "1954,"])


@QUICK
@given(st.lists(words, min_size=100, max_size=300).map(" ".join), st.sampled_from([200, 384]))
def test_chunks_of_a_long_passage_fit_overlap_and_cover_every_token(base, text, max_length):
    passage = Passage("1", text, "the city")
    chunks = cached(base, max_length=max_length).encode([("who wrote", passage)])[0]
    assert max(map(len, chunks)) <= max_length
    for left, right in zip(chunks, chunks[1:], strict=False):
        end = max(span[1] for span in left.offsets if span)
        shared = [span for span in right.offsets if span and span[0] < end]
        assert len(shared) >= OVERLAP_TOKENS // 2
        assert (left.tokens[0, :4] == right.tokens[0, :4]).all() and list(
            left.tokens[2][:4]
        ) == list(right.tokens[2][:4])
    assert uncovered(text, chunks, str.isalnum) == []


def test_the_last_chunk_loses_nothing_where_a_cut_word_has_more_tokens(pairs):
    text = "blacksmith " * 347  # black ##smith; the second chunk begins at ##smith, and is full
    chunks = pairs.encode([("who wrote", Passage("1", text))])[0]
    assert len(chunks) == 2
    assert uncovered(text, chunks, str.isalnum) == []


@pytest.mark.parametrize("title", ["", "the king of rome " * 60, "the king of rome " * 150])
def test_a_long_title_does_not_push_the_passage_out(pairs, title):
    text = "the danube is a river " * 100
    chunks = pairs.encode([("what river", Passage("1", text, title))])[0]
    assert max(map(len, chunks)) <= 384
    assert uncovered(text, chunks, str.isalnum) == []


def test_a_passage_of_only_a_title_is_cut(pairs):
    (chunk,) = pairs.encode([("who", Passage("1", "", "rome " * 999))])[0]
    assert len(chunk) == 384 and set(chunk.offsets) == {None}


def test_a_long_question_is_capped(pairs):
    question = "the king of rome " * 100
    ((one,),) = pairs.encode([(question, Passage("1", "rome"))])
    assert one.tokens[2].tolist().count(1) == QUESTION_TOKENS
    assert [span for span in one.offsets if span] == [(0, 4)]
    ((short,),) = pairs.encode([("the king of rome " * 32, Passage("1", "rome"))])
    assert one == short


def test_a_question_that_is_no_token_and_half_a_surrogate_pair_are_read(pairs):
    ((one,),) = pairs.encode([("\x00" * (QUESTION_TOKENS + 1), Passage("1", "rome"))])
    assert one.tokens[2].tolist() == [0, 0, 2, 0]
    ((one,),) = pairs.encode([("who \ud800", Passage("1", "\udfff rome", "\ud800"))])
    assert (2, 6) in one.offsets


def test_a_token_that_takes_the_blank_before_it_keeps_its_place():
    """As in ModernBERT, whose tokens are runs of bytes with the blank before them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokens = ["[PAD]", "[UNK]", "rome", ".", "who", "the", "Ġthe", "Ġking"]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.TemplateProcessing(pair="$A:0 $B:1")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]")
    ((one,),) = PairTokenizer(fast).encode([("who", Passage("1", "the king", "rome"))])
    assert [span for span in one.offsets if span] == [(0, 3), (4, 8)]


def test_training_reads_the_first_chunk(pairs):
    assert pairs.encode([]) == [] == pairs.encode_cut([])
    pair = ("who", Passage("1", "the king " * 300))
    assert pairs.encode_cut([pair, pair]) == [pairs.encode([pair])[0][0]] * 2


def test_vocabularies_are_sets_of_ids(pairs, tokens_of):
    found = list(pairs.vocabularies(["the king", "", "the the"] * 100))
    the, king = tokens_of.convert_tokens_to_ids(["the", "king"])
    assert found == [{the, king}, set(), {the}] * 100
    assert pairs.vocabulary == len(tokens_of)


def test_pairs_are_what_the_tokenizer_makes_of_them_however_often(base):
    """Questions and passages are tokenized apart, and kept: that changes no token."""
    pairs, fast = tokenizer_of(base), load_base(base)[1]
    asked = [("who wrote", Passage("1", "the  king", "rome")), ("what river", Passage("2", "the "))]
    expected = fast(
        [question for question, _ in asked],
        [f"{p.title}. {p.text}" if p.title else p.text for _, p in asked],
        return_token_type_ids=True,
    )
    for _ in range(2):
        found = [one for (one,) in pairs.encode([*asked, *asked])]
        assert [one.tokens[0].tolist() for one in found] == expected["input_ids"] * 2
        assert [one.tokens[1].tolist() for one in found] == expected["token_type_ids"] * 2


def test_what_is_kept_of_passages_is_bounded(bert, monkeypatch):
    monkeypatch.setattr("fitrag_integrations.models.encoder.pairs.KEPT_TOKENS", 9)
    pairs = tokenizer_of(bert)
    asked = [("who", Passage(str(n), "the king of rome " * n)) for n in range(1, 5)]
    assert [one.tokens[0].tolist() for (one,) in pairs.encode(asked)] == [
        tokenizer_of(bert).encode([pair])[0][0].tokens[0].tolist() for pair in asked
    ]
    assert sum(kept.shape[1] for kept in pairs._passages._kept.values()) <= 9
