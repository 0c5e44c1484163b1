"""Mined negatives hold no answer; labels say what is in a passage and what is read from it."""

import pytest
from training_rows import KINGS, reading_rows, right, wrong

from fitrag_integrations import Passage
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.thresholds.fits import fit_abstention
from fitrag_integrations.training.negatives import mine_negatives, searching
from fitrag_integrations.training.rows import Labelled, ReadingRow

pytest.importorskip("bm25s")
POOL = [make(name, n) for n, name in enumerate(KINGS) for make in (right, wrong)]


def test_a_negative_holds_no_answer():
    rows = [
        ReadingRow(row.question, (*row.answers, "Black Sea"), row.passage) for row in reading_rows()
    ]
    mined = mine_negatives(rows, POOL, depth=20, keep=5)
    for row in mined:
        assert len(row.negatives) == 5
        assert not any(contains_answer(f"{p.title} {p.text}", row.answers) for p in row.negatives)


def test_an_answer_in_the_title_counts():
    pool = [Passage("1", "the river", "Rome"), Passage("2", "the river of Roman kings")]
    (row,) = mine_negatives([ReadingRow("river king", ("Rome",), pool[0])], pool)
    assert row.negatives == (pool[1],)


def test_own_negatives_stay_first_and_the_rest_is_kept():
    row = reading_rows()[3]
    (mined,) = mine_negatives([row], POOL, depth=20, keep=3)
    assert mined.negatives[:2] == row.negatives and len(mined.negatives) == 5
    assert (mined.question, mined.answers, mined.passage) == (
        row.question,
        row.answers,
        row.passage,
    )


def test_candidates_are_ranked_by_shared_words():
    found = searching(POOL, depth=4)(["the film olga", "olga river"])
    assert [len(ranked) for ranked in found] == [4, 4]
    assert found[0][0] == right("olga", 6) and found[1][0] == wrong("olga", 6)
    assert len(searching(POOL[:3], depth=40)(["olga"])[0]) == 3


def test_the_abstention_threshold_by_hand():
    passages = (Passage("", "x"), Passage("", "y"))
    rows = [
        Labelled("right", passages, (1, 0), (1, 0), (0.9, 0.1)),
        Labelled("right too", passages, (0, 1), (0, 1), (0.2, 0.6)),
        Labelled("nothing there", passages, (0, 0), (0, 0), (0.4, 0.3)),
        Labelled("not known", passages, (1, 0), (None, None), (0.99, 0.1)),
    ]
    threshold, accuracy = fit_abstention(rows)
    assert 0.4 < threshold <= 0.6 and accuracy == 1.0
    with pytest.raises(InputError, match="must be rows with reader_score, llm_prefer"):
        fit_abstention(rows[3:])
