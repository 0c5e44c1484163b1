"""The reader: answers are slices, and a saved reader reads the same."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import MARKS, PAIRS, WORDS, make_reader

from fitrag_integrations import Passage
from fitrag_integrations.models import ExtractiveReader
from fitrag_integrations.models.encoder.heads import ReaderHead
from fitrag_integrations.models.encoder.lexical import COUNT, Clues
from fitrag_integrations.text.cleaning import has_text


@pytest.fixture(scope="module")
def reader(base):
    made = make_reader(base)
    yield made
    made.unload()


def reload(reader, folder):
    reader.save_pretrained(folder)
    return ExtractiveReader.from_pretrained(folder, device="cpu")


@settings(max_examples=60)
@given(
    st.text(
        st.one_of(st.sampled_from(" .the riverÉ\n" + MARKS), st.characters(codec="utf-8")),
        min_size=1,
        max_size=80,
    ).filter(has_text),
    st.text(max_size=9),
)
def test_an_answer_is_a_slice_and_never_empty(reader, text, title):
    (answer,) = reader.read([("who wrote", Passage("1", text, title))])
    assert answer.text == text[answer.start : answer.end]
    assert answer.text.strip() and 0 <= answer.score <= 1


def test_an_answer_in_a_long_passage_has_its_place_in_the_whole(reader):
    chance = random.Random(5)  # words of one token each, so that a chunk alone is the same tokens
    text = " ".join(chance.choice(WORDS[2:]) for _ in range(2000))
    (answer,) = reader.read([("who", Passage("1", text))])
    assert answer.text == text[answer.start : answer.end] != ""
    chunks = reader._engine.tokenizer.encode([("who", Passage("1", text))])[0]
    assert len(chunks) > 5
    parts = [[span for span in chunk.offsets if span] for chunk in chunks]
    whole = [(p[0][0], Passage("", text[p[0][0] : p[-1][1]])) for p in parts]
    found = reader.read([("who", part) for _, part in whole])
    best = max(range(len(found)), key=lambda i: found[i].score)
    shifted = (found[best].start + whole[best][0], found[best].end + whole[best][0])
    assert (answer.start, answer.end) == shifted
    assert answer.score == pytest.approx(found[best].score, abs=1e-5)


def test_an_answer_has_at_most_24_tokens(reader):
    text = "king " * 200
    for question in ("who", "what river", "rome", "a film"):
        (answer,) = reader.read([(question, Passage("1", text))])
        assert len(answer.text.split()) <= 24


def test_the_title_is_read_but_not_quoted(reader):
    titled, bare = (Passage("1", "the king of rome", title) for title in ("danube river", ""))
    one, other = reader.read([("what river", titled), ("what river", bare)])
    assert one.score != other.score and one.text in titled.text


def test_a_saved_head_is_the_same_head(reader, tmp_path):
    loaded = reload(reader, tmp_path)
    assert loaded.abstain_below == reader.abstain_below == 0.25
    for found, expected in zip(loaded.read(PAIRS), reader.read(PAIRS), strict=True):
        assert (found.text, found.start) == (expected.text, expected.start)
        assert found.score == pytest.approx(expected.score, abs=1e-6)


def test_a_reader_told_of_clues_reads_the_same_when_saved(base, tmp_path):
    plain = make_reader(base)
    width, tokenizer = plain._engine.trunk.width, plain._engine.tokenizer
    head = ReaderHead(width, features=COUNT + 1, units=3)
    head.span.load_state_dict(plain._head.span.state_dict())
    head.select.load_state_dict(plain._head.select.state_dict())
    rarity = np.array([0.5 + i % 7 / 4 for i in range(tokenizer.vocabulary)])
    told = ExtractiveReader(
        plain._engine, head, manifest=plain.manifest, clues=Clues.of(tokenizer, rarity)
    )
    pairs = [pair for pair in PAIRS if pair[1].text.strip()]
    wanted, bare = told.read(pairs), plain.read(pairs)
    assert [a.text for a in wanted] == [a.text for a in bare]
    assert [a.score for a in wanted] != pytest.approx([a.score for a in bare], abs=1e-4)
    again = reload(told, tmp_path).read(pairs)
    assert [a.score for a in again] == pytest.approx([a.score for a in wanted], abs=1e-5)
