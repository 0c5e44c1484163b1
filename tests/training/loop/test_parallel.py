"""Several processes, accumulation, and runs that were killed: all come to the same weights."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from tiny import write_bert, write_t5_classifier
from tiny_causal import write_llama
from toy_known import toy_rows
from training_process import PLAN, mixed_rows, train
from training_rows import judged_rows
from typer.testing import CliRunner

from fitrag_integrations import cli
from fitrag_integrations.cli import app
from fitrag_integrations.errors import InputError
from fitrag_integrations.training.bilabel.fit import _fit_on_frozen
from fitrag_integrations.training.loop import parallel
from fitrag_integrations.training.loop.parallel import ALONE, SIZES, Processes, lost_processes
from fitrag_integrations.training.rows import judged_json, labelled_json, write_jsonl

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
HERE = Path(__file__).parents[1]
TWO = Processes(0, 2)


def processes(arguments, count, **how):
    """Start processes of a run, as `torchrun` would, and wait. Gives exit codes and stderr."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    known = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    known |= {"OMP_NUM_THREADS": str(torch.get_num_threads())}  # which sums are rounded by
    made = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env=os.environ | known | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            text=True,
            **how,
        )
        for rank in range(count)
    ]
    told = [process.communicate(timeout=240)[1] for process in made]
    return [process.returncode for process in made], told


def start(base, folder, changes, *, count=1, kill_at=0):
    """Start processes that train one scorer. Gives their exit codes."""
    arguments = [str(HERE / "training_process.py"), base, str(folder), json.dumps(changes)]
    return processes([*arguments, str(kill_at)], count)[0]


def weights(folder, rank=0):
    return load_file(folder / f"weights-{rank}.safetensors")


def assert_equal(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def log(folder):
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "time"} for row in rows]


def test_two_processes_are_one_with_twice_the_batches(bert, tmp_path):
    sgd = {"optimizer": "sgd", "rate": 0.3}  # AdamW's first steps make rounding large
    codes = start(bert, tmp_path / "two", {"accumulate": 2, **sgd}, count=2)
    assert codes == [0, 0]
    first, last = weights(tmp_path / "two"), last_of_all(tmp_path / "two")
    alone = train(bert, tmp_path / "one", accumulate=4, **sgd)
    assert first.keys() == alone.keys()
    for name, value in alone.items():
        torch.testing.assert_close(first[name], value, atol=1e-6, rtol=1e-5)
    assert last["weigher.w"] != 0.5
    rows, expected = log(tmp_path / "two"), log(tmp_path / "one")
    assert [row["step"] for row in rows] == [1, 2, 2, 3, 4, 4, 5, 5]  # written once
    for row, other in zip(rows, expected, strict=True):
        assert row == pytest.approx(other, abs=1e-3)


def last_of_all(folder):
    """Give the weights of the last step, after seeing that both processes have the same."""
    saved = load_file(folder / "checkpoint.safetensors")
    last = {n.removeprefix("weight/"): p for n, p in saved.items() if n.startswith("weight/")}
    assert_equal(last, weights(folder, 1))  # only the first goes back to its best
    return last


def test_two_killed_processes_go_on(bert, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(bert, whole, {"accumulate": 2}, count=2) == [0, 0]
    codes = start(bert, killed, {"accumulate": 2}, count=2, kill_at=8)
    assert codes[0] == -signal.SIGKILL and codes[1] != 0
    assert not (killed / "weights-0.safetensors").exists()
    assert start(bert, killed, {"accumulate": 2}, count=2) == [0, 0]
    for rank in (0, 1):
        assert_equal(weights(killed, rank), weights(whole, rank))
    assert log(killed) == log(whole)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_run_killed_between_the_batches_of_a_step_goes_on(bert, optimizer, tmp_path):
    changes = {"accumulate": 3, "optimizer": optimizer}
    whole = train(bert, tmp_path / "whole", **changes)
    # three batches and one to judge w make a step: the tenth pass is the second of the third step
    assert start(bert, tmp_path / "killed", changes, kill_at=10) == [-signal.SIGKILL]
    assert (tmp_path / "killed" / "checkpoint.safetensors").exists()
    assert_equal(train(bert, tmp_path / "killed", **changes), whole)
    assert log(tmp_path / "killed") == log(tmp_path / "whole")
    moved = whole["weigher.w"].item()
    assert moved != 0.5 or optimizer == "sgd"


@pytest.mark.slow
def test_the_command_under_accelerate(bert, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", map(labelled_json, mixed_rows()))
    words = ["train", "bilabel", str(tmp_path / "rows.jsonl"), "--base", bert, "--device", "cpu"]
    options = "--steps 3 --questions 2 --validation 0.3 --no-bfloat16 --log-every 1"
    words += [*options.split(), "--optimizer", "sgd", "--learning-rate", "0.3"]
    launch = "--multi_gpu --num_processes 2 --num_machines 1 --main_process_port 0"
    done = subprocess.run(
        [sys.executable, "-m", "accelerate.commands.launch", *launch.split()]
        + ["-m", "fitrag_integrations.cli", *words, "--out", str(tmp_path / "two")],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has_answer AUC") == 1
    alone = CliRunner().invoke(
        app, [*words, "--out", str(tmp_path / "one"), "--gradient-accumulation-steps", "2"]
    )
    assert alone.exit_code == 0, alone.output
    one, two = (load_file(tmp_path / n / "run" / "checkpoint.safetensors") for n in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-6, rtol=1e-5)
    assert [row["step"] for row in log(tmp_path / "two" / "run")] == [1, 2, 3]


def launched(words, folder):
    """Run a verb in two processes; gives their stderr."""
    arguments = ["-m", "fitrag_integrations.cli", *words, "--out", str(folder)]
    codes, told = processes(arguments, 2, stderr=subprocess.PIPE)
    assert codes == [0, 0], told
    return told


def assert_alike(two, one):
    """Weights of the last step, and what was saved of them."""
    first, other = (load_file(f / "run" / "checkpoint.safetensors") for f in (two, one))
    assert first.keys() == other.keys()
    for name, value in other.items():
        torch.testing.assert_close(first[name], value, atol=2e-5, rtol=1e-4)
    assert {f.name for f in two.iterdir()} == {f.name for f in one.iterdir()}


# AdamW divides by how large gradients were: where they are 0, by rounding alone
STEADY = ["--learning-rate", "1e-5"]


def test_an_ik_classifier_of_two_processes_is_one_of_twice_the_batches(tmp_path):
    base = write_llama(tmp_path / "base")
    write_jsonl(tmp_path / "rows.jsonl", toy_rows(40))
    words = ["train", "ik", str(tmp_path / "rows.jsonl"), "--base", base, "--device", "cpu"]
    words += ["--model", "tiny", "--batch", "4", "--epochs", "1", "--rank", "4", *STEADY]
    told = launched(words, tmp_path / "two")
    assert "AUC" in told[0] and "AUC" not in told[1]
    alone = [*words, "--out", str(tmp_path / "one"), "--gradient-accumulation-steps", "2"]
    assert CliRunner().invoke(app, alone).exit_code == 0
    assert_alike(tmp_path / "two", tmp_path / "one")
    assert [row["step"] for row in log(tmp_path / "two" / "run") if "word" in row] == [5]


@pytest.mark.parametrize("loss", ["lists", "regression"])
def test_an_evaluator_of_two_processes_is_one_of_twice_the_batches(loss, tmp_path):
    folder = tmp_path / "base"
    base = write_t5_classifier(folder) if loss == "regression" else write_bert(folder)
    write_jsonl(tmp_path / "rows.jsonl", map(judged_json, judged_rows()))
    words = ["train", "evaluator", str(tmp_path / "rows.jsonl"), "--base", base, "--device", "cpu"]
    words += ["--loss", loss, "--tune", "full", "--batch", "2", "--questions", "1", *STEADY]
    words += ["--no-bfloat16", "--epochs", "2", "--log-every", "1"]
    launched(words, tmp_path / "two")
    alone = [*words, "--out", str(tmp_path / "one"), "--gradient-accumulation-steps", "2"]
    assert CliRunner().invoke(app, alone).exit_code == 0
    assert_alike(tmp_path / "two", tmp_path / "one")


def test_alone_nothing_changes():
    tensors = [torch.randn(3), torch.randn(2, 2)]
    before = [tensor.clone() for tensor in tensors]
    ALONE.share(tensors)
    ALONE.average(tensors)
    assert all(map(torch.equal, tensors, before))
    assert ALONE.mean({"a": 0.1}) == {"a": 0.1} and ALONE.first
    assert ALONE.gather(tensors[0], 3, ALONE.mine(3)) is tensors[0]


@given(st.integers(0, 50), st.integers(1, 9))
def test_shares_cover_everything_once(count, processes):
    shares = [Processes(rank, processes).mine(count) for rank in range(processes)]
    assert [i for share in shares for i in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_head_alone_is_not_fitted_in_several_processes(tmp_path):
    with pytest.raises(InputError, match="tune: given 'head' .* allowed lora or full"):
        _fit_on_frozen(None, None, tmp_path, replace(PLAN, tune="head", evaluate_every=0), TWO)


def test_accelerates_silent_single_process_is_noticed(monkeypatch):
    for name in SIZES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert lost_processes()
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert not lost_processes()
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.delenv("MASTER_PORT")
    assert not lost_processes()


def test_a_process_of_several_ends_without_tearing_down(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(parallel, "talked_by", "gloo")
    for words in (["--version"], ["score", "missing.jsonl", "out.jsonl"]):
        with pytest.raises(SystemExit):
            cli.main(words)
    monkeypatch.setattr(parallel, "talked_by", "")
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert ended == [0, 2]
