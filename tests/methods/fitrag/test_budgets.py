"""Budgets hold to the token over five tokenizers, offsets are true, and order does not matter."""

import random
from dataclasses import replace
from functools import cache

import pytest
from by_sentence import BySentence
from hypothesis import given, settings
from hypothesis import strategies as st
from token_fakes import small_bpe, small_encoding, wordpiece

from fitrag_integrations.flow import run
from fitrag_integrations.methods.budget import Budget
from fitrag_integrations.methods.crag.refiner import strips
from fitrag_integrations.methods.fitrag.method import TokenReducer
from fitrag_integrations.methods.prompts import render_excerpts
from fitrag_integrations.text.blocks import HEADING, blocks_of
from fitrag_integrations.text.layout import FEW_WORDS
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.text.tokens import counter_for
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.windows import merge, windows

QUESTION = "Who wrote the score?"
SENTENCES = st.sampled_from(
    [
        "Nino Rota wrote the score.",
        "He died in 1979!",
        "他写了配乐。",
        "كتب الموسيقى؟",
        "👨\u200d👩\u200d👧 e\u0301\u0301.",
        "\ud83d half.",
        ".",
        "- x\n",
        "```\na. B\n```\n",
        "{passages} {0}",
        "in the the the",
    ]
)
texts = st.one_of(st.text(st.characters(), max_size=60), st.lists(SENTENCES).map(" ".join))
passages = st.lists(
    st.builds(
        lambda text, title, web: Passage(title, text, title, metadata={"web": web}),
        texts,
        st.text(max_size=8),
        st.booleans(),
    ),
    max_size=5,
    unique_by=lambda passage: passage.title,
)


@cache
def counter(name):
    made = {
        "approximate": lambda: None,
        "characters": lambda: len,
        "bpe": small_bpe,
        "wordpiece": wordpiece,
        "tiktoken": small_encoding,
    }
    return counter_for(made[name]())


COUNTERS = ["approximate", "characters", "bpe", "wordpiece", "tiktoken"]


def chance_of(passage):
    """Give a number in [0, 1) that differs with the text or the title."""
    return random.Random(ascii((passage.title, passage.text))).random()


def by_text(pairs):
    return [BiLabelScore(chance_of(passage)) for _, passage in pairs]


SCORERS = [by_text, BySentence(by_text)]


def kept_by(reducer, passages):
    return run(reducer.context(QUESTION, passages)).value.excerpts


class FirstHalf:
    """A detector that agrees with some prefixes."""

    def eligible(self, combinations):
        return [float(len(scores) % 3 == 2) for scores in combinations]


@pytest.mark.parametrize("name", COUNTERS)
@settings(max_examples=25)
@given(passages, st.integers(1, 80), st.integers(1, 3), st.randoms(use_true_random=False))
def test_no_tokenizer_is_given_more_than_the_budget(name, passages, most, size, chance):
    count = counter(name)
    cut = [piece for passage in passages for piece in windows(passage, size=size)]
    chance.shuffle(cut)
    budget = Budget(most, count=count)
    kept = run(budget.fitted(cut)).value.kept
    assert not kept or budget.returned(kept) <= most
    assert count(render_excerpts(kept)) <= most


@pytest.mark.parametrize("name", COUNTERS)
@settings(max_examples=20)
@given(passages, st.integers(1, 80), st.sampled_from(SCORERS), st.sampled_from([1, 3]))
def test_nor_does_the_reducer_give_more(name, passages, most, scorer, window):
    count = counter(name)
    for detector in (False, FirstHalf()):
        reducer = TokenReducer(
            scorer=scorer,
            max_tokens=most,
            count_tokens=count,
            window=window,
            detector=detector,
        )
        kept = kept_by(reducer, passages)
        assert count(render_excerpts(kept)) <= most
        for excerpt in kept:
            assert excerpt.passage in passages
            assert excerpt.passage.text[excerpt.start : excerpt.end] == excerpt.body


@settings(max_examples=100)
@given(texts, st.integers(1, 4), st.data())
def test_every_window_and_strip_slices_its_source(text, size, data):
    passage = Passage("p", text, "A title")
    stride = data.draw(st.integers(1, size))
    cut = windows(passage, size=size, stride=stride)
    for excerpt in [*cut, *strips(passage), *merge(cut)]:
        assert excerpt.passage is passage
        assert passage.text[excerpt.start : excerpt.end] == excerpt.body == excerpt.body.strip()
        assert excerpt.text
    covered = {at for window in cut for span in window.spans for at in range(*span)}
    heads = {n for b in blocks_of(text) if b.kind == HEADING for n in range(b.start, b.end)}
    for span in split_sentences(text):  # left out are headings over nothing, signs, torn ends
        left = set(range(*span)) - covered - heads
        words = "".join(text[at] if at in left else " " for at in range(*span))
        assert len(words.split()) < FEW_WORDS or not any(map(str.isalnum, words))
    assert [window.start for window in cut] == sorted({window.start for window in cut})


@settings(max_examples=30)
@given(passages, st.randoms(use_true_random=False), st.sampled_from(SCORERS))
def test_the_order_of_passages_does_not_matter_where_scores_differ(passages, chance, scorer):
    how = {"scorer": scorer, "max_tokens": 60, "detector": False, "window": 1}
    reducer = TokenReducer(**how, deduplicate=False)
    shuffled = chance.sample(passages, len(passages))
    assert kept_by(reducer, passages) == kept_by(reducer, shuffled)


def test_a_prefix_that_costs_more_than_the_whole_is_not_taken():
    given = [Passage(str(n), f"Text {n}.") for n in range(3)]

    def count(text):
        return (0, 1, 50, 3)[len(text.splitlines())]

    reducer = TokenReducer(scorer=by_text, max_tokens=10, count_tokens=count, detector=FirstHalf())
    kept = kept_by(reducer, given)
    assert kept and count(render_excerpts(kept)) <= 10


def test_of_equal_scores_the_passage_given_first_comes_first():
    given = [Passage(str(n), f"Text {n}.") for n in range(4)]
    reducer = TokenReducer(scorer=lambda pairs: [BiLabelScore(0.5) for _ in pairs], detector=False)
    for order in (given, given[::-1]):
        kept = kept_by(reducer, order)
        assert [excerpt.passage for excerpt in kept] == order


def test_the_prompt_shows_excerpts_in_document_order_with_their_title():
    film = Passage("f", "One is. Two is. Three is. Four is. Five is.", "Film")
    other = Passage("o", "Alpha.", "Other")
    one, two, _, four, five = windows(film, size=1)
    given = [five, Excerpt.whole(other), two, one]
    shown = "1. Film: One is. Two is. … Five is.\n2. Other: Alpha."
    assert render_excerpts(given) == shown
    assert render_excerpts(merge(given)) == shown
    budget = Budget(count=len)
    for share, number in ((len(shown), 4), (len(shown) - 1, 3)):
        fitted = run(replace(budget, share=share).fitted(given)).value
        assert fitted.kept == given[:number]
    assert render_excerpts([*given, four]).startswith("1. Film: One is. Two is. … Four is. Five is")
