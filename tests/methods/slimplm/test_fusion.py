"""Reciprocal rank fusion against numbers worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.methods.slimplm.steps import fuse, usable_fused
from fitrag_integrations.types import Passage
from fitrag_integrations.values.selected import Selection


def some(text):
    return [Passage(name, f"text of {name}") for name in text]


def ids(fused):
    return "".join(excerpt.passage.id for excerpt in fused)


def test_ranks_add_up():
    fused = fuse([some("abc"), some("bd")])
    assert ids(fused) == "badc"
    expected = [1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63]
    assert [excerpt.score for excerpt in fused] == pytest.approx(expected)
    assert all(excerpt.text == excerpt.passage.text for excerpt in fused)


def test_a_small_k_trusts_the_first_place():
    lists = [some("axx"[:1]), some("pb"), some("qb")]
    assert ids(fuse(lists)) == "bapq"
    assert ids(fuse(lists, rrf_k=0)) == "apqb"  # 1, 1, 1 and 1/2 + 1/2: equals by best rank


def test_one_text_is_one_passage_whatever_its_id():
    first, again = Passage("1", "same", "Title"), Passage("2", "same", "Title")
    other = Passage("1", "same", "Another title")
    fused = fuse([[first, again], [other, again]])
    assert [excerpt.passage for excerpt in fused] == [first]
    assert fused[0].score == pytest.approx(2 / 61)
    fused = fuse([[first, again], [other, again]], deduplicate=False)
    assert [excerpt.passage for excerpt in fused] == [first, other]
    assert fused[0].score == pytest.approx(1 / 61 + 1 / 62), "once a list, at its best rank"


def test_blank_passages_hold_a_rank_and_are_left_out():
    fused, notes = usable_fused([[Passage("0", " "), *some("a")], []], selection=Selection())
    assert ids(fused) == "a" and fused[0].score == pytest.approx(1 / 62)
    assert notes == ("1 of 2 passages left out: no text",)
    _, notes = usable_fused([[], []], selection=Selection())
    assert notes == ("nothing to refer to: no passage with text was retrieved",)


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=5))
def test_every_passage_is_there_once_and_best_first(names):
    fused = fuse([some(each) for each in names])
    assert sorted(ids(fused)) == sorted(set("".join(map("".join, names))))
    scores = [excerpt.score for excerpt in fused]
    assert scores == sorted(scores, reverse=True)
    assert ids(fuse([some(each) for each in names])) == ids(fused)
