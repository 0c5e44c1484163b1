"""What is kept of answers and of tokens."""

import pytest

from fitrag_integrations.evaluation.figures.compress import (
    MEANS,
    Compressed,
    compress_rows,
    kept_curves,
)
from fitrag_integrations.evaluation.figures.summaries import Draws, set_figures
from fitrag_integrations.types import Excerpt, Passage

RAIN = Passage("0", "Rain falls here. Wind blows there.", "Weather")
ANN = Passage("1", "Nobody knew. Ann Lee wrote it. It sold.", "Book")


def words(text):
    return len(text.split())


def piece(passage, text, score=0.0):
    start = passage.text.index(text)
    return Excerpt(passage, start, start + len(text), score)


def row(*excerpts, answers=("Ann Lee",), passages=(RAIN, ANN)):
    return Compressed("who?", answers, passages, excerpts)


GOOD = row(piece(RAIN, "Rain falls here.", 0.2), piece(ANN, "Ann Lee wrote it.", 0.9))
BAD = row(piece(RAIN, "Rain falls here.", 0.8), piece(ANN, "It sold.", 0.1))


def test_kept_is_over_the_questions_whose_passages_hold_an_answer():
    hopeless = row(answers=("Bob",))
    made = compress_rows([GOOD, BAD, hopeless], words)
    found = {each.name: each.to_dict() for each in set_figures(made, Draws(100, 0), MEANS)}
    assert found["answer in the passages"]["value"] == pytest.approx(2 / 3)
    assert (found["answer kept"]["value"], found["answer kept"]["questions"]) == (1 / 2, 2)
    # "1. Weather: Rain falls here. Wind blows there." 8, "2. Book: Nobody ... sold." 10
    assert found["tokens_in"]["value"] == 18
    assert found["tokens_out"]["value"] == pytest.approx((5 + 6 + 5 + 4 + 0) / 3)
    assert found["share of tokens"]["value"] == pytest.approx((11 / 18 + 9 / 18 + 0) / 3)


def test_excerpts_that_touch_are_read_together_and_others_are_not():
    assert row(piece(ANN, "Ann"), piece(ANN, "Lee wrote")).holds(
        [piece(ANN, "Ann"), piece(ANN, "Lee wrote")]
    )
    assert not GOOD.holds([piece(ANN, "Nobody knew. Ann"), piece(ANN, "wrote it.")])
    assert not GOOD.holds([])
    assert row(answers=("Weather",)).holds([piece(RAIN, "Wind blows there.")])


def test_the_curves_cut_by_number_and_by_score():
    curves = kept_curves([GOOD, BAD], words)
    assert curves["first passages"] == [[8 / 18, 0.0], [1.0, 1.0]]
    best = [(6 / 18 + 5 / 18) / 2, 1 / 2]
    assert curves["first excerpts"] == [pytest.approx(best), pytest.approx([(11 + 9) / 36, 1 / 2])]
    above = curves["above a score"]
    assert above[0] == pytest.approx([6 / 36, 1 / 2])  # only the excerpt of .9
    assert above[-1] == pytest.approx([(11 + 9) / 36, 1 / 2])
    shares = [point[0] for point in above]
    assert shares == sorted(shares)


def test_without_scores_or_answers_there_are_fewer_curves():
    assert list(kept_curves([row(piece(ANN, "Ann Lee"))], words)) == ["first passages"]
    assert kept_curves([row(answers=("Bob",))], words) == {}
