"""Options belong to the output they made, and one run at a time writes it."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_fakes import passages, read, write

from fitrag_integrations.commands.engine import models
from fitrag_integrations.core import jsonl


@pytest.fixture
def given(tmp_path, rows):
    return write(tmp_path / "in.jsonl", rows[:3])


def unloadable(monkeypatch):
    """Let no model load from here on."""

    def load(options):
        raise AssertionError("a model was loaded")

    for name in ("load_scorer", "load_reader", "load_gate", "load_evaluator"):
        monkeypatch.setattr(models, name, load)


@pytest.mark.parametrize(
    ("verb", "first", "then", "said"),
    [
        ("compress", ["--max-tokens", 400], ["--max-tokens", 50], "--max-tokens` must be"),
        ("compress", [], ["--window", 3], "--window` must be"),
        ("compress", ["--top-n", 2], [], "--top-n` must be"),
        ("answer", ["--top-n", 2], ["--top-n", 1], "--top-n` must be"),
        ("score", [], ["--model", "another"], "--model` must be"),
        ("read", [], ["--abstain"], "--abstain` must be"),
    ],
)
def test_other_options_than_the_outputs_are_refused(
    tmp_path, given, scorer, fitrag, monkeypatch, verb, first, then, said
):
    out = tmp_path / "out.jsonl"
    assert fitrag(verb, given, out, *first)[0] == 0
    before = out.read_bytes()
    unloadable(monkeypatch)
    code, _, err = fitrag(verb, given, out, *then)
    assert code == 2 and said in err and "--overwrite" in err
    assert out.read_bytes() == before


def test_another_verb_is_refused_and_options_that_change_no_row_are_not(
    tmp_path, given, scorer, fitrag
):
    out = tmp_path / "out.jsonl"
    fitrag("score", given, out)
    code, _, err = fitrag("read", given, out)
    assert code == 2 and "verb` must be" in err and "must be score" in err
    assert fitrag("score", given, out, "--device", "cpu", "--batch-tokens", 64, "--quiet")[0] == 0


LARGER = 2_000_000  # bytes


@pytest.mark.parametrize(
    ("model", "file", "first", "then"),
    [
        ("model", "model/model.json", '{"temperature": 1}', '{"temperature": 2}'),
        ("model", "model/weights", "a" * LARGER, "b" * LARGER),
    ],
    ids=["manifest", "large weights"],
)
def test_a_model_with_other_content_is_another(
    tmp_path, given, request, fitrag, model, file, first, then
):
    if model == "model":
        (tmp_path / model).mkdir()
        request.getfixturevalue("scorer")
    out = tmp_path / "out.jsonl"
    (tmp_path / file).write_text(first)
    for _ in range(2):
        assert fitrag("score", given, out, "--model", tmp_path / model)[0] == 0
    before = out.read_bytes()
    (tmp_path / file).write_text(then)
    code, _, err = fitrag("score", given, out, "--model", tmp_path / model)
    assert code == 2 and "--model" in err and "--overwrite" in err
    assert out.read_bytes() == before


@pytest.mark.parametrize("left", [None, b"", b'{"verb": "sc'])
def test_rows_without_their_settings_are_refused_or_overwritten(
    tmp_path, given, scorer, fitrag, monkeypatch, left
):
    out, beside = tmp_path / "out.jsonl", tmp_path / "out.jsonl.settings"
    fitrag("score", given, out)
    before = out.read_bytes()
    beside.unlink() if left is None else beside.write_bytes(left)
    with monkeypatch.context() as loads:
        unloadable(loads)
        code, _, err = fitrag("score", given, out)
    assert code == 2 and "out.jsonl.settings" in err and "--overwrite" in err
    assert out.read_bytes() == before and (not left or beside.read_bytes() == left)
    assert fitrag("score", given, out, "--overwrite")[0] == 0
    assert fitrag("score", given, out)[0] == 0


SLOW = """
import sys, time
from fitrag_integrations.cli import main
from fitrag_integrations.commands.engine import models
from fitrag_integrations.types import BiLabelScore
class Slow:
    name = "slow"
    def score(self, pairs):
        print("scoring", flush=True)
        time.sleep(float(sys.argv[1]))
        return [BiLabelScore(0.5, 0.5) for _ in pairs]
models.load_scorer = lambda options: Slow()
main(sys.argv[2:])
"""


def begun(seconds, *arguments):
    """Start a run whose batches take so long, and wait for the first."""
    words = [sys.executable, "-c", SLOW, str(seconds), *map(str, arguments)]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "scoring\n"
    return run


@pytest.mark.parametrize("joined", [None, Path.symlink_to, Path.hardlink_to])
def test_two_runs_do_not_write_one_output_nor_a_link_to_it(tmp_path, rows, scorer, fitrag, joined):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    (tmp_path / "elsewhere").mkdir()
    other = out if joined is None else tmp_path / "elsewhere" / "other.jsonl"
    first = begun(60, "score", given, out)
    try:
        if joined is not None:
            joined(other, out)
        for how in ([], ["--overwrite"]):
            code, _, err = fitrag("score", given, other, *how)
            assert code == 2 and other.name in err and "no other run is writing" in err
    finally:
        first.kill()
        first.communicate()
    assert fitrag("score", given, out)[0] == 0
    assert [row["id"] for row in read(out)] == list(range(40))


def test_an_output_may_be_a_symbolic_link(tmp_path, rows, scorer, fitrag):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    out.symlink_to(tmp_path / "disk.jsonl")
    for how in ([], [], ["--overwrite"]):
        assert fitrag("score", given, out, *how)[0] == 0
        assert out.is_symlink() and len(read(tmp_path / "disk.jsonl")) == 40
    assert (tmp_path / "disk.jsonl.settings").exists()


def test_two_runs_of_evaluate_do_not_write_one_output(tmp_path, rows, fitrag):
    given = write(tmp_path / "in.jsonl", [{**row, "answers": ["Ann"]} for row in rows[:1]])
    with jsonl.appending(str(tmp_path / "out.jsonl")):
        (tmp_path / "other.jsonl").symlink_to(tmp_path / "out.jsonl")
        words = ["evaluate", "answers", str(given), "--answers", str(tmp_path / "other.jsonl")]
        command = [sys.executable, "-m", "fitrag_integrations.cli", *words, "--method", "direct"]
        second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 2 and "no other run is writing" in second.stderr


def test_a_run_asked_to_stop_ends_its_batch_and_says_where(tmp_path, rows, scorer, fitrag):
    given, out = write(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    run = begun(2, "score", given, out)
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGTERM
    assert "asked to stop after 16 rows" in err and "Traceback" not in err
    assert "waits for the batch under way; 0 rows are written; a second signal ends it" in err
    assert len(read(out)) == 16
    assert fitrag("score", given, out)[0] == 0
    assert len(read(out)) == 40


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a full device")
def test_an_output_on_a_full_device_is_told_plainly(tmp_path, given, scorer, fitrag):
    (tmp_path / "out.jsonl").symlink_to("/dev/full")
    code, _, err = fitrag("score", given, tmp_path / "out.jsonl")
    assert code == 2 and err.startswith("fitrag: ")
    assert "No space left" in err and "Traceback" not in err


def test_a_closed_pipe_is_no_traceback(tmp_path, rows):
    given = write(tmp_path / "in.jsonl", rows)
    with begun(1, "score", given, "-") as run:
        run.stdout.close()
        err = run.stderr.read()
    assert run.returncode == 1
    assert "Traceback" not in err and "Exception" not in err


def test_a_score_that_is_no_number_is_an_error_row(tmp_path, given, fitrag, monkeypatch):
    nothing = SimpleNamespace(has_answer=float("nan"), llm_prefer=0.5)
    odd = SimpleNamespace(name="odd", score=lambda pairs: [nothing for _ in pairs])
    monkeypatch.setattr(models, "load_scorer", lambda options: odd)
    code, _, err = fitrag("score", given, tmp_path / "out.jsonl")
    assert code == 1 and "every row failed" in err
    assert "NaN" not in (tmp_path / "out.jsonl").read_text().replace("NaN or Infinity", "")
    assert read(tmp_path / "out.jsonl")[0]["scores"] == []


def test_a_machine_out_of_open_files_ends_the_run(tmp_path, given, fitrag, monkeypatch):
    def score(pairs):
        raise OSError(errno.EMFILE, "Too many open files", "weights")

    monkeypatch.setattr(models, "load_scorer", lambda options: SimpleNamespace(score=score))
    code, _, err = fitrag("score", given, tmp_path / "out.jsonl")
    assert code == 2 and err == "fitrag: [Errno 24] Too many open files: 'weights'\n"
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        (1, [{"question": "why"}, {"question": ""}], "1 x `passages` must be"),
        (0, [{"text": "no question"}] * 3, "3 x `question` must be"),  # this run fails
    ],
)
def test_why_rows_failed_is_told(tmp_path, scorer, fitrag, rows, good, bad, said):
    given = write(tmp_path / "in.jsonl", [*rows[:good], *bad])
    for _ in range(2):  # of the earlier run, too
        code, _, err = fitrag("score", given, tmp_path / "out.jsonl", *["--quiet"] * (not good))
        assert code == 1 and said in err and ("every row failed" in err) is not bool(good)


def test_a_long_line_is_continued_in_time(tmp_path, scorer, fitrag):
    def seconds(length):
        out = tmp_path / f"{length}.out.jsonl"
        row = {"question": "ann ?", "passages": passages("Ann."), "note": "x" * length}
        given = write(tmp_path / f"{length}.jsonl", [row, row])
        fitrag("score", given, out)
        os.truncate(out, out.stat().st_size - 2)
        began = time.process_time()
        assert json.loads(fitrag("score", given, out, "--json")[1])["resumed"] == 1
        return time.process_time() - began

    seconds(10)
    assert seconds(24_000_000) < 10 * seconds(6_000_000) + 1.0  # its square: 16
