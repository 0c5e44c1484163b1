"""Lexical evidence by hand, and what holds for every pair."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import encoded

from fitrag_integrations.models.encoder.pairs import Batch
from fitrag_integrations.models.evidence.lexical import (
    COUNT,
    WINDOW,
    inverse_document_frequency,
    lexical_features,
)

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
        assert len(row) == COUNT
        assert all(-1e-9 <= value <= 1 + 1e-9 for value in (share, plain, stretch, bm25))
        assert stretch <= share + 1e-9 and bm25 <= share + 1e-9 and length >= 0
