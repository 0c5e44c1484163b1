"""The loop: what it resumes is what it would have been; batches are a function of the seed."""

import json
import os
import signal
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn

from fitrag_integrations.core.progress import Terminated
from fitrag_integrations.training.loop.loop import Loop, LoopSettings, epochs


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
        states = self.dropout(self.trunk(batch.to(self.trunk.weight.dtype)).float())
        error = self.head(states) - 2 * batch[:, :1] - 1
        parts = {"line": (error**2).mean()}
        if not self.sometimes or batch[0, 0] > 0:
            parts["other"] = 0.1 * (self.a_head(states) ** 2).mean()
        return parts


def batch(step):
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(step))


def settings(**changes):
    return LoopSettings(**{"steps": 12, "rate": 0.05, "bfloat16": False, **changes})


class Stop(Exception):
    pass


def stopping(at):
    def one(step):
        if step == at:
            raise Stop
        return batch(step)

    return one


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def run_through(make, folder, **changes):
    module = make()
    Loop(module, batch, settings(**changes), folder).run()
    return weights(module)


def run_interrupted(make, folder, *stops, **changes):
    for at in stops:
        with pytest.raises(Stop):
            Loop(make(), stopping(at), settings(save_seconds=0.0, **changes), folder).run()
    module = make()
    Loop(module, batch, settings(save_seconds=0.0, **changes), folder).run()
    return weights(module)


@pytest.mark.parametrize("stops", [(5,), (1, 4, 11)])
def test_a_resumed_run_is_the_run_itself(tmp_path, stops):
    whole = run_through(Line, tmp_path / "whole")
    assert torch.equal(run_interrupted(Line, tmp_path / "parts", *stops), whole)
    assert not torch.equal(whole, weights(Line()))


def test_a_run_asked_to_stop_saves_the_step_it_was_in(tmp_path):
    def asked(step):
        if step == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return batch(step)

    whole = run_through(Line, tmp_path / "whole")
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated, match="after step 5 of 12"):
        Loop(Line(), asked, settings(save_seconds=1e9), tmp_path / "parts").run()
    assert signal.getsignal(signal.SIGTERM) == before
    seen, module = [], Line()
    Loop(
        module, lambda step: seen.append(step) or batch(step), settings(), tmp_path / "parts"
    ).run()
    assert seen == list(range(5, 12)) and torch.equal(weights(module), whole)


@pytest.mark.parametrize("how", [{"sometimes": True}, {"dropout": 0.5}])
def test_a_resumed_run_knows_steps_that_a_weight_sat_out_and_its_dropout(tmp_path, how):
    make = partial(Line, **how)
    whole = run_through(make, tmp_path / "whole")
    assert torch.equal(run_interrupted(make, tmp_path / "parts", 6), whole)


def test_a_finished_run_is_not_run_again(tmp_path):
    whole = run_through(Line, tmp_path)
    module = Line()
    Loop(module, stopping(0), settings(), tmp_path).run()
    assert torch.equal(weights(module), whole)


def test_a_checkpoint_holds_the_weights_and_no_half_file_stays(tmp_path):
    module = Line()
    Loop(module, batch, settings(), tmp_path).run()
    saved = load_file(tmp_path / "checkpoint.safetensors")
    for name, parameter in module.named_parameters():
        assert torch.equal(saved[f"weight/{name}"], parameter)
    assert not (tmp_path / "checkpoint.partial").exists()


@pytest.mark.parametrize("bfloat16", [False, True])
def test_the_loss_falls(tmp_path, bfloat16):
    module = Line()
    before = module(batch(99))["line"].item()
    Loop(module, batch, settings(steps=150, bfloat16=bfloat16), tmp_path).run()
    assert module(batch(99))["line"].item() < 0.05 * before
    assert {p.dtype for p in module.parameters()} == {torch.float32}


def test_bfloat16_rounds_the_trunk_alone(tmp_path):
    seen = []

    class Spy(Line):
        def forward(self, batch):
            seen.append((self.trunk.weight.dtype, self.head.weight.dtype))
            return super().forward(batch)

    Loop(Spy(), batch, settings(steps=1, bfloat16=True), tmp_path).run()
    assert seen == [(torch.bfloat16, torch.float32)]


def test_frozen_weights_stay(tmp_path):
    module = Line()
    module.trunk.requires_grad_(False)
    before = module.trunk.weight.clone()
    Loop(module, batch, settings(), tmp_path).run()
    assert torch.equal(module.trunk.weight, before)


def test_the_rate_rises_then_falls_to_nothing(tmp_path):
    loop = Loop(Line(), batch, settings(steps=100, warmup=0.1), tmp_path)
    found = [loop._schedule(step) for step in (0, 4, 9, 10, 55, 99)]
    assert found == pytest.approx([0.1, 0.5, 1.0, 1.0, 0.5, 1 / 90])


def test_the_log_holds_mean_losses_and_evaluations(tmp_path):
    module = Line()
    changes = settings(steps=4, log_every=2, evaluate_every=4)
    Loop(module, batch, changes, tmp_path, evaluate=lambda: {"figure": 0.5}).run()
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [2, 4, 4]
    assert {"line", "other"} < rows[0].keys() and rows[2]["figure"] == 0.5


sizes = st.lists(st.integers(1, 300), min_size=1, max_size=60)


@given(sizes, st.integers(1, 9), st.integers(0, 9), st.integers(1, 4))
def test_every_row_comes_once_an_epoch(lengths, size, seed, bucket):
    chosen = epochs(lengths, size, seed=seed, bucket=bucket)
    per_epoch = -(-len(lengths) // size)
    for epoch in (0, 1, 5):
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        assert sorted(i for step in steps for i in chosen(step)) == list(range(len(lengths)))
        assert all(0 < len(chosen(step)) <= size for step in steps)


@given(sizes, st.integers(0, 9))
def test_batches_depend_on_seed_and_step_alone(lengths, seed):
    one, other = (epochs(lengths, 4, seed=seed) for _ in range(2))
    forwards = [one(step) for step in range(40)]
    assert [other(step) for step in reversed(range(40))] == forwards[::-1]


def test_epochs_and_seeds_differ():
    lengths = [1] * 64
    plans = [
        [epochs(lengths, 4, seed=seed)(16 * epoch + step) for step in range(16)]
        for seed, epoch in ((1, 0), (1, 1), (2, 0))
    ]
    assert plans[0] != plans[1] != plans[2] != plans[0]


def test_rows_of_like_length_share_a_batch():
    lengths = [10, 200] * 40
    chosen = epochs(lengths, 8, seed=3)
    assert all(len({lengths[i] for i in chosen(step)}) == 1 for step in range(10))
