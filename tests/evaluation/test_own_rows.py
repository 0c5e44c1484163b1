"""Rows of our own and of published shapes, and what is no row."""

import json

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.rows import converted, read_rows, records_in

ILLER = "It rises in the Allgäu. It meets the Danube."
PAIRS = [["Iller", ["It rises in the Allgäu. ", "It meets the Danube."]], ["Blank", [" "]]]
PASSAGES = [{"title": "Iller", "text": ILLER}]
HOTPOT = {"_id": "h", "question": "Where?", "answer": "Ulm", "supporting_facts": [["Iller", 1]]}
COLUMNS = {"title": ["Iller"], "sentences": [PAIRS[0][1]]}
PARAGRAPH = {"idx": 0, "title": "Iller", "paragraph_text": ILLER, "is_supporting": True}
SHAPES = [
    ({"answer": ["the Danube", "Danube"]}, ["the Danube", "Danube"], None),
    (
        {"answer": {"value": "Iller", "aliases": ["Iller", "River Iller"]}},
        ["Iller", "River Iller"],
        None,
    ),
    (
        {"possible_answers": '["Danube", "Donau"]', "s_wiki_title": "Iller"},
        ["Danube", "Donau"],
        None,
    ),
    ({**HOTPOT, "context": PAIRS}, ["Ulm"], PASSAGES),
    ({**HOTPOT, "context": COLUMNS}, ["Ulm"], PASSAGES),
    ({**HOTPOT, "context": json.dumps(PAIRS), "evidences": []}, ["Ulm"], PASSAGES),
    ({**HOTPOT, "context": {"title": ["Iller"], "content": [PAIRS[0][1]]}}, ["Ulm"], PASSAGES),
    (
        {"answer": "Ulm", "answer_aliases": ["Ulm on the Danube"], "paragraphs": [PARAGRAPH]},
        ["Ulm", "Ulm on the Danube"],
        [{**PASSAGES[0], "is_supporting": 1}],
    ),
]


@pytest.mark.parametrize(("row", "answers", "passages"), SHAPES)
def test_published_rows_are_converted(row, answers, passages):
    found = converted({"id": "1", "question": "Where does it end?", **row})
    assert (found["id"], found["answers"], found.get("passages")) == ("1", answers, passages)
    assert found.get("title") == row.get("s_wiki_title")


def test_rows_of_ours_stay_as_they_are():
    for more in ({"answers": ["a"]}, {"passages": [], "answer": "b"}):
        row = {"question": "q", "context": 3, **more}
        assert converted(row) is row and converted(row, "fitrag") is row


@pytest.mark.parametrize(
    ("row", "format", "said"),
    [
        ({"question": "q", "reply": 1}, "auto", "given a row of question, reply"),
        ({"question": "q", "answer": "text"}, "auto", "row of question, answer"),
        ({"question": " ", "answers": ["a"]}, "auto", "question"),
        ({"question": "q", "answer": [3]}, "nq", "answer"),
        ({"question": "q", "answer": []}, "nq", "answer"),
        ({"question": "q", "answer": "a", "context": [3]}, "hotpotqa", r"context\[0\]"),
        ({"question": "q", "answer": "a", "context": [["t", 3]]}, "hotpotqa", r"context\[0\].text"),
    ],
)
def test_what_is_no_row_is_named(tmp_path, row, format, said):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match=said) as told:
        read_rows(path, format)
    assert "row 1" in str(told.value)


FILES = {
    "rows.jsonl": '{"question": "q", "answers": ["a"]}\n',
    "rows.json": '[{"question": "q", "answers": ["a"]}]',
    "data.json": '{"version": 1, "data": [{"question": "q", "answers": ["a"]}]}',
    "rows.yaml": "- question: q\n  answers: [a]\n",
    "rows.csv": 'question,answers\nq,"[""a""]"\n',
    "rows.tsv": "question\tanswers\nq\ta\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_by_its_name(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    (row,) = records_in(tmp_path / name)
    assert row["question"] == "q" and "a" in str(row["answers"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "{"),
        ("a.json", "3"),
        ("a.yaml", "a: [b"),
        ("a.yaml", "!!python/object/apply:os.system [true]"),
        ("a.csv", 'q\n"never closed'),
        ("a.json", "[" * 100_000),
        ("a.txt", "q"),
        ("a.json", "[1]"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=name):
        records_in(tmp_path / name)


def test_cells_beyond_the_header_are_kept(tmp_path):
    (tmp_path / "a.csv").write_text("q\none,two,three\n")
    assert records_in(tmp_path / "a.csv") == [{"q": "one", "more": ["two", "three"]}]
