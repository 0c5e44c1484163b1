"""Rows: through JSON and back, through files and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_rows import labelled_rows, reading_rows

from fitrag_integrations import Passage
from fitrag_integrations.errors import InputError
from fitrag_integrations.training.rows import (
    Labelled,
    ReadingRow,
    judged_row,
    labelled_json,
    labelled_row,
    read_jsonl,
    reading_json,
    reading_row,
    write_jsonl,
)

passages = st.builds(Passage, id=st.just(""), text=st.text(), title=st.text())
readings = st.builds(
    ReadingRow,
    question=st.text(),
    answers=st.lists(st.text(), min_size=1).map(tuple),
    passage=passages,
    answer_start=st.none() | st.integers(0, 99),
    negatives=st.lists(passages, max_size=3).map(tuple),
)


@given(readings)
def test_a_reading_row_comes_back(row):
    assert reading_row(json.loads(json.dumps(reading_json(row)))) == row


marks = st.tuples(passages, st.integers(0, 1), st.sampled_from([0, 1, None]), st.floats(0, 1))


@given(st.text(), st.lists(marks, max_size=4), st.booleans())
def test_a_labelled_row_comes_back(question, marked, scored):
    columns = tuple(zip(*marked, strict=True)) or ((), (), (), ())
    row = Labelled(question, *columns[: 3 + scored])
    assert labelled_row(json.loads(json.dumps(labelled_json(row)))) == row


def test_what_may_be_left_out():
    row = reading_row({"question": "q", "answers": ["a"], "passage": {"text": "a", "title": None}})
    assert row == ReadingRow("q", ("a",), Passage("", "a"))
    assert reading_row(reading_json(row) | {"negatives": None}) == row


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_files_come_back(tmp_path, name):
    write_jsonl(tmp_path / name, map(reading_json, reading_rows()))
    assert [reading_row(row) for row in read_jsonl(tmp_path / name)] == reading_rows()
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith("gz")
    write_jsonl(tmp_path / name, map(labelled_json, labelled_rows()))
    assert [labelled_row(row) for row in read_jsonl(tmp_path / name)] == labelled_rows()


WHOLE = {
    "question": "who",
    "answers": ["Ann"],
    "passage": {"text": "Ann."},
    "passages": [{"text": "Ann.", "has_answer": 1, "llm_prefer": 0}],
}


@pytest.mark.parametrize("read", [labelled_row, reading_row, judged_row])
def test_a_field_that_is_missing_or_of_another_kind_is_named(read):
    needed = {
        "question": [None, 3],
        "answers": ["Ann", [3], 3],
        "passage": [None, [], {"text": 3}],
        "passages": ["x", [3], [{}], [{"text": 3}]],
    }
    read(WHOLE)
    for name in needed if read is reading_row else ("question", "passages"):
        if read is reading_row and name == "passages":
            continue
        for value in needed[name]:
            with pytest.raises(InputError, match=name.removesuffix("s")):
                read({**WHOLE, name: value})
