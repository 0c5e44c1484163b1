"""Sentence spans: always true offsets, whatever the text."""

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError
from fitrag_integrations.text.blocks import CODE, blocks_of
from fitrag_integrations.text.sentences import MAX_CHARACTERS, MAX_CODE, MAX_WORDS, split_sentences


def sentences(text):
    return [text[start:end] for start, end in split_sentences(text)]


def is_code(text, start, end):
    return any(b.start <= start and end <= b.end and b.kind == CODE for b in blocks_of(text))


def check_spans(text):
    """Require spans in order, inside, trimmed, bounded, and covering what is not blank."""
    spans = split_sentences(text)
    at = 0
    for start, end in spans:
        assert at <= start < end <= len(text)
        assert not text[at:start].strip()
        piece = text[start:end]
        assert piece == piece.strip()
        short = len(piece) <= MAX_CHARACTERS and len(piece.split()) <= MAX_WORDS
        assert short or (len(piece) <= MAX_CODE and is_code(text, start, end))
        at = end
    assert not text[at:].strip()


ODD = st.text(
    st.sampled_from("aB1 .!?\n\r\t\0\u200b\u0301\u061f。」“”'\"()[]-—•|#\u2028e\u0645👨\u200d👩;,…")
)
TRICKY_SIGNS = "👨\u200d👩\u200d👧 🇩🇪 👍🏽 ❤\ufe0f ᄒ ᅡ ᆫ 한 ก ำ की က် ﾞ ｶ"
TRICKY_STOPS = "... … ?! [1] ¹ † ». ” 」 । ། ． 。 ؟ ; : ( )"
TRICKY_WORDS = (
    "Dr._Smith e.g. U.S. He z._B. 1. 3.5 A b http://a.B/c.D `x._Y` ``` ~~~_py ===== -_ #_ |a| •"
)
BLANKS = [" ", "\n", "\n\n", "\r\n", "\f", "\t", "\x85", "\x1c", "\u00a0"]
ZERO_WIDE = ["\u200b", "\u200d", "\u200e", "\u0301", "\ud800", "\udc00"]
WORDS = [
    word.replace("_", " ") for word in f"{TRICKY_SIGNS} {TRICKY_STOPS} {TRICKY_WORDS}".split(" ")
]
TRICKY = st.sampled_from(WORDS + BLANKS + ZERO_WIDE)
texts = st.one_of(
    st.text(st.characters()),  # with surrogates, unlike the default
    ODD,
    st.lists(ODD, max_size=5).map(". ".join),
    st.lists(TRICKY, max_size=60).map("".join),
)


def check_signs(text):
    """Require that no span begins or ends inside a sign that is written with several characters."""
    edges = {edge for span in split_sentences(text) for edge in span}
    for sign in regex.finditer(r"\X", text):
        if len(sign.group()) > MAX_CHARACTERS:  # no piece is that long
            continue
        if not any(map(str.isspace, sign.group())):  # marks on a blank cannot stay with it
            assert not edges & set(range(sign.start() + 1, sign.end()))


@settings(max_examples=150)
@given(texts)
def test_spans_cover_any_text_and_tear_no_sign(text):
    check_spans(text)
    check_signs(text)


@settings(max_examples=20)
@given(st.lists(TRICKY, min_size=400, max_size=600).map("".join))
def test_spans_of_a_long_text_do_too(text):
    check_spans(text)
    check_signs(text)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 3000,
        "a" * 5000,
        "\0" * 3000,
        "👨\u200d👩\u200d👧" * 500,
        "e" + "\u0301" * 3000,
        "كتب نينو روتا الموسيقى. " * 200,
        "؟ ! . " * 500,
        "a" + "🇩🇪" * 2000,
        "( [1] " * 2000,
        "```\n" * 999 + "x",
        " \n\t " * 100,
        "https://example.org/" + "x" * 3000,
    ],
)
def test_spans_cover_texts_without_usual_sentences(text):
    check_spans(text)
    check_signs(text)


RECORDS = {
    "semicolons, and a cut first and last line": [
        "07-14;1314;paid;",
        "R-13;Hotel;Dr. Vance dental;562.59;open;",
        "R-26;Brewery;;40.10;paid;",
        'R-39;"Gym; Ferro";;758.00;disputed;two hours. Counted twice',
        "R-52;Radio 7;",
    ],
    "commas under their header": [
        "logger,model,lot,place",
        "TX-4100,Alba 3,K245-B,Cellar",
        "TX-4107,Alba 3,K250-C,Roof east",
        "TX-4114,Merle,K219-B,Yard",
    ],
    "three columns": [
        "logger,lot,place",
        "TX-4100,K4100,Yard",
        "TX-4107,K4107,Roof",
        "TX-4114,K2,Lab",
    ],
    "a log": [
        "2025-05-06 02:24:02 ERROR test: failed. Export: 255 != 254",
        "2025-05-06 02:24:03 INFO  package: skipped because tests failed",
        "2025-05-07 02:27:02 WARN  upload: mirror fjord refused, disk full",
    ],
    "a chat": [
        "[18:02] nell: who has the key? it is not on the hook",
        "[18:03] bo: not me",
        "[Tue 10:15] kira: is that a blocker? it is off by one",
        "12.01. 20:14 - Marta: the boiler man was here",
    ],
}


@pytest.mark.parametrize("lines", RECORDS.values(), ids=RECORDS)
def test_records_of_a_line_stay_whole_and_apart(lines):
    assert sentences("\n".join(lines)) == lines
    assert sentences("It is so.\n\n" + "\n".join(lines)) == ["It is so.", *lines]


def test_prose_with_commas_and_times_is_no_record():
    prose = (
        "Apples, pears, plums, nuts and figs are sold by the pound.\n"
        "Bread, butter, cheese, ham and eggs are not, as a rule.\n"
        "Ask Tom, Ann, Bob, or Eve."
    )
    assert len(sentences(prose)) == 3
    assert sentences("10:30 is early. 11:00 is late.") == ["10:30 is early.", "11:00 is late."]


def test_a_long_text_is_split_to_its_end():
    text = "Nino Rota wrote the score of Amarcord in 1973. " * 4000
    spans = split_sentences(text)
    assert len(spans) == 4000
    assert text[slice(*spans[-1])] == "Nino Rota wrote the score of Amarcord in 1973."


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\u2003"])
def test_blank_text_has_no_sentences(text):
    assert split_sentences(text) == []


@pytest.mark.parametrize("wrong", [None, 7, b"bytes"])
def test_what_is_no_text_is_refused(wrong):
    with pytest.raises(InputError, match="text` must be a string"):
        split_sentences(wrong)


def test_a_text_met_again_has_the_same_spans_in_a_list_of_its_own():
    text = "One came. Two went. " * 3
    first = split_sentences(text)
    kept = [*first]
    first.clear()
    assert split_sentences(text) == kept
