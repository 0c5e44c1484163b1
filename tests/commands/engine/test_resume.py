"""A run stopped anywhere is continued to the same output."""

import gzip
import json

import pytest
from command_fakes import read, write


@pytest.fixture
def given(tmp_path, rows):
    """Rows of which one is bad JSON and one lacks its passages."""
    few = [rows[0], b'{"id": 1, "bad', {"id": 2, "question": "why"}, *rows[3:6]]
    return write(tmp_path / "in.jsonl", few)


def whole(fitrag, given, name):
    out = given.parent / name
    assert fitrag("score", given, out, "--keep-going")[0] == 0
    return out


def test_cuts_at_line_ends(scorer, fitrag, given):
    out = whole(fitrag, given, "out.jsonl")
    data = out.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    for done, end in enumerate(ends, start=1):
        for cut in (end - 1, end, end + 1):
            out.write_bytes(data[:cut])
            scorer.calls.clear()
            said = json.loads(fitrag("score", given, out, "--json")[1])
            assert said["resumed"] == (done if cut >= end else done - 1)
            assert out.read_bytes() == data


def test_gzip_is_continued_after_its_rows_and_refused_where_damaged(scorer, fitrag, tmp_path, rows):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl.gz"
    fitrag("score", given, out)
    data, expected = out.read_bytes(), read(out)
    second = data.index(b"\x1f\x8b\x08", 1)  # a member for each chunk
    out.write_bytes(data[:second])
    assert json.loads(fitrag("score", given, out, "--json")[1])["resumed"] == 16
    assert read(out) == expected
    out.write_bytes(data[: second + 40])
    code, _, err = fitrag("score", given, out)
    assert code == 2 and "damaged or cut" in err and out.read_bytes() == data[: second + 40]


def test_rows_added_to_the_input_are_all_that_is_run(scorer, fitrag, given, rows):
    out = whole(fitrag, given, "out.jsonl")
    with given.open("a") as file:
        file.write(json.dumps(rows[9]) + "\n")
    scorer.calls.clear()
    fitrag("score", given, out)
    assert scorer.calls == [3] and read(out)[-1]["id"] == 9


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[1:],
        lambda rows: [{**rows[0], "id": 99}, *rows[1:]],
        lambda rows: [{**rows[0], "question": "another"}, *rows[1:]],
        lambda rows: rows[:-1],
    ],
    ids=["shifted", "id", "question", "shorter"],
)
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_an_output_of_other_rows_is_refused_and_kept(scorer, fitrag, tmp_path, rows, change, name):
    out = whole(fitrag, write(tmp_path / "in.jsonl", rows[:4]), name)
    before = out.read_bytes()
    other = write(tmp_path / "other.jsonl", change(rows[:4]))
    code, _, err = fitrag("score", other, out)
    assert code == 2
    assert "delete the output, choose another one, or give --overwrite" in err
    assert out.read_bytes() == before
    assert fitrag("score", other, out, "--overwrite")[0] == 0
    assert len(read(out)) == len(change(rows[:4]))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("out.jsonl", b"my only copy of something"),
        ("out.jsonl", b'{"settings": true}'),
        ("out.jsonl", b"\0\0\0"),
        ("out.jsonl.gz", gzip.compress(b"my only copy of something", mtime=0)),
    ],
)
def test_a_file_that_is_something_else_is_refused_and_kept(scorer, fitrag, given, name, content):
    out = given.parent / name
    out.write_bytes(content)
    assert fitrag("score", given, out)[0] == 2
    assert out.read_bytes() == content
    assert {each.name for each in given.parent.iterdir()} == {"in.jsonl", name}


@pytest.mark.parametrize("done", [1, 15, 16, 17, 39])
def test_the_lots_behind_a_cut_are_those_of_a_run_in_one_go(tmp_path, scorer, fitrag, rows, done):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    fitrag("score", given, out)
    data, calls = out.read_bytes(), scorer.calls.copy()
    assert calls == [48, 48, 24]
    out.write_bytes(b"".join(data.splitlines(keepends=True)[:done]))
    scorer.calls.clear()
    fitrag("score", given, out)
    assert out.read_bytes() == data
    assert sum(scorer.calls) == 3 * (40 - done)
    assert scorer.calls[1:] == calls[1 + done // 16 :]
