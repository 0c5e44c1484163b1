"""Answers compared by hand: whole tokens, folded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.evaluation.answers import (
    contains_answer,
    exact_match,
    is_correct,
    rouge_l,
    token_f1,
    tokens,
)


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("because of him", "US", False),
        ("born in the US.", "us", True),
        ("the U.S. Senate", "U.S.", True),
        ("in São Paulo", "Sao Paulo", True),
        ("Black-Forest", "black forest", True),
        ("Black Forests", "Black Forest", False),
        ("forest, black", "black forest", False),
        ("in 1954", "195", False),
        ("Don't stop", "don t", True),
        ("anything", "", False),
        ("", "rome", False),
        ("Straße ﬁlm", "film", True),
        ("在北京", "北京", False),
    ],
)
def test_an_answer_stands_as_whole_tokens(text, answer, found):
    assert contains_answer(text, [answer]) is found


@pytest.mark.parametrize(
    ("prediction", "answer", "same"),
    [
        ("The Camargue", "Camargue", True),
        ("an Iron Gate", "the iron gate.", True),
        ("Camargue, France", "Camargue", False),
        ("", "Camargue", False),
    ],
)
def test_exact_match_leaves_out_articles(prediction, answer, same):
    assert exact_match(prediction, ["nothing", answer]) is same


def test_token_f1_by_hand():
    # common: king, of; 2 * 2 / (3 + 4)
    assert token_f1("the king of Rome", ["a king of the black sea"]) == pytest.approx(4 / 7)
    assert token_f1("king king", ["king"]) == pytest.approx(2 / 3)
    assert token_f1("rome", ["paris", "Rome!"]) == 1.0
    assert token_f1("rome", ["paris"]) == token_f1("rome", []) == token_f1("", ["rome"]) == 0.0
    assert token_f1("the", ["a"]) == 0.0  # nothing is left of either


@given(st.text(max_size=20), st.text(max_size=20))
def test_f1_is_in_range_and_symmetric(a, b):
    assert 0 <= token_f1(a, [b]) == token_f1(b, [a]) <= 1
    assert exact_match(a, [b]) == exact_match(b, [a])
    assert not exact_match(a, [b]) or token_f1(a, [b]) == 1


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_text_holds_its_own_tokens(left, answer, right):
    said = bool({*tokens(answer)} - {"a", "an", "the"})
    assert contains_answer(f"{left} {answer} {right}", [answer]) == said


@pytest.mark.parametrize(
    ("prediction", "references", "value"),
    [
        ("police killed the gunman", ["police kill the gunman"], 0.75),
        ("the gunman kill police", ["police kill the gunman"], 0.5),
        ("The cat!", ["a dog", "the CAT"], 1.0),
        ("", ["words"], 0.0),
        ("words", [], 0.0),
    ],
)
def test_rouge_l_by_hand(prediction, references, value):
    assert rouge_l(prediction, references) == value


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_the_common_subsequence_is_the_longest(one, other):
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, x in enumerate(one):
        for j, y in enumerate(other):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
            )
    common = table[-1][-1]
    expected = 2 * common / (len(one) + len(other)) if common else 0.0
    assert rouge_l(" ".join(one), [" ".join(other)]) == pytest.approx(expected)


@pytest.mark.parametrize("said", ["", "  ", "The", "a an the", "?!", "A+", "The The", "Rome"])
@pytest.mark.parametrize("gold", [["A+"], ["The The"], ["a"], ["!"], ["the", "An"]])
def test_what_normalizes_to_nothing_is_never_right(said, gold):
    assert not is_correct(said, gold)
    assert not exact_match(said, gold)
    assert token_f1(said, gold) == 0.0
