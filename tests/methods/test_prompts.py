"""Prompts: what is filled in, and what is never read as a template."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.prompts import (
    COT,
    NO_RETRIEVAL,
    RETRIEVAL,
    SIMPLE,
    TEMPLATES,
    PromptTemplate,
    render_excerpts,
    template_named,
)
from fitrag_integrations.types import Context, Excerpt, Passage

FILM = Passage("f", "One is. Two is. Three is. Four is.", "Film")
CONTEXT = Context("Who?", (Excerpt(FILM, 0, 7), Excerpt(Passage("n", "No title."), 0, 9)))


def test_the_simple_prompt_is_table_2s():
    assert CONTEXT.prompt(SIMPLE) == (
        "Refer to the passages below and answer the following question.\n"
        "Passages:\n1. Film: One is.\n2. No title.\nQuestion: Who?\nThe answer is"
    )


def test_each_prompt_asks_in_its_own_way():
    assert CONTEXT.prompt(COT).endswith("Question: Who?\nLet's think step by step.")
    assert "explain why you choose this answer" in CONTEXT.prompt(RETRIEVAL)
    assert "One is" not in CONTEXT.prompt(NO_RETRIEVAL)


def test_excerpts_of_one_passage_stand_together():
    apart = [Excerpt(FILM, 26, 34), Excerpt(Passage("n", "x"), 0, 1), Excerpt(FILM, 0, 7)]
    assert render_excerpts(apart) == "1. Film: One is. … Four is.\n2. x"


def test_adjacent_and_overlapping_excerpts_run_on():
    parts = [Excerpt(FILM, 8, 15), Excerpt(FILM, 0, 7), Excerpt(FILM, 4, 12)]
    assert render_excerpts(parts) == "1. Film: One is. Two is."


def test_braces_in_a_passage_stay_braces():
    sly = Passage("s", "{question} {0} {{x}} }")
    assert "1. {question} {0} {{x}} }" in Context("Who?", (Excerpt.whole(sly),)).prompt()


def test_a_template_of_ones_own():
    own = PromptTemplate("own", "{draft}|{question}|{passages}")
    assert Context("Who?", draft="Rota").prompt(own) == "Rota|Who?|"


@pytest.mark.parametrize("text", ["{context}", "{", "{}", "{question.x}", 7])
def test_unknown_fields_are_refused(text):
    with pytest.raises(InputError, match=r"PromptTemplate\.text: given"):
        PromptTemplate("bad", text)


def test_templates_are_found_by_name():
    assert template_named("cot") is COT
    assert list(TEMPLATES) == ["retrieval", "no_retrieval", "simple", "cot"]
    with pytest.raises(InputError, match="template: given 'nope' .* allowed retrieval, no_"):
        template_named("nope")
