"""Queries of at most three keywords: what a model may write, and what is searched for without."""

import pytest
from by_hand import finished
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fitrag_integrations.flow import run
from fitrag_integrations.methods.crag.search import (
    LONGEST_KEYWORD,
    Searched,
    parse_keywords,
    rewrite,
)
from fitrag_integrations.methods.prompts import CRAG_KEYWORDS
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context

QUESTION = "Who wrote the score of Amarcord?"


@pytest.mark.parametrize(
    "written",
    [
        "Amarcord, score, composer",
        "  AMARCORD, score; Composer. ",
        "Keywords: Amarcord, score, composer",
        "**Search query:** Amarcord, score, composer",
        "Sure! Here are three keywords: Amarcord, score, composer",
        "1. Amarcord\n2. score\n3. composer\n4. film\n",
        "- **Amarcord**\n- score\n- composer",
        '["Amarcord", "score", "composer"]',
        "```\nAmarcord, score, composer\n```",
        "<think>The film, by Fellini, hm.</think>\nAmarcord, score, composer",
        "The film, by Fellini.</think>Amarcord, score, composer",
        "<scratchpad>Fellini, 1973, hm.</scratchpad>Amarcord, score, composer",
        "<analysis>Who? Rota, perhaps.</analysis>\nKeywords: Amarcord, score, composer",
        "**Thinking:** A film, so the composer. **Keywords:** Amarcord, score, composer",
        "Reasoning: It is a film of 1973,\nby Fellini.\nQuery: Amarcord, score, composer",
        "<keywords>Amarcord, score, composer</keywords>",
        "<my_notes>Fellini, Rota.</my_notes>Amarcord, score, composer",
        '{"thinking": "Fellini, Rota.", "keywords": ["Amarcord", "score", "composer"]}',
        "Amarcord, score, amarcord, composer, , !",
        "Amarcord\x00, score\ud800, composer\x1b",
    ],
)
def test_keywords_are_split_at_commas(written):
    assert ", ".join(parse_keywords(written)).casefold() == "amarcord, score, composer"


@pytest.mark.parametrize(
    "written",
    [
        "",
        "```\n```",
        "...",
        None,
        7,
        "Keywords:",
        "None.",
        "I'm sorry, but I cannot search the web.",
        "Ilse Marbach, instrument",
        "The score of the film was written by Nino Rota who was born in Milan and who had worked "
        "with its director before, so that a search for both should find the answer soon.",
        "a" * (LONGEST_KEYWORD + 1),
        "<think>Amarcord, score",
        "<scratchpad>Amarcord, score",
        "**Thinking:** The film, by Fellini.",
        "Analysis: Amarcord, score",
    ],
)
def test_what_is_no_list_of_keywords_gives_none(written):
    assert parse_keywords(written) == ()


def test_signs_that_belong_to_a_keyword_stay():
    assert parse_keywords("C#, 1,000 metres, U.S") == ("C#", "1,000 metres", "U.S")
    assert parse_keywords("Amarcord (film), score.") == ("Amarcord (film)", "score")


@settings(max_examples=40)
@given(st.text(max_size=300) | st.from_regex(r"(?s)(\W*(keywords|here)[:\d\W]*.{0,20}){0,5}"))
@example("<think>" * 50)
@example("```" * 50)
def test_any_text_gives_at_most_three_short_printable_keywords(written):
    keywords = parse_keywords(written)
    assert len(keywords) <= 3
    for word in keywords:
        assert 0 < len(word) <= LONGEST_KEYWORD
        assert word == word.strip()
        word.encode("utf-8")


def sought(query, way, *notes):
    return Searched((), (query,), notes, {"rewrite": way})


def test_a_model_is_asked_with_the_question_on_one_line():
    flow = rewrite("Who\nwrote  it?", Ports(generate=lambda prompts: prompts))
    ask = flow.send(None)
    assert ask.port.name == "generate"
    assert ask.items == [CRAG_KEYWORDS.render(Context("Who wrote it?"))]
    assert ask.items[0].endswith("\nquestion: Who wrote it?\nquery:")
    assert "at most three keywords" in ask.items[0]
    assert finished(flow, ["Amarcord, score"]) == sought("Amarcord, score", "llm")


def broken(prompts):
    raise TimeoutError("too slow")


@pytest.mark.parametrize(
    ("generate", "why"),
    [
        (None, ""),
        (lambda _: ["I am sorry, I cannot do that."], "it wrote no list of keywords"),
        (lambda _: ["<think>" + QUESTION], "it wrote no list of keywords"),
        (broken, "TimeoutError: too slow"),
        (lambda _: [QUESTION.lower()], "it repeated it"),
        (lambda _: ["composer, film, music"], "its keywords lose Amarcord"),
    ],
)
def test_else_the_question_itself_is_searched_for(generate, why):
    note = f"the language model did not rewrite the question ({why}): the question itself was asked"
    found = run(rewrite(QUESTION, Ports(generate=generate))).value
    assert found == sought(QUESTION, "question", *(note,) * bool(why))


@pytest.mark.parametrize(
    ("question", "keywords", "way"),
    [
        ("who sang the song lullaby of broadway", "singer, song", "question"),
        ("who sang the song lullaby of broadway", "lullaby of broadway, singer, song", "llm"),
        ("Which instrument did Otmar Lindner play?", "Otmar Lindner, instrument", "llm"),
        ("Who designed the lighthouse of Corran Head in 1866?", "designer, lighthouse", "question"),
        ("Who designed the lighthouse of Corran Head in 1866?", "Corran Head, 1866", "llm"),
        ("Wer komponierte die Musik zu Amarcord?", "Amarcord, Musik", "llm"),
        ("《阿玛柯德》的配乐是谁写的？", "阿玛柯德, 配乐", "llm"),
    ],
)
def test_keywords_keep_what_the_question_is_about(question, keywords, way):
    assert run(rewrite(question, Ports(generate=lambda _: [keywords]))).value.details == {
        "rewrite": way
    }


def test_of_a_long_message_what_it_asks_is_searched_for():
    long = f"Hello there! We saw a film last night and could not agree on the music. {QUESTION}"
    assert run(rewrite(long, Ports())).value.queries == (QUESTION,)


def test_all_that_a_message_asks_is_searched_for():
    asked = (
        "Which port do the metrics use? Is it the same as for the web interface? And do I need a "
        "key for that?"
    )
    found = run(rewrite(f"Hi there, I hope you are well! {asked} Thanks a lot.", Ports())).value
    assert found.queries == (asked,)
