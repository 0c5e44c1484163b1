"""The derivative of one step along w: by autograd through the step, by differences, and in use."""

import json
import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F
from training_rows import labelled_rows
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.errors import InputError
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.training.bilabel.fit import BilabelPlan, fit_bilabel
from fitrag_integrations.training.bilabel.module import WeighingTrainer, losses
from fitrag_integrations.training.losses.imbalance import (
    Imbalance,
    Weigher,
    clip_change,
    draw_pairs,
    group_losses,
    hypergradient,
    label_groups,
    step_change,
)
from fitrag_integrations.training.rows import labelled_json, write_jsonl
from fitrag_integrations.training.trainer import Running, Settings, fit_module

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
NAN, RATE = math.nan, 0.3
LABELS = torch.tensor([[1.0, 1], [0, 0], [1, 0], [0, 1], [0, NAN], [NAN, 1], [0, 0]])
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=RATE),
    "momentum": lambda p: torch.optim.SGD(p, lr=RATE, momentum=0.9, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=RATE, weight_decay=0.1, eps=1e-3),
}


def problem(seed, pairs=40):
    """Make a small random network, and labelled pairs to train and to hold out, in float64."""
    torch.manual_seed(seed)
    width, hidden = 3 + seed % 3, 2 + seed % 4
    net = torch.nn.Sequential(
        torch.nn.Linear(width, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 2)
    ).double()
    sides = []
    for _ in range(2):
        x = torch.randn(pairs, width, dtype=torch.float64)
        sides.append((x, torch.randint(0, 2, (pairs, 2)).double()))
    return net, *sides


def call(net, parameters, x):
    names = [name for name, _ in net.named_parameters()]
    return torch.func.functional_call(net, dict(zip(names, parameters, strict=True)), (x,))


def validation(net, parameters, held):
    """Give (L_v^mat + L_v^mis) / 2, each the mean of its group (equations 6, 7 and 11)."""
    x, labels = held
    each = F.binary_cross_entropy_with_logits(call(net, parameters, x), labels, reduction="none")
    return sum(each.sum(1)[mask].mean() for mask in label_groups(labels)) / 2


def stepped(net, parameters, train, w):
    """Take a real SGD step on equation 5, kept differentiable in w."""
    x, labels = train
    parts = group_losses(call(net, parameters, x), labels)
    loss = w * parts["matched"] + (1 - w) * parts["mismatched"]
    gradients = torch.autograd.grad(loss, parameters, create_graph=True)
    return [p - RATE * g for p, g in zip(parameters, gradients, strict=True)]


def by_formula(net, train, held, w, literal=False):
    parameters = list(net.parameters())
    parts = group_losses(call(net, parameters, train[0]), train[1])
    keep = {"retain_graph": True}
    mat, mis = (
        torch.autograd.grad(parts[k], parameters, **keep) for k in ("matched", "mismatched")
    )
    moved = [p.detach().requires_grad_() for p in stepped(net, parameters, train, w)]
    found = torch.autograd.grad(validation(net, moved, held), moved)
    change = [-RATE * (a - b) for a, b in zip(mat, mis, strict=True)]
    return hypergradient(found, change, literal=literal)


def slope(function, at, step=1e-4):
    """Differentiate by central differences with two steps (Richardson)."""
    wide, narrow = ((function(at + h) - function(at - h)) / (2 * h) for h in (2 * step, step))
    return (4 * narrow - wide) / 3


@pytest.mark.parametrize("seed", range(6))
def test_the_hypergradient_is_that_of_a_real_sgd_step(seed):
    net, train, held = problem(seed)
    parameters, w = list(net.parameters()), 0.1 + 0.14 * seed
    free = torch.tensor(w, dtype=torch.float64, requires_grad=True)
    loss = validation(net, stepped(net, parameters, train, free), held)
    (exact,) = torch.autograd.grad(loss, free)

    def at(value):
        return validation(net, stepped(net, parameters, train, value), held).item()

    formula = by_formula(net, train, held, w)
    assert formula == pytest.approx(float(exact), rel=1e-10)
    assert formula == pytest.approx(slope(at, w), rel=1e-6)
    assert by_formula(net, train, held, w, literal=True) == -formula != 0


@pytest.mark.parametrize("limit", [1e9, 0.05])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_change_of_an_optimizers_own_step_is_exact(name, steps, limit):
    net, (x, labels), held = problem(3)
    start = [p.detach().clone() for p in net.parameters()]
    direction = [torch.randn_like(p) for p in start]

    def run(w):
        for p, value in zip(net.parameters(), start, strict=True):
            p.data.copy_(value)
        optimizer = OPTIMIZERS[name](net.parameters())
        for at in range(steps):
            used = w if at == steps - 1 else 0.4  # earlier steps are as they were
            parts = group_losses(net(x), labels)
            slopes = torch.autograd.grad(
                parts["matched"] - parts["mismatched"], list(net.parameters()), retain_graph=True
            )
            optimizer.zero_grad()
            (used * parts["matched"] + (1 - used) * parts["mismatched"]).backward()
            norm = float(torch.nn.utils.clip_grad_norm_(net.parameters(), limit))
            optimizer.step()
        tuned = list(net.parameters())
        change = clip_change(tuned, slopes, norm=norm, limit=limit)
        change = step_change(optimizer, tuned, change)
        ends = sum((p * d).sum().item() for p, d in zip(tuned, direction, strict=True))
        return ends, sum((c * d).sum().item() for c, d in zip(change, direction, strict=True))

    assert run(0.6)[1] == pytest.approx(slope(lambda w: run(w)[0], 0.6), rel=1e-6)


def weighed_step(plan, name="sgd", seed=5):
    net, (x, labels), held = problem(seed)
    drawn = draw_pairs(held[1], 9, seed)
    weigher, tuned = Weigher(plan, labels).double(), list(net.parameters())
    weigher.w.data.fill_(plan.weight)
    optimizer = OPTIMIZERS[name](tuned)
    parts = weigher.weigh(group_losses(net(x), labels), tuned)
    torch.stack(list(parts.values())).sum().backward()
    optimizer.step()

    def loss():
        return F.binary_cross_entropy_with_logits(net(held[0][drawn]), held[1][drawn])

    weigher.move(optimizer, loss)
    return weigher.w.item(), float(loss().detach())


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_a_weigher_moves_w_against_the_slope(name):
    def validation_at(w):
        return weighed_step(Imbalance("fixed", w), name)[1]

    plan = Imbalance("corrected", 0.5, alpha=0.1)
    moved = weighed_step(plan, name)[0] - 0.5
    assert moved == pytest.approx(-0.1 * slope(validation_at, 0.5), rel=1e-5)
    assert weighed_step(replace(plan, mode="literal"), name)[0] - 0.5 == pytest.approx(-moved)


def conflict(mode):
    """Train where matched pairs mislead: what is held out follows the mismatched ones."""
    torch.manual_seed(0)
    x = torch.randn(200, 4)
    mismatched = torch.arange(200) < 30
    first = (x[:, 0] > 0).float()
    wrong = torch.stack([1 - first, 1 - first], 1)
    labels = torch.where(mismatched[:, None], torch.stack([first, 1 - first], 1), wrong)
    truth = torch.stack([first, torch.where(mismatched, 1 - first, first)], 1)
    net = torch.nn.Linear(4, 2)
    weigher = Weigher(Imbalance(mode, 0.5, alpha=2.0), labels)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    parameters = list(net.parameters())

    def loss():
        return F.binary_cross_entropy_with_logits(net(x), truth)

    for _ in range(60):
        optimizer.zero_grad()
        parts = weigher.weigh(group_losses(net(x), labels), parameters)
        torch.stack(list(parts.values())).sum().backward()
        optimizer.step()
        weigher.move(optimizer, loss)
    return weigher.w.item(), float(loss().detach())


def test_the_corrected_sign_lowers_the_held_out_loss_and_the_literal_one_raises_it():
    (w, down), (w_fixed, level), (w_literal, up) = map(conflict, ("corrected", "fixed", "literal"))
    assert w < w_fixed == 0.5 < w_literal
    assert down < level - 0.02 and up > level + 0.02


def test_groups_and_weights_by_hand():
    matched, mismatched = label_groups(LABELS)
    assert matched.tolist() == [True, True, False, False, False, False, True]
    assert mismatched.tolist() == [False, False, True, True, False, False, False]
    assert pair_weights(LABELS, 0.8).tolist() == pytest.approx([0.8, 0.8, 0.2, 0.2, 0.5, 0.5, 0.8])


def pair_weights(labels, w):
    """Give f(w) of each pair (equation 3), and 1/2 where a label is not known."""
    matched, mismatched = label_groups(labels)
    return 0.5 + (w - 0.5) * matched.float() + (0.5 - w) * mismatched.float()


def test_group_losses_are_the_plain_loss_split_and_weighted_as_equation_2():
    logits = torch.randn(7, 2, dtype=torch.float64)
    labels, w = LABELS.double(), 0.8
    known = ~labels.isnan()
    each = F.binary_cross_entropy_with_logits(logits, labels.nan_to_num(), reduction="none") * known
    parts = group_losses(logits, labels)
    plain = losses(logits, labels, [7])
    assert sum(parts.values()).item() == pytest.approx(plain["point"].item())
    weighted = (pair_weights(labels, w).double() * each.sum(1)).sum() / known.sum()
    weigher = Weigher(Imbalance("fixed", w), labels)
    found = weigher.weigh(parts, [])
    assert float(sum(found.values())) == pytest.approx(2 * float(weighted.detach()), rel=1e-6)


def test_without_mismatched_pairs_their_loss_is_nothing_and_w_stays_where_none_are_held_out():
    labels = torch.tensor([[1.0, 1], [0, 0]])
    parts = group_losses(torch.randn(2, 2), labels)
    assert float(parts["mismatched"]) == 0 and float(parts["unpaired"]) == 0
    assert draw_pairs(labels, 5, 0).tolist() == []
    net = torch.nn.Linear(2, 2)
    weigher = Weigher(Imbalance("corrected"), labels)
    weigher.weigh(group_losses(net(torch.randn(2, 2)), labels), list(net.parameters()))
    weigher.move(torch.optim.SGD(net.parameters()), None)
    assert weigher.w.item() == 0.5


def test_held_out_batches_have_as_many_of_both_groups():
    labels = torch.tensor([[1.0, 1]] * 30 + [[1.0, 0]] * 4 + [[0.0, NAN]] * 9)
    drawn = draw_pairs(labels, 8, seed=1)
    assert sorted(drawn.tolist())[4:] == [30, 31, 32, 33] and len(drawn) == 8
    assert drawn.tolist() == draw_pairs(labels, 8, seed=1).tolist()
    assert drawn.tolist() != draw_pairs(labels, 8, seed=2).tolist()


@pytest.mark.parametrize(
    ("plan", "start"),
    [
        (Imbalance("fixed"), 2 / 5),
        (Imbalance("corrected", 0.01), 0.05),
        (Imbalance("literal", 1.0, clip=0.1), 0.9),
    ],
)
def test_where_w_starts(plan, start):
    assert Weigher(plan, LABELS).w.item() == pytest.approx(start)


def test_w_stays_within_its_bounds():
    plan = Imbalance("corrected", 0.5, alpha=1e9, clip=0.2)
    assert weighed_step(plan)[0] in (pytest.approx(0.2), pytest.approx(0.8))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "some"),
        ("weight", 1.1),
        ("clip", 0.5),
        ("alpha", NAN),
        ("pairs", 0),
    ],
)
def test_plans_that_make_no_sense_are_refused(field, value):
    with pytest.raises(InputError, match="must be"):
        Imbalance(**{field: value})


def test_other_optimizers_are_refused():
    p = torch.nn.Parameter(torch.zeros(1))
    for optimizer in (
        torch.optim.RMSprop([p]),
        torch.optim.SGD([p], momentum=0.9, dampening=0.1),
        torch.optim.SGD([p], momentum=0.9, nesterov=True),
        torch.optim.AdamW([p], amsgrad=True),
    ):
        with pytest.raises(InputError, match="must be"):
            step_change(optimizer, [p], [torch.ones(1)])


def mixed_rows():
    """Give the toy rows, with a mismatched pair in each."""
    return [replace(row, llm_prefer=(row.llm_prefer[0], 1, 0)) for row in labelled_rows()]


PLAN = BilabelPlan("", "lora", 12, 3, 1e-2, 0, False, 0.3, 13, False)


@pytest.mark.parametrize(("tune", "mode"), [("full", "corrected"), ("lora", "fixed")])
def test_training_with_weights_logs_w_and_gives_a_scorer(bert, tune, mode, tmp_path):
    plan = replace(PLAN, base=bert, tune=tune, imbalance=Imbalance(mode, alpha=50.0, pairs=2))
    fit_bilabel(mixed_rows(), tmp_path, plan, running=Running(log_every=1))
    scorer = BiLabelScorer.from_pretrained(tmp_path, device="cpu")
    assert scorer.manifest["trained"]["imbalance"]["mode"] == mode
    last = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert {"matched", "mismatched", "unpaired", "rank", "w"} <= last.keys()
    assert (last["w"] == pytest.approx(1 / 3, abs=1e-5)) is (mode == "fixed")


def weighed(folder, stop=None):
    """Fit a linear model on random pairs, that fails at a step."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(64, 4, generator=generator)
    labels = (x[:, :2] + 0.5 * torch.randn(64, 2, generator=generator) > 0).float()
    weigher = Weigher(Imbalance("corrected", alpha=20.0), labels)

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.weigher = torch.nn.Linear(4, 2), weigher

        def forward(self, rows):
            return group_losses(self.layer(x[rows]), labels[rows])

    def batch(step):
        if step == stop:
            raise KeyboardInterrupt
        return torch.randperm(64, generator=torch.Generator().manual_seed(step))[:16]

    settings = Settings(30, 0.05, bfloat16=False, save_seconds=0, log_every=1)
    trainer = WeighingTrainer(
        Module(), batch, settings, folder, held=partial(draw_pairs, labels, 8)
    )
    fit_module(trainer)
    return trainer


def test_fixed_at_one_half_is_plain_training(bert, tmp_path):
    plan = replace(PLAN, base=bert, tune="head", steps=8)
    heads = []
    for name, imbalance in (("plain", Imbalance()), ("half", Imbalance("fixed", 0.5))):
        fit_bilabel(mixed_rows(), tmp_path / name, replace(plan, imbalance=imbalance))
        scorer = BiLabelScorer.from_pretrained(tmp_path / name, device="cpu")
        heads.append(scorer._head.out.weight)
    torch.testing.assert_close(*heads, rtol=1e-4, atol=1e-5)


def test_a_stopped_run_goes_on_with_its_w(tmp_path):
    whole = weighed(tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        weighed(tmp_path / "b", stop=17)
    resumed = weighed(tmp_path / "b")
    assert resumed.weigher.w.item() == whole.weigher.w.item() != 0.5
    assert torch.equal(resumed.model.layer.weight, whole.model.layer.weight)
    first = json.loads((tmp_path / "a" / "log.jsonl").read_text().splitlines()[0])
    assert first["w"] == 0.5


def test_the_weighting_is_an_option_of_train_bilabel(bert, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", map(labelled_json, mixed_rows()))
    paths = ["train", "bilabel", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "model")]
    options = ["--base", bert, "--tune", "head", "--validation", "0.3", "--pairs", "2"]
    options += ["--imbalance", "corrected", "--weight", "0.4", "--steps", "3"]
    done = CliRunner().invoke(app, [*paths, *options])
    assert done.exit_code == 0, done.output
    trained = json.loads((tmp_path / "model" / "model.json").read_text())["trained"]
    assert trained["imbalance"]["weight"] == 0.4
