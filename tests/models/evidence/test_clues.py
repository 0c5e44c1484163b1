"""The clues about the title, by hand."""

import pytest
from tiny import tokenizer_of

from fitrag_integrations import Passage
from fitrag_integrations.models.encoder.pairs import EncodedPair
from fitrag_integrations.models.evidence.clues import COUNT, Clues

RARITY = [float(i) for i in range(30)]
OPENING = 29


def pair(question, title, text=(3, 4)):
    """Frame ids by 0s; the full stop after a title is 28, and text tokens have a place."""
    named = [*title, 28] if title else []
    ids = [0, *question, 0, *named, *text, 0]
    segments = [0, *[1] * len(question), 0, *[2] * (len(named) + len(text)), 0]
    offsets = [None] * (len(question) + 2 + len(named))
    offsets += [(i, i + 1) for i in range(len(text))]
    return EncodedPair.of(ids, [0] * len(ids), segments, [*offsets, None])


def title_clues(*given, **more):
    (row,) = Clues(RARITY, {OPENING}).features([pair(*given, **more)]).tolist()
    assert len(row) == COUNT
    return row[5:]


def test_a_title_that_the_question_holds():
    assert title_clues([10, 5, 6, 9], [5, 6]) == pytest.approx([1, 1, 1, 11 / 30])


def test_a_title_that_it_holds_in_another_order():
    assert title_clues([6, 10, 5], [5, 6])[:3] == pytest.approx([1, 0, 1])


def test_a_namesakes_bracket_is_left_out():
    assert title_clues([10, 5, 6], [5, 6, OPENING, 7, 8])[1] == 1.0
    assert title_clues([10, 7], [OPENING, 7])[2] > 0  # a title that begins with one is whole


def test_a_title_it_holds_in_part():
    assert title_clues([10, 5], [5, 6]) == pytest.approx([1, 0, 5 / 11, 5 / 15])


def test_no_title():
    assert title_clues([10, 5], []) == [0, 0, 0, 0]


def test_no_pairs():
    assert Clues(RARITY, {OPENING}).features([]).shape == (0, COUNT)


def test_real_tokens(base):
    tokenizer = tokenizer_of(base)
    clues = Clues.of(tokenizer, [1.0] * tokenizer.vocabulary)
    titles = ("danube", "danube (river)", "rome", "")
    pairs = [("where is the danube", Passage("", "a river.", title)) for title in titles]
    found = clues.features(tokenizer.encode_cut(pairs))[:, 5:7].tolist()
    assert found == [[1, 1], [1, 1], [1, 0], [0, 0]]
