"""Windows, budgets, merging and order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.windows import by_score, fit, merge, windows

FIVE = Passage("p", "One is. Two is. Three is. Four is. Five is.", "Numbers")
OTHER = Passage("o", "Alpha is. Beta is.")


def count_words(text):
    return len(text.split())


def cost_by(count_tokens):
    return lambda excerpts: count_tokens(render_excerpts(excerpts))


in_words = cost_by(count_words)


def test_windows_of_three_slide_by_one():
    assert [window.text for window in windows(FIVE)] == [
        "One is. Two is. Three is.",
        "Two is. Three is. Four is.",
        "Three is. Four is. Five is.",
    ]


def test_the_last_window_reaches_the_end():
    assert [window.text for window in windows(FIVE, size=2, stride=2)] == [
        "One is. Two is.",
        "Three is. Four is.",
        "Four is. Five is.",
    ]


def test_few_sentences_give_one_window_and_none_none():
    assert [window.text for window in windows(OTHER)] == [OTHER.text]
    assert windows(Passage("e", " \n")) == []


def test_another_splitter_will_do():
    found = windows(FIVE, size=1, split=lambda text: [(0, 3), (4, 6)])
    assert [window.text for window in found] == ["One", "is"]


@pytest.mark.parametrize("sizes", [{"size": 0}, {"stride": 0}, {"size": 2, "stride": 3}])
def test_wrong_sizes_are_refused(sizes):
    with pytest.raises(InputError, match="must be an integer (of at least|from) 1"):
        windows(FIVE, **sizes)


@settings(max_examples=50)
@given(st.integers(0, 9), st.integers(1, 5), st.data())
def test_every_sentence_is_in_a_window(count, size, data):
    stride = data.draw(st.integers(1, size))
    text = " ".join(f"Number {n} is here." for n in range(count))
    found = windows(Passage("p", text), size=size, stride=stride)
    covered = {at for window in found for at in range(window.start, window.end)}
    assert all(at in covered or text[at] == " " for at in range(len(text)))
    assert len(set(found)) == len(found)


def test_sorting_keeps_equals_in_order():
    some = [Excerpt(FIVE, n, n + 1, score) for n, score in enumerate((0.1, 0.5, 0.5))]
    assert by_score(some) == [some[1], some[2], some[0]]


def test_adjacent_and_overlapping_excerpts_merge():
    parts = [Excerpt(FIVE, 8, 15, 0.9), Excerpt(FIVE, 0, 7, 0.4), Excerpt(FIVE, 26, 34, 0.2)]
    assert merge(parts) == [Excerpt(FIVE, 0, 15, 0.9), Excerpt(FIVE, 26, 34, 0.2)]


def test_the_budget_counts_what_is_rendered():
    excerpts = [Excerpt(FIVE, 0, 7), Excerpt(OTHER, 0, 9)]
    rendered = "1. Numbers: One is.\n2. Alpha is."
    assert render_excerpts(excerpts) == rendered  # 4 words and 3
    assert fit(excerpts, max_tokens=7, cost=in_words) == excerpts
    assert fit(excerpts, max_tokens=6, cost=in_words) == excerpts[:1]
    assert fit(excerpts, max_tokens=None, cost=in_words) == excerpts


spans = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted)
some_excerpts = st.lists(
    st.builds(
        lambda passage, span: Excerpt(passage, *[min(at, len(passage.text)) for at in span]),
        st.sampled_from([FIVE, OTHER]),
        spans,
    ),
    max_size=6,
)


def one_by_one(excerpts, max_tokens, count_tokens):
    """Say plainly what ``fit`` is to give where adding an excerpt never lowers the count."""
    kept = []
    for excerpt in excerpts:
        if count_tokens(render_excerpts([*kept, excerpt])) > max_tokens:
            break
        kept.append(excerpt)
    return kept


texts = st.lists(st.sampled_from(["Rota", "Amarcord", "a", "1973.", "—"]), min_size=1, max_size=30)


@settings(max_examples=100)
@given(st.lists(texts.map(" ".join), max_size=30), st.integers(1, 300))
def test_of_different_passages_the_longest_prefix_is_kept(texts, max_tokens):
    excerpts = [Excerpt.whole(Passage(str(n), text)) for n, text in enumerate(texts)]
    for count in (approximate_tokens, count_words, len):
        kept = fit(excerpts, max_tokens=max_tokens, cost=cost_by(count))
        assert kept == one_by_one(excerpts, max_tokens, count)


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
@given(some_excerpts)
def test_merging_loses_no_character_and_leaves_nothing_to_merge(excerpts):
    merged = merge(excerpts)
    for excerpt in excerpts:
        assert any(
            whole.passage == excerpt.passage
            and whole.start <= excerpt.start
            and excerpt.end <= whole.end
            for whole in merged
        )
    assert merge(merged) == merged


@settings(max_examples=50)
@given(some_excerpts, st.randoms())
def test_merging_does_not_depend_on_the_order_given(excerpts, random):
    shuffled = random.sample(excerpts, len(excerpts))
    assert {(e.start, e.end) for e in merge(excerpts)} == {
        (e.start, e.end) for e in merge(shuffled)
    }
