"""Windows, budgets, merging and order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.windows import merge, windows

FIVE = Passage("p", "One is. Two is. Three is. Four is. Five is.", "Numbers")
OTHER = Passage("o", "Alpha is. Beta is.")


@pytest.mark.parametrize(
    ("passage", "settings", "texts"),
    [
        (FIVE, {"size": 4}, ["One is. Two is. Three is. Four is.", FIVE.text[8:]]),
        (
            FIVE,
            {"size": 2, "stride": 2},
            ["One is. Two is.", "Three is. Four is.", FIVE.text[-17:]],
        ),
        (OTHER, {}, [OTHER.text]),
        (Passage("e", " \n"), {}, []),
        (FIVE, {"size": 1, "split": lambda text: [(0, 3), (4, 6)]}, ["One", "is"]),
    ],
    ids=["by one", "to the end", "few sentences", "blank", "another splitter"],
)
def test_windows_slide_over_the_sentences(passage, settings, texts):
    assert [window.text for window in windows(passage, **settings)] == texts


@pytest.mark.parametrize("sizes", [{"size": 0}, {"stride": 0}, {"size": 2, "stride": 3}])
def test_wrong_sizes_are_refused(sizes):
    with pytest.raises(InputError, match="must be an integer (of at least|from) 1"):
        windows(FIVE, **sizes)


def test_adjacent_and_overlapping_excerpts_merge():
    parts = [Excerpt(FIVE, 8, 15, 0.9), Excerpt(FIVE, 0, 7, 0.4), Excerpt(FIVE, 26, 34, 0.2)]
    assert merge(parts) == [Excerpt(FIVE, 0, 15, 0.9), Excerpt(FIVE, 26, 34, 0.2)]


spans = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
some_excerpts = st.lists(
    st.builds(
        lambda passage, span: Excerpt(passage, *[min(at, len(passage.text)) for at in span]),
        st.sampled_from([FIVE, OTHER]),
        spans,
    ),
    max_size=6,
)


@settings(max_examples=80)
@given(some_excerpts, st.randoms())
def test_merging_in_any_order_loses_no_character_and_leaves_nothing_to_merge(excerpts, random):
    merged = merge(excerpts)
    shuffled = merge(random.sample(excerpts, len(excerpts)))
    assert {(e.start, e.end) for e in merged} == {(e.start, e.end) for e in shuffled}
    for excerpt in excerpts:
        assert any(
            whole.passage == excerpt.passage
            and whole.start <= excerpt.start
            and excerpt.end <= whole.end
            for whole in merged
        )
    assert merge(merged) == merged
