"""Lexical features by hand, those about the title, and what holds for every pair."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import encoded, encoded_pair, tokenizer_of

from fitrag_integrations import Passage
from fitrag_integrations.models.encoder.lexical import (
    COUNT,
    LEXICAL_COUNT,
    WINDOW,
    Clues,
    inverse_document_frequency,
    lexical_features,
)
from fitrag_integrations.models.encoder.pairs import Batch

RARITY = [9.0, 1.0, 3.0, 5.0, 0.5]
ids = st.lists(st.integers(1, 4), max_size=90)


def features(pairs, rarity):
    return lexical_features(Batch.of(pairs), rarity).tolist()


def test_rarity_by_hand():
    found = inverse_document_frequency([{0, 1}, {0}, {0, 2}], 4)
    expected = [math.log(1 + (3 - n + 0.5) / (n + 0.5)) for n in (3, 1, 1, 0)]
    assert found == pytest.approx(expected)


def test_a_pair_by_hand():
    ((share, plain, stretch, bm25, length),) = features([encoded([1, 2, 2], [2, 3, 2])], RARITY)
    damp = 0.9 * (1 - 0.4 + 0.4 * 3 / 150)
    assert share == stretch == 3 / 4  # of the question's distinct 1 and 2, only 2 is there
    assert plain == 1 / 2
    assert bm25 == pytest.approx(3 * 2 / (2 + damp) / 4)
    assert length == pytest.approx(math.log(4) / 5)


@pytest.mark.parametrize(("apart", "stretch"), [(WINDOW - 1, 1.0), (WINDOW, 0.75)])
def test_the_best_stretch_is_has_its_length(apart, stretch):
    passage = [1, *[4] * (apart - 1), 2]
    ((share, _, found, _, _),) = features([encoded([1, 2], passage)], RARITY)
    assert (share, found) == (1.0, stretch)


def test_a_token_counts_once_in_a_stretch():
    ((_, _, found, _, _),) = features([encoded([1, 2], [1] * 50)], RARITY)
    assert found == 1 / 4


@pytest.mark.parametrize(("question", "passage"), [([], []), ([], [1]), ([1], []), ([1], [2])])
def test_nothing_in_common_is_zero(question, passage):
    ((*shares, _),) = features([encoded(question, passage)], RARITY)
    assert shares == [0, 0, 0, 0]


@given(st.lists(st.tuples(ids, ids), max_size=4))
def test_features_are_in_range_whatever_the_order(rows):
    pairs = [encoded(question, passage) for question, passage in rows]
    found = features(pairs, RARITY)
    assert found == features(pairs[::-1], RARITY)[::-1]
    for row in found:
        share, plain, stretch, bm25, length = row
        assert len(row) == LEXICAL_COUNT
        assert all(-1e-9 <= value <= 1 + 1e-9 for value in (share, plain, stretch, bm25))
        assert stretch <= share + 1e-9 and bm25 <= share + 1e-9 and length >= 0


TITLE_RARITY = [float(i) for i in range(30)]
OPENING = 29


def pair(question, title, text=(3, 4)):
    """Frame ids by 0s; the full stop after a title is 28, and text tokens have a place."""
    named = [*title, 28] if title else []
    ids = [0, *question, 0, *named, *text, 0]
    segments = [0, *[1] * len(question), 0, *[2] * (len(named) + len(text)), 0]
    offsets = [None] * (len(question) + 2 + len(named))
    offsets += [(i, i + 1) for i in range(len(text))]
    return encoded_pair(ids, segments, [*offsets, None])


def title_clues(*given, **more):
    (row,) = Clues(TITLE_RARITY, {OPENING}).features([pair(*given, **more)]).tolist()
    assert len(row) == COUNT
    return row[5:]


@pytest.mark.parametrize(
    ("question", "title", "clues"),
    [
        pytest.param([10, 5, 6, 9], [5, 6], [1, 1, 1, 11 / 30], id="held"),
        pytest.param([6, 10, 5], [5, 6], [1, 0, 1, 11 / 21], id="in another order"),
        pytest.param([10, 5], [5, 6], [1, 0, 5 / 11, 5 / 15], id="in part"),
        pytest.param([10, 5], [], [0, 0, 0, 0], id="none"),
    ],
)
def test_a_title_in_a_question(question, title, clues):
    assert title_clues(question, title) == pytest.approx(clues)


def test_a_namesakes_bracket_is_left_out():
    assert title_clues([10, 5, 6], [5, 6, OPENING, 7, 8])[1] == 1.0
    assert title_clues([10, 7], [OPENING, 7])[2] > 0  # a title that begins with one is whole


def test_no_pairs():
    assert Clues(TITLE_RARITY, {OPENING}).features([]).shape == (0, COUNT)


def test_real_tokens(base):
    tokenizer = tokenizer_of(base)
    clues = Clues.of(tokenizer, [1.0] * tokenizer.vocabulary)
    titles = ("danube", "danube (river)", "rome", "")
    pairs = [("where is the danube", Passage("", "a river.", title)) for title in titles]
    found = clues.features(tokenizer.encode_cut(pairs))[:, 5:7].tolist()
    assert found == [[1, 1], [1, 1], [1, 0], [0, 0]]
