"""Cropping keeps the answer; a group drops titles alike."""

import random

from hypothesis import example, given
from hypothesis import strategies as st
from training_rows import reading_rows

from fitrag_integrations import Passage
from fitrag_integrations.training.reader import crop, group
from fitrag_integrations.training.rows import ReadingRow

words = st.text("abé-&.", min_size=1, max_size=4)
gaps = st.sampled_from([" ", "  ", "\n", "\t "])


@given(
    st.lists(st.tuples(words, gaps), max_size=60),
    st.lists(words, min_size=1, max_size=5),
    st.lists(st.tuples(words, gaps), max_size=60),
    st.integers(6, 40),
    st.randoms(use_true_random=False),
)
@example([], ["&", "&", "&", "a", "&"], [("b", " ")] * 9, 6, random.Random(3))
def test_the_answer_stays_inside(before, answer, after, size, chance):
    left = "".join(word + gap for word, gap in before)
    middle = " ".join(answer)
    right = "".join(gap + word for word, gap in after)
    row = ReadingRow("q", (middle,), Passage("1", left + middle + right, "t"), len(left))
    found = crop(row, size, chance)
    start = found.answer_start
    assert found.passage.text[start : start + len(middle)] == middle
    assert len(found.passage.text.split()) <= size
    assert found.passage.text in row.passage.text and found.passage.title == "t"


@given(st.integers(0, 80), st.integers(0, 80), st.integers(3, 20), st.integers(0, 99))
def test_an_answer_without_a_place_stays_inside(before, after, size, seed):
    text = " ".join(["word"] * before + ["Rome"] + ["word"] * after)
    found = crop(ReadingRow("q", ("Rome",), Passage("1", text)), size, random.Random(seed))
    assert "Rome" in found.passage.text.split()
    assert found.answer_start is None and len(found.passage.text.split()) <= size


def test_the_place_of_the_answer_varies():
    row = ReadingRow("q", ("x",), Passage("1", "w " * 50 + "x" + " w" * 50), 100)
    places = {crop(row, 10, random.Random(seed)).answer_start for seed in range(50)}
    assert len(places) > 5


def test_negatives_keep_their_start():
    row = ReadingRow("q", ("a",), Passage("1", "a"), 0, (Passage("2", "b  c d"), Passage("3", "e")))
    found = crop(row, 2, random.Random(1))
    assert [p.text for p in found.negatives] == ["b  c", "e"]
    assert found.passage == row.passage


def test_a_group_is_the_passage_and_some_negatives():
    row = reading_rows()[0]
    for count in (0, 1, 2, 9):
        same, passages = group(row, count, random.Random(2))
        assert same is row and len(passages) == 1 + min(count, 2)
        assert passages[0].text == row.passage.text
        assert {p.text for p in passages[1:]} <= {p.text for p in row.negatives}


def test_a_group_drops_titles_alike():
    row = reading_rows()[0]
    groups = [group(row, 2, random.Random(seed))[1] for seed in range(400)]
    with_titles = [all(p.title for p in passages) for passages in groups]
    without = [not any(p.title for p in passages) for passages in groups]
    assert all(a != b for a, b in zip(with_titles, without, strict=True))
    assert 0.08 < sum(without) / 400 < 0.22  # 0.15, and four of its standard errors


def test_a_title_betrays_no_negative():
    row = ReadingRow("q", ("a",), Passage("1", "a"), 0, (Passage("2", "b", "title"),))
    assert all(
        passage.title == ""
        for seed in range(20)
        for passage in group(row, 1, random.Random(seed))[1]
    )
