"""The engine: order, fields, formats, summaries and exit codes."""

import io
import json
import sys

import pytest
from command_fakes import passages, read, write


@pytest.mark.parametrize(("source", "into"), [(".jsonl", ".jsonl.gz"), (".jsonl.gz", ".jsonl")])
def test_rows_keep_their_order_and_their_fields(tmp_path, scorer, fitrag, rows, source, into):
    given, out = write(tmp_path / f"in{source}", rows), tmp_path / "new" / f"out{into}"
    code, _, told = fitrag("score", given, out)
    assert code == 0
    assert "40 rows" in told and "no error row" in told
    got = read(out)
    assert [{k: v for k, v in row.items() if k != "scores"} for row in got] == rows
    assert all(len(row["scores"]) == 3 for row in got)
    assert scorer.calls == [48, 48, 24]  # 16 questions share a call


def test_an_added_field_replaces_one_of_the_same_name(tmp_path, scorer, fitrag, rows):
    given = write(tmp_path / "in.jsonl", [{**rows[0], "scores": "old"}])
    fitrag("score", given, tmp_path / "out.jsonl")
    assert isinstance(read(tmp_path / "out.jsonl")[0]["scores"], list)


def test_stdin_to_stdout(scorer, fitrag, rows, monkeypatch):
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    code, out, told = fitrag("score", "-", "-", "--json")
    assert code == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == list(range(40))
    assert json.loads(told.splitlines()[-1])["rows"] == 40  # standard output is taken


def test_json_summary_goes_to_stdout(tmp_path, scorer, fitrag, rows):
    given, out = write(tmp_path / "in.jsonl", [*rows, b"nonsense"]), tmp_path / "out.jsonl"
    code, told, err = fitrag("score", given, out, "--json", "--quiet")
    summary = json.loads(told)
    assert (code, err) == (0, "")
    assert summary.pop("seconds") >= 0
    assert summary == {"output": str(out), "rows": 41, "resumed": 0, "errors": 1}


ROW = b'{"question": "who ?", "passages": [{"text": "Ann."}]}\n'


@pytest.mark.parametrize(
    ("lines", "code", "count"),
    [
        (b"nonsense\n" + ROW * 40, 1, 41),  # --strict exits 1 after all rows
        (b"\xef\xbb\xbf" + ROW + b"\r\n \n", 0, 1),  # blank lines and a byte order mark
        (b"", 0, 0),
    ],
)
def test_what_is_a_row(tmp_path, scorer, fitrag, lines, code, count):
    (tmp_path / "in.jsonl").write_bytes(lines)
    out = tmp_path / "out.jsonl"
    assert fitrag("score", tmp_path / "in.jsonl", out, "--strict")[0] == code
    assert len(out.read_bytes().splitlines()) == count


def test_one_failing_question_leaves_those_that_shared_its_call(tmp_path, scorer, fitrag, rows):
    rows[3]["passages"] = passages("SCORER FAILS here")
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    fitrag("score", given, out)
    got = read(out)
    assert got[3]["error"] == {"message": "RuntimeError: no memory left"}
    assert [i for i, row in enumerate(got) if not row["scores"]] == [3]
