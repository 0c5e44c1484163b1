"""A run stopped anywhere is continued to the same output."""

import gzip
import json

import pytest
from command_fakes import read, write

from fitrag_integrations.commands.engine.outputs import resume
from fitrag_integrations.commands.engine.rows import Line
from fitrag_integrations.errors import InputError


@pytest.fixture
def given(tmp_path, rows):
    """Rows of which one is bad JSON and one lacks its passages."""
    few = [rows[0], b'{"id": 1, "bad', {"id": 2, "question": "why"}, *rows[3:6]]
    return write(tmp_path / "in.jsonl", few)


def whole(fitrag, given, name):
    out = given.parent / name
    assert fitrag("score", given, out)[0] == 0
    return out


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_every_cut_is_continued(scorer, fitrag, given, name):
    out = whole(fitrag, given, name)
    data, expected = out.read_bytes(), read(out)
    for cut in range(0, len(data) + 1, 3 if name.endswith(".gz") else 11):
        out.write_bytes(data[:cut])
        code, said, _ = fitrag("score", given, out, "--json")
        assert code == 0, cut
        assert read(out) == expected, cut
        assert json.loads(said)["errors"] == 2, cut
    if name == "out.jsonl":
        assert out.read_bytes() == data


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


def test_gzip_written_in_several_members_is_continued(scorer, fitrag, tmp_path, rows):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl.gz"
    fitrag("score", given, out)
    data, expected = out.read_bytes(), read(out)
    assert data.count(b"\x1f\x8b\x08") == 3  # a member for each chunk
    for cut in range(0, len(data), 131):
        out.write_bytes(data[:cut])
        assert fitrag("score", given, out)[0] == 0
        assert read(out) == expected
    assert not list(tmp_path.glob("*.partial"))


def test_a_whole_output_is_left_alone(scorer, fitrag, given):
    out = whole(fitrag, given, "out.jsonl")
    scorer.calls.clear()
    before = out.read_bytes()
    assert json.loads(fitrag("score", given, out, "--json")[1])["resumed"] == 6
    assert scorer.calls == [] and out.read_bytes() == before


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
        lambda rows: [{**rows[0], "passages": []}, *rows[1:]],
        lambda rows: rows[:-1],
    ],
    ids=["shifted", "id", "question", "passages", "shorter"],
)
@pytest.mark.parametrize("cut", [0, 5])
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_an_output_of_other_rows_is_refused_and_kept(
    scorer, fitrag, tmp_path, rows, change, cut, name
):
    out = whole(fitrag, write(tmp_path / "in.jsonl", rows[:4]), name)
    if cut and not name.endswith(".gz"):
        out.write_bytes(out.read_bytes()[:-cut])
    before = out.read_bytes()
    other = write(tmp_path / "other.jsonl", change(rows[:4]))
    code, _, err = fitrag("score", other, out)
    assert code == 2
    assert "delete it, choose another output, or give --overwrite" in err
    assert out.read_bytes() == before
    assert fitrag("score", other, out, "--overwrite")[0] == 0
    assert len(read(out)) == len(change(rows[:4]))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("out.jsonl", b"my only copy of something"),
        ("out.jsonl", b"a: 1\nb: 2\n"),
        ("out.jsonl", b'{"settings": true}'),
        ("out.jsonl", b"\0\0\0"),
        ("out.jsonl.gz", b"my only copy of something"),
        ("out.jsonl.gz", gzip.compress(b"my only copy of something", mtime=0)),
    ],
)
def test_a_file_that_is_something_else_is_refused_and_kept(scorer, fitrag, given, name, content):
    out = given.parent / name
    out.write_bytes(content)
    assert fitrag("score", given, out)[0] == 2
    assert out.read_bytes() == content


def test_a_damaged_member_costs_only_what_follows_it(tmp_path):
    rows = [Line({"id": i}) for i in range(3)]
    members = [gzip.compress(json.dumps({"id": i, "scores": []}).encode() + b"\n") for i in (0, 1)]
    path = tmp_path / "out.jsonl.gz"
    path.write_bytes(members[0] + members[1] + b"garbage at the end")
    done, _, rest = resume(path, iter(rows), ("scores",))
    assert (done, [row.given for row in rest]) == (2, [{"id": 2}])
    assert [row["id"] for row in read(path)] == [0, 1]


def test_more_rows_than_the_input_has_are_refused(tmp_path):
    path = write(tmp_path / "out.jsonl", [{"id": 0}, {"id": 1}])
    with pytest.raises(InputError, match="row 2"):
        resume(path, iter([Line({"id": 0})]), ("scores",))


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
