"""Runs on `Trainer`: resumed, stopped, in two processes; batches are a function of the seed."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn
from training_process import train
from training_rows import judged_rows
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.core.progress import Terminated
from fitrag_integrations.errors import TrainingError
from fitrag_integrations.training.rows import judged_json, write_jsonl
from fitrag_integrations.training.trainer import ModuleTrainer, Settings, epochs, fit_module

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
HERE = Path(__file__).parent


class Line(nn.Module):
    """Fit y = 2x + 1, with a head whose weight is left out of some batches."""

    def __init__(self, *, dropout=0.0, sometimes=False):
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Linear(3, 3)
        self.a_head = nn.Linear(3, 1)
        self.head = nn.Linear(3, 1)
        self.dropout, self.sometimes = nn.Dropout(dropout), sometimes

    def forward(self, batch):
        states = self.dropout(self.trunk(batch))
        error = self.head(states) - 2 * batch[:, :1] - 1
        parts = {"line": (error**2).mean()}
        if not self.sometimes or batch[0, 0] > 0:
            parts["other"] = 0.1 * (self.a_head(states) ** 2).mean()
        return parts


class Stop(Exception):
    pass


def batch(number, *, stop=None):
    if number == stop:
        raise Stop
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(number))


def fit(folder, make=Line, given=batch, held_out=None, **changes):
    settings = Settings(**{"steps": 12, "rate": 0.05, "save_seconds": 0.0, **changes})
    trainer = ModuleTrainer(make(), given, settings, folder, held_out)
    fit_module(trainer)
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def log(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("how", "stops"), [({}, (1, 11)), ({"sometimes": True}, (5,)), ({"dropout": 0.5}, (5,))]
)
def test_a_resumed_run_is_the_run_itself(tmp_path, how, stops):
    make = partial(Line, **how)
    whole = fit(tmp_path / "whole", make)
    for at in stops:
        with pytest.raises(Stop):
            fit(tmp_path / "parts", make, partial(batch, stop=at))
    assert torch.equal(fit(tmp_path / "parts", make), whole)
    again = fit(tmp_path / "parts", make, partial(batch, stop=0))  # a finished run is not run again
    assert torch.equal(again, whole)


def test_a_checkpoint_that_was_cut_short_is_passed_over(tmp_path):
    whole = fit(tmp_path / "whole")
    with pytest.raises(Stop):
        fit(tmp_path / "parts", given=partial(batch, stop=9))
    cut = tmp_path / "parts" / "checkpoint-9"
    cut.mkdir()
    (cut / "model.safetensors").write_bytes(b"half")
    assert torch.equal(fit(tmp_path / "parts"), whole)


def test_a_run_asked_to_stop_saves_the_step_it_was_in(tmp_path):
    def asked(number):
        if number == 4 and not (tmp_path / "parts" / "checkpoint-4").exists():
            os.kill(os.getpid(), signal.SIGTERM)  # a batch is loaded during the step before
        return batch(number)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated, match="after step 4 of 12"):
        fit(tmp_path / "parts", given=asked, save_seconds=1e9)
    assert signal.getsignal(signal.SIGTERM) == before
    assert torch.equal(fit(tmp_path / "parts", given=asked), fit(tmp_path / "whole"))


def test_a_checkpoint_holds_what_trains_and_frozen_weights_stay(tmp_path):
    def frozen():
        module = Line()
        module.trunk.requires_grad_(False)
        return module

    fit(tmp_path, frozen)
    saved = load_file(tmp_path / "checkpoint-12" / "model.safetensors")
    assert saved.keys() == {"a_head.weight", "a_head.bias", "head.weight", "head.bias"}


def test_the_best_weights_stay_and_no_number_is_an_error(tmp_path):
    losses = [0.5, 0.25, 0.25, 0.75]
    best = fit(tmp_path, held_out=lambda: losses.pop(0), evaluate_every=3)
    stopped = fit(tmp_path / "six", steps=12, given=batch)
    told = [row["eval_loss"] for row in log(tmp_path) if "eval_loss" in row]
    assert told == [0.5, 0.25, 0.25, 0.75]
    kept = load_file(tmp_path / "checkpoint-6" / "model.safetensors")
    assert torch.equal(torch.cat([kept[n].flatten() for n, _ in Line().named_parameters()]), best)
    assert not torch.equal(best, stopped)
    with pytest.raises(TrainingError, match="diverged"):
        fit(tmp_path / "nan", held_out=lambda: math.nan, evaluate_every=3)


def test_the_loss_falls_and_the_log_has_its_parts(tmp_path):
    fit(tmp_path, steps=150, log_every=50)
    rows = log(tmp_path)
    assert [row["step"] for row in rows if "loss" in row] == [50, 100, 150]
    assert rows[2]["line"] < 0.1 * rows[0]["line"]
    assert rows[0]["loss"] == pytest.approx(rows[0]["line"] + rows[0]["other"], rel=1e-3)


sizes = st.lists(st.integers(1, 300), min_size=1, max_size=60)


@given(sizes, st.integers(1, 9), st.integers(0, 9), st.integers(1, 4))
def test_every_row_comes_once_an_epoch(lengths, size, seed, bucket):
    chosen = epochs(lengths, size, seed=seed, bucket=bucket)
    per_epoch = -(-len(lengths) // size)
    for epoch in (0, 1, 5):
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        again = epochs(lengths, size, seed=seed, bucket=bucket)
        assert [*map(again, reversed(steps))] == [*map(chosen, reversed(steps))]
        assert sorted(i for step in steps for i in chosen(step)) == list(range(len(lengths)))
        assert all(0 < len(chosen(step)) <= size for step in steps)


def test_rows_of_like_length_share_a_batch_and_seeds_differ():
    lengths = [10, 200] * 40
    chosen, other = epochs(lengths, 8, seed=3), epochs(lengths, 8, seed=4)
    assert all(len({lengths[i] for i in chosen(step)}) == 1 for step in range(10))
    assert [chosen(at) for at in range(10)] != [other(at) for at in range(10)]


def processes(arguments, count):
    """Start processes of a run, as `torchrun` does, and wait. Returns exit codes and stderr."""
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
            stderr=subprocess.PIPE,
        )
        for rank in range(count)
    ]
    said = [process.communicate(timeout=240)[1] for process in made]
    return [process.returncode for process in made], said


OPTIMIZERS = ("adamw", "sgd")


@pytest.fixture(scope="module")
def killed(bert, tmp_path_factory):
    """Kill a run with each optimizer, and give its folder."""
    folders = {each: tmp_path_factory.mktemp(each) for each in OPTIMIZERS}
    runs = {str(at): {"accumulate": 3, "optimizer": each} for each, at in folders.items()}
    # three batches and one to judge w make a step: the tenth pass is the second of the third step
    command = [sys.executable, str(HERE / "training_process.py"), bert, "10", json.dumps(runs)]
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}  # which sums are rounded by
    how = {"capture_output": True, "text": True, "timeout": 240}
    done = subprocess.run(command, env=os.environ | threads, **how)
    assert done.stdout.split().count(str(-signal.SIGKILL)) == 2, done.stderr
    return folders


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_killed_between_the_batches_of_a_step_goes_on(bert, killed, optimizer, tmp_path):
    changes = {"accumulate": 3, "optimizer": optimizer}
    whole = train(bert, tmp_path, **changes)
    resumed = train(bert, killed[optimizer], **changes)
    assert whole.keys() == resumed.keys()
    assert [name for name in whole if not torch.equal(whole[name], resumed[name])] == []
    assert whole["weigher.w"].item() != 0.5 or optimizer == "sgd"


def test_the_verb_in_two_processes_saves_and_reports_once(tmp_path, bert):
    write_jsonl(tmp_path / "rows.jsonl", map(judged_json, judged_rows()))
    # AdamW divides by how large gradients were: where they are 0, by rounding alone
    words = ["train", "evaluator", str(tmp_path / "rows.jsonl"), "--base", bert, "--device", "cpu"]
    words += ["--tune", "full", "--questions", "1", "--epochs", "2", "--learning-rate", "1e-5"]
    words += ["--no-bfloat16", "--validation", "0.3", "--out"]
    command = ["-m", "fitrag_integrations.cli", *words, str(tmp_path / "two")]
    codes, said = processes(command, 2)
    assert codes == [0, 0] and ["AUC" in text for text in said] == [True, False], said
    alone = [*words, str(tmp_path / "one"), "--gradient-accumulation-steps", "2"]
    assert CliRunner().invoke(app, alone).exit_code == 0
    one, two = (load_file(tmp_path / n / "head.safetensors") for n in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=5e-5, rtol=1e-2)
