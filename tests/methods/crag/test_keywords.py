"""Queries of at most three keywords: what a model may write, and how they are found without one."""

import pytest
from by_hand import finished
from hypothesis import example, given
from hypothesis import strategies as st

from fitrag_integrations.flow import run
from fitrag_integrations.methods.crag.search import (
    LONGEST_KEYWORD,
    Rewritten,
    extract_keywords,
    keyword_prompt,
    parse_keywords,
    rewrite,
)
from fitrag_integrations.ports import Ports

QUESTION = "Who wrote the score of Amarcord?"
TAKEN = "wrote, score, Amarcord"


@pytest.mark.parametrize(
    "written",
    [
        "Amarcord, score, composer",
        "  AMARCORD, score; Composer. ",
        "Keywords: Amarcord, score, composer",
        "**Search query:** Amarcord, score, composer",
        "query: Amarcord, score, composer\nquestion: Who else?\nquery: Nobody",
        "Sure! Here are three keywords: Amarcord, score, composer",
        "Sure, here you go:\n\n1. Amarcord\n2. score\n3. composer\n4. film\n",
        "1) Amarcord 2) score 3) composer",
        "- **Amarcord**\n- score\n- composer",
        '["Amarcord", "score", "composer"]',
        "```\nAmarcord, score, composer\n```",
        "```text\n“Amarcord”; 'score'; `composer`\n```",
        "<think>The film, by Fellini, hm.</think>\nAmarcord, score, composer",
        "Amarcord, score, amarcord, composer, , !",
        "Amarcord\x00, score\ud800, composer\x1b",
    ],
)
def test_keywords_are_read_leniently(written):
    assert [word.casefold() for word in parse_keywords(written)] == [
        "amarcord",
        "score",
        "composer",
    ]


@pytest.mark.parametrize(
    "written",
    [
        "",
        " \n ",
        "```\n```",
        "...",
        None,
        7,
        "Keywords:",
        "None.",
        "I'm sorry, but I cannot search the web.",
        "I’m unable to help with that",
        "Sorry, no.",
        "As an AI language model, I have no web",
        "Unfortunately, there are none",
        keyword_prompt(QUESTION),
        keyword_prompt(QUESTION) + " Amarcord, score",
        "Ilse Marbach, instrument",
        "The score of the film was written by Nino Rota, who was born in Milan, and who had worked "
        "with its director before, so that a search for both of them should find the answer soon.",
        "a" * (LONGEST_KEYWORD + 1),
        "<think>Amarcord, score",
    ],
)
def test_what_is_no_list_of_keywords_gives_none(written):
    assert parse_keywords(written) == ()


def test_signs_that_belong_to_a_keyword_stay():
    assert parse_keywords("C#, 1,000 metres, U.S.") == ("C#", "1,000 metres", "U.S.")
    assert parse_keywords("Amarcord (film), score.") == ("Amarcord (film)", "score")
    assert parse_keywords("Key West, Answer to life") == ("Key West", "Answer to life")


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


@pytest.mark.parametrize(
    ("question", "keywords"),
    [
        (QUESTION, ["wrote", "score", "Amarcord"]),
        (QUESTION.lower(), ["wrote", "score", "amarcord"]),
        ("WHO WROTE THE SCORE?", ["WROTE", "SCORE"]),
        ("What is Nino Rota’s occupation?", ["Nino Rota", "occupation"]),
        ("What is Nino Rota's occupation?", ["Nino Rota", "occupation"]),
        ("Was Joan of Arc born in 1412?", ["Joan of Arc", "born", "1412"]),
        ('Who sang "Let it be" on the roof?', ["sang", "Let it be", "roof"]),
        ("When did J. R. R. Tolkien die?", ["J. R. R. Tolkien", "die"]),
        (
            "Did Will Smith and Rome, Paris or Milan agree?",
            ["Will Smith and Rome", "Paris", "Milan"],
        ),
        ("Amarcord was shot where?", ["Amarcord", "shot"]),
        ("Who is he?", []),
        ("", []),
        ("Кто написал музыку к Амаркорду?", []),
        ("アマルコルドの音楽は誰？", []),
        ("Who wrote 音楽?", []),
    ],
)
def test_keywords_are_taken_from_the_question(question, keywords):
    assert list(extract_keywords(question)) == keywords


@given(st.text(max_size=200) | st.text(st.sampled_from("AaBéz 'the\"of.-1,\n"), max_size=80))
def test_keywords_taken_are_the_questions_own_words(question):
    keywords = extract_keywords(question)
    assert len(keywords) <= 3
    for word in keywords:
        assert word in " ".join(question.split())


def written(answer):
    flow = rewrite(QUESTION, Ports(generate=lambda prompts: [answer for _ in prompts]))
    return run(flow).value


def test_a_model_is_asked_with_the_question_on_one_line():
    flow = rewrite("Who\nwrote  it?", Ports(generate=lambda prompts: prompts))
    ask = flow.send(None)
    assert ask.port.name == "generate"
    assert ask.items == [keyword_prompt("Who wrote it?")]
    assert ask.items[0].endswith("\nquestion: Who wrote it?\nquery:")
    assert "at most three keywords" in ask.items[0]
    assert finished(flow, ["Amarcord, score"]) == Rewritten("Amarcord, score", "llm")


def test_without_a_model_the_fall_back_is_no_failure():
    assert run(rewrite(QUESTION, Ports())).value == Rewritten(TAKEN, "extracted")
    assert run(rewrite("Who is he?", Ports())).value == Rewritten("Who is he?", "question")


def test_a_model_that_writes_something_else_is_noted():
    got = written("I am sorry, I cannot do that.")
    assert (got.query, got.way) == (TAKEN, "extracted")
    assert got.notes == (
        "the language model did not rewrite the question (it wrote no list of keywords): keywords "
        "were taken from the question",
    )


def test_a_model_that_fails_is_noted():
    def broken(prompts):
        raise TimeoutError("too slow")

    got = run(rewrite("Who is he?", Ports(generate=broken))).value
    assert (got.query, got.way) == ("Who is he?", "question")
    assert got.notes == (
        "the language model did not rewrite the question (TimeoutError: too slow): the question "
        "itself was asked",
    )


@given(st.text(max_size=100) | st.none() | st.integers() | st.binary(max_size=9))
def test_no_answer_of_a_model_stops_the_flow(answer):
    assert written(answer).query
