"""Mined negatives hold no answer; labels say what is in a passage and what is read from it."""

import pytest
from training_rows import KINGS, reading_rows, right, wrong

from fitrag_integrations import Passage
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.models.reader import Answer
from fitrag_integrations.training.labels import fit_abstention, is_correct, label_passages
from fitrag_integrations.training.mining import candidates, mine_negatives
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
    found = candidates(["the film olga", "olga river"], POOL, depth=4)
    assert [len(ranked) for ranked in found] == [4, 4]
    assert found[0][0] == right("olga", 6) and found[1][0] == wrong("olga", 6)
    assert len(candidates(["olga"], POOL[:3], depth=40)[0]) == 3


class FirstWords:
    """Read the first two words of a passage; keep how many pairs came at once."""

    def __init__(self):
        self.asked = []

    def read(self, pairs):
        self.asked.append(len(pairs))
        texts = [" ".join(passage.text.split()[:2]) for _, passage in pairs]
        return [Answer(text, 0, len(text), 1.0) for text in texts]


def test_labels_by_hand():
    pool = [
        Passage("", "in rome the king", "film"),
        Passage("", "the king of rome", "film"),
        Passage("", "the river king", "Rome"),
        Passage("", "a king in paris"),
    ]
    reader = FirstWords()
    asked = [
        ReadingRow("rome king", ("Rome",), pool[0]),
        ReadingRow("paris king", ("Paris", "a king"), pool[3]),
    ]
    rows = list(label_passages(asked, pool, reader, depth=4, at_once=1))
    assert [row.question for row in rows] == ["rome king", "paris king"] and reader.asked == [4, 4]
    labels = [([1, 1, 1, 0], [1, 0, 0, 0]), ([0, 0, 0, 1], [0, 1, 0, 1])]
    for row, (has, prefer) in zip(rows, labels, strict=True):
        at = [row.passages.index(passage) for passage in pool]
        assert [row.has_answer[i] for i in at] == has
        assert [row.llm_prefer[i] for i in at] == prefer
    together = list(label_passages(asked, pool, FirstWords(), depth=4))
    assert together == rows
    assert rows[0].reader_scores == (1.0,) * 4


def test_without_answers_only_the_own_passage_is_known_to_hold_one():
    (row,) = label_passages([ReadingRow("otto river", (), POOL[1])], POOL, FirstWords(), depth=5)
    assert [p.text == POOL[1].text for p in row.passages] == [has == 1 for has in row.has_answer]
    assert row.llm_prefer == (None,) * 5 and sum(row.has_answer) == 1


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
    with pytest.raises(InputError, match="allowed rows with reader_score, llm_prefer"):
        fit_abstention(rows[3:])


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [("in Rome", ["rome"], True), ("the king", ["A king"], True), ("Romes", ["Rome"], False)],
)
def test_what_counts_as_correct(answer, gold, right):
    assert is_correct(answer, gold) is right
