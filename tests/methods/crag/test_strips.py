"""Knowledge strips: where they are cut, and that they lose nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.crag.refiner import strips
from fitrag_integrations.text.layout import FEW_WORDS
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import Passage

WEB = {"web": True}


def sentences(count):
    return " ".join(f"Here is sentence {number} of them." for number in range(count))


def cut(text, metadata=(), **options):
    return [strip.text for strip in strips(Passage("p", text, metadata=dict(metadata)), **options)]


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, [1]), (2, [2]), (3, [3]), (4, [2, 2]), (5, [2, 3]), (7, [2, 2, 3]), (9, [3, 3, 3])],
)
def test_strips_share_the_sentences_out_evenly(count, sizes):
    assert [len(split_sentences(text)) for text in cut(sentences(count))] == sizes


def test_two_sentences_are_one_strip_however_short_strips_are_wanted():
    assert len(cut(sentences(2), sentences=1)) == 1
    assert len(cut(sentences(3), sentences=1)) == 3
    assert len(cut(sentences(9), sentences=20)) == 1
    with pytest.raises(InputError, match="sentences` must be"):
        cut("One.", sentences=0)


def test_blank_passages_give_none():
    assert cut("") == cut(" \n\n ") == cut(" \n\n ", WEB) == []


def test_no_strip_of_a_web_page_spans_two_paragraphs():
    page = "A heading\n\nOne is here. Two is here.\r\n \r\nThree is here.\nFour.\n\n\n"
    web = cut(page, WEB)
    assert web == ["A heading", "One is here. Two is here.", "Three is here.\nFour."]
    assert len(cut("A heading\n\nOne is here.")) == 1, (
        "what was retrieved is cut by sentences alone"
    )
    long = sentences(4)
    assert cut(f"{long}\n\n{long}", WEB) == cut(long) * 2


def test_a_splitter_of_ones_own_sees_paragraphs():
    seen = []

    def whole(text):
        seen.append(text)
        return [(0, len(text))]

    assert cut("one\n\ntwo", WEB, split=whole) == seen == ["one", "two"]


def lost(text):
    """Return the sentences of a text that are more than signs or a few words."""
    pieces = [text[slice(*span)] for span in split_sentences(text)]
    return [one for one in pieces if len(one.split()) >= FEW_WORDS and any(map(str.isalnum, one))]


@given(
    st.text(st.sampled_from("aA1 .!?\n\r\t\u2028。é\U0001f600\u0301"), max_size=200), st.booleans()
)
def test_strips_are_true_stretches_that_lose_nothing(text, web):
    passage = Passage("p", text, metadata={"web": web})
    found = strips(passage)
    ends = [0]
    for strip in found:
        assert strip.text == text[strip.start : strip.end] == strip.text.strip() != ""
        assert lost(text[ends[-1] : strip.start]) == [], "nothing between two strips but torn ends"
        ends.append(strip.end)
    assert ends == sorted(ends)
    assert lost(text[ends[-1] :]) == []
