"""Windows, budgets, merging and order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.windows import fit, merge, windows

FIVE = Passage("p", "One is. Two is. Three is. Four is. Five is.", "Numbers")
OTHER = Passage("o", "Alpha is. Beta is.")


def count_words(text):
    return len(text.split())


def cost_by(count_tokens):
    return lambda excerpts: count_tokens(render_excerpts(excerpts))


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


@settings(max_examples=100)
@given(some_excerpts, st.integers(1, 40), st.integers(2, 9))
def test_with_any_counter_what_is_kept_fits_and_one_more_does_not(excerpts, max_tokens, odd):
    def count(text):  # no sum of its parts, and not even growing with the text
        return len(text) * 7 % odd + len(text) // odd

    kept = fit(excerpts, max_tokens=max_tokens, cost=cost_by(count))
    assert kept == excerpts[: len(kept)]
    assert not kept or count(render_excerpts(kept)) <= max_tokens
    if len(kept) < len(excerpts):
        assert count(render_excerpts(excerpts[: len(kept) + 1])) > max_tokens


@pytest.mark.parametrize("max_tokens", [100, 2_000, 100_000])
def test_a_hundred_passages_are_fitted_in_a_few_counts(max_tokens):
    lengths = []

    def count(text):
        lengths.append(len(text))
        return count_words(text)

    excerpts = [Excerpt.whole(Passage(str(n), "word " * (20 + n % 9))) for n in range(100)]
    fit(excerpts, max_tokens=max_tokens, cost=cost_by(count))
    assert sum(lengths) <= 4 * len(render_excerpts(excerpts))


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
