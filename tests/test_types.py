"""The values: what they refuse, what they give back, and that they survive a journey."""

import json
import pickle
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitrag_integrations.errors import InputError
from fitrag_integrations.types import (
    Action,
    BiLabelScore,
    Context,
    Excerpt,
    Passage,
    RetrievalDecision,
)

PASSAGE = Passage("p1", "Nino Rota wrote it.", "Amarcord", "wiki", {"year": 1973, "tags": ["a"]})
LABELS = BiLabelScore(0.75, 0.5, 1.0986, 0.0)
EXCERPT = Excerpt(PASSAGE, 0, 9, 1.25, LABELS)
CONTEXT = Context(
    "Who wrote the score?",
    (EXCERPT,),
    queries=("score Amarcord",),
    decision=RetrievalDecision(True, 0.25, 0.5, "unsure"),
    action=Action.AMBIGUOUS,
    draft="Rota",
    notes=("search failed",),
    method="crag",
    details={"upper": 0.5},
)
RECORDS = [PASSAGE, LABELS, EXCERPT, CONTEXT.decision, CONTEXT]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_survive_json_and_pickle(record):
    through_json = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    assert type(record).from_dict(through_json) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert hash(record) == hash(pickle.loads(pickle.dumps(record)))


def test_records_are_frozen_and_slotted():
    for record in RECORDS:
        assert not hasattr(record, "__dict__")
        with pytest.raises(AttributeError):
            setattr(record, fields(record)[0].name, None)


def test_metadata_is_never_shared():
    metadata = {"k": 1}
    passage = Passage("a", "t", metadata=metadata)
    metadata["k"] = 2
    assert passage.metadata == {"k": 1}
    assert Passage("a", "t").metadata is not Passage("b", "t").metadata


def test_metadata_is_equal_but_not_hashed():
    assert hash(Passage("a", "t", metadata={"k": []})) == hash(Passage("a", "t"))
    assert Passage("a", "t", metadata={"k": []}) != Passage("a", "t")


def test_metadata_that_json_cannot_hold_becomes_its_repr():
    metadata = {"when": 1 + 2j, "n": np.float32(0.5), "x": float("nan"), "b": b"a"}
    given_back = Passage("a", "t", metadata=metadata).to_dict()["metadata"]
    assert given_back == {"when": "(1+2j)", "n": 0.5, "x": "nan", "b": "b'a'"}


@given(st.text(), st.data())
def test_an_excerpt_is_a_slice_of_its_passage(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    excerpt = Excerpt(Passage("p", text), start, end)
    assert excerpt.text == text[start:end]
    assert Excerpt.from_dict(excerpt.to_dict()) == excerpt


def test_an_excerpt_becomes_a_passage_a_scorer_can_read():
    read = EXCERPT.as_passage()
    assert (read.text, read.title, dict(read.metadata)) == ("Nino Rota", "Amarcord", {})
    assert Excerpt.whole(PASSAGE).text == PASSAGE.text


@pytest.mark.parametrize(
    ("start", "end", "field"),
    [(-1, 3, "start"), (4, 3, "start"), (0, 99, "end"), (0.5, 3, "start")],
)
def test_an_excerpt_outside_its_passage_is_refused(start, end, field):
    with pytest.raises(InputError, match=rf"Excerpt\.{field}` must be an integer from 0"):
        Excerpt(PASSAGE, start, end, 0.0)


def test_the_default_weight_is_the_papers_sum():
    assert BiLabelScore(0.75, 0.5).combine() == 1.25
    assert BiLabelScore(0.75, 0.5).combine(0.0) == 1.5
    assert BiLabelScore(0.75, 0.5).combine(1.0) == 1.0
    assert BiLabelScore(0.75, 0.5).combine(0.25) == 1.375  # 2 * (0.125 + 0.5625)
    assert BiLabelScore(0.75).combine(0.9) == 1.5


@given(*[st.floats(0, 1)] * 2)
def test_the_combined_score_is_the_sum_exactly(has_answer, llm_prefer):
    score = BiLabelScore(has_answer, llm_prefer)
    assert score.combine() == pytest.approx(has_answer + llm_prefer, rel=1e-15, abs=1e-300)


def test_numbers_come_out_as_plain_python():
    score = BiLabelScore(np.float32(0.5), np.float64(0.25), np.float32(1), np.float64(2))
    excerpt = Excerpt(PASSAGE, np.int64(0), np.int32(4), np.float32(0.5))
    values = [score.has_answer, score.llm_prefer, score.llm_prefer_logit, excerpt.score]
    assert {type(value) for value in values} == {float}
    assert {type(excerpt.start), type(excerpt.end)} == {int}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Passage(7, "t"), r"Passage\.id` must be a string"),
        (lambda: Passage("a", None), r"Passage\.text` must be a string"),
        (lambda: Passage("a", "t", metadata=[1]), r"Passage\.metadata` must be a mapping"),
        (lambda: BiLabelScore(1.5), r"has_answer` must be .*from 0 to 1"),
        (lambda: BiLabelScore(True), r"has_answer` must be .*got True"),
        (lambda: BiLabelScore(0.5, float("nan")), r"llm_prefer` must be"),
        (lambda: LABELS.combine(2), r"weight` must be"),
        (lambda: Excerpt("text", 0, 1), r"Excerpt\.passage` must be a Passage"),
        (lambda: Excerpt(PASSAGE, 0, 1, float("inf")), r"Excerpt\.score` must be"),
        (lambda: RetrievalDecision("yes"), r"retrieve` must be a bool"),
        (lambda: RetrievalDecision(True, 2.0), r"p_known` must be"),
        (lambda: Context(None), r"Context\.question` must be"),
        (lambda: Context("q", "text"), r"Context\.excerpts` must be a sequence of Excerpt"),
        (lambda: Context("q", [PASSAGE]), r"Context\.excerpts\[0\]` must be a Excerpt"),
        (
            lambda: Context("q", action="maybe"),
            r"Context\.action` must be 'correct' or 'ambiguous'",
        ),
        (lambda: Passage.from_dict({"id": "a"}), r"Passage\.text` must be a value"),
        (lambda: Passage.from_dict("a"), r"Passage` must be a mapping"),
    ],
)
def test_a_wrong_value_is_told_by_field_given_and_allowed(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_an_action_is_its_word():
    assert [str(action) for action in Action] == ["correct", "ambiguous", "incorrect"]
    assert Context("q", action="incorrect").action is Action.INCORRECT


def test_the_prompt_follows_the_decision_and_what_was_kept():
    assert "1. Amarcord: Nino Rota\n" in CONTEXT.prompt()
    assert "none was found" in Context("q").prompt()
    skipped = Context("q", (EXCERPT,), decision=RetrievalDecision(False))
    assert "background passage" in skipped.prompt()


def test_a_prompt_takes_anything_that_renders():
    class Shout:
        def render(self, context):
            return context.question.upper()

    assert Context("why").prompt(Shout()) == "WHY"
