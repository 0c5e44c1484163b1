"""The engine: order, fields, formats, summaries and exit codes."""

import io
import json
import os
import re
import subprocess
import sys
import time

import pytest
from command_fakes import passages, read, write

from fitrag_integrations.commands.engine import progress


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
    code, told, err = fitrag("score", given, out, "--json", "--quiet", "--keep-going")
    summary = json.loads(told)
    assert (code, err) == (0, "")
    assert summary.pop("seconds") >= 0
    assert summary == {"output": str(out), "rows": 41, "resumed": 0, "errors": 1}


ROW = b'{"question": "who ?", "passages": [{"text": "Ann."}]}\n'


@pytest.mark.parametrize(
    ("lines", "code", "count"),
    [
        (b"nonsense\n" + ROW * 40, 1, 41),  # after all rows
        (b"\xef\xbb\xbf" + ROW + b"\r\n \n", 0, 1),  # blank lines and a byte order mark
        (b"", 0, 0),
    ],
)
def test_what_is_a_row(tmp_path, scorer, fitrag, lines, code, count):
    (tmp_path / "in.jsonl").write_bytes(lines)
    out = tmp_path / "out.jsonl"
    assert fitrag("score", tmp_path / "in.jsonl", out)[0] == code
    assert len(out.read_bytes().splitlines()) == count


@pytest.mark.parametrize("verb", ["score", "compress", "route"])
def test_a_failed_row_fails_the_run_unless_it_is_to_keep_going(tmp_path, fitrag, rows, verb):
    rows[1]["question"] = " "
    given = write(tmp_path / "in.jsonl", rows[:4])
    code, _, told = fitrag(verb, given, tmp_path / "out.jsonl", "--quiet")
    assert code == 1 and "1 of 4 rows failed: exit code 1" in told and "question" in told
    assert fitrag(verb, given, tmp_path / "out.jsonl", "--quiet", "--keep-going") == (0, "", "")
    assert [("error" in row) for row in read(tmp_path / "out.jsonl")] == [False, True, False, False]


def test_a_run_without_a_terminal_says_how_far_it_is(tmp_path, scorer, fitrag, rows, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    score = scorer.score
    scorer.score = lambda pairs: time.sleep(0.05) or score(pairs)
    given = write(tmp_path / "in.jsonl", rows)
    told = fitrag("score", given, tmp_path / "out.jsonl")[2].splitlines()
    assert re.fullmatch(r"fitrag score: rows: 0 of 40, \d+ s", told[0])
    assert sum(line.startswith("fitrag score: rows:") for line in told) > 2


def test_threads_for_each_level_are_no_error(tmp_path, rows):
    given, out = write(tmp_path / "in.jsonl", rows[:1]), tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "fitrag_integrations.cli", "score", given, out]
    where = os.environ | {"OMP_NUM_THREADS": "2,1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(list(map(str, command)), env=where, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_one_failing_question_leaves_those_that_shared_its_call(tmp_path, scorer, fitrag, rows):
    rows[3]["passages"] = passages("SCORER FAILS here")
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    fitrag("score", given, out)
    got = read(out)
    assert got[3]["error"] == {"message": "RuntimeError: no memory left"}
    assert [i for i, row in enumerate(got) if not row["scores"]] == [3]
