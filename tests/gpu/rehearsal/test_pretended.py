"""The device itself: what it refuses, what it counts, and ten mistakes that it must catch."""

import pytest
import torch
from pretended import DEVICE, NAME, ledger
from rules import (
    assert_alike_uploads,
    assert_exact,
    assert_few_waits,
    assert_fused,
    assert_placed,
    assert_resting,
    assert_whole_sums,
    narrow_logits,
)
from tiny import (
    PAIRS,
    make_evaluator,
    make_reader,
    write_bert,
    write_modernbert,
    write_t5,
    write_t5_classifier,
)
from tiny_causal import DRAFTS, QUESTIONS, write_ik, write_rotary
from torch import nn

from fitrag_integrations.models import (
    ExtractiveReader,
    IKClassifier,
    LocalGenerator,
    RetrievalEvaluator,
)
from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.encoder import trunk as pair_trunk
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.runtime.placing import place

ON = {"device": NAME, "dtype": "bfloat16", "batch_tokens": 10**6}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    make_reader(write_bert(folder / "base")).save_pretrained(folder / "reader")
    made = ExtractiveReader.from_pretrained(folder / "reader", **ON)
    yield made
    made.unload()


def test_it_computes_what_the_cpu_does():
    torch.manual_seed(0)
    line, rows = nn.Linear(8, 3), torch.randn(5, 8)
    expected = line(rows)
    expected.square().mean().backward()
    gradient = line.weight.grad
    line.weight.grad = line.bias.grad = None
    moved = line.to(DEVICE)
    found = moved(rows.to(DEVICE))
    found.square().mean().backward()
    assert found.device == torch.device(DEVICE) and moved.weight.grad.device == found.device
    assert torch.allclose(found.cpu(), expected) and torch.allclose(
        line.weight.grad.cpu(), gradient
    )
    assert torch.arange(2, 9, 3, device=DEVICE).tolist() == [2, 5, 8]
    assert (torch.tensor([5, 7], device=DEVICE) % 4).tolist() == [1, 3]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_have_their_shapes(reduction):
    given, wanted = torch.arange(4.0), torch.ones(4)
    for loss in (nn.functional.mse_loss, nn.functional.smooth_l1_loss, nn.functional.l1_loss):
        found = loss(given.to(DEVICE), wanted.to(DEVICE), reduction=reduction)
        torch.testing.assert_close(found.cpu(), loss(given, wanted, reduction=reduction))


def test_views_share_memory_and_what_is_written_through_them_shows():
    whole = torch.zeros(3, 4, device=DEVICE)
    whole[1:, ::2] += 5
    assert whole.sum().item() == 20
    with torch.inference_mode():
        assert whole.t()[0].tolist() == [0, 5, 5]


def test_autocast_does_what_cuda_does():
    line = nn.Linear(4, 4).to(DEVICE)
    with torch.autocast(NAME, torch.bfloat16):
        states = line(torch.ones(2, 4, device=DEVICE))
        assert states.dtype == (states @ states.t()).dtype == torch.bfloat16
        assert states.softmax(-1).dtype == nn.LayerNorm(4).to(DEVICE)(states).dtype == torch.float32
    states.float().sum().backward()
    assert line.weight.grad.dtype == torch.float32


def test_moving_keeps_tied_weights_tied():
    model = nn.ModuleDict({"one": nn.Linear(2, 2), "other": nn.Linear(2, 2)})
    model["other"].weight = model["one"].weight
    model.to(DEVICE)
    assert model["one"].weight is model["other"].weight
    assert model["one"].weight.device.type == NAME


@pytest.mark.parametrize(
    "mixed", [torch.add, torch.matmul, lambda one, other: torch.cat([one, other])]
)
def test_tensors_of_two_devices_do_not_mix(mixed):
    with pytest.raises(RuntimeError, match="xpected all tensors .*on"):
        mixed(torch.ones(3, 3, device=DEVICE), torch.ones(3, 3))


WAITS = {
    "item": lambda x: x.sum().item(),
    "truth": lambda x: bool(x.all()),
    "cpu": lambda x: x.cpu(),
    "list": lambda x: x.tolist(),
    "numpy": lambda x: x.cpu().numpy(),
    "chosen rows": lambda x: x[x > 1],
    "nonzero": lambda x: x.nonzero(),
    "equal": lambda x: torch.equal(x, x),
    "unique": lambda x: x.unique(),
}


@pytest.mark.parametrize("kind", WAITS)
def test_each_wait_is_counted_once(kind):
    rows = torch.arange(4.0, device=DEVICE)
    with ledger() as seen:
        WAITS[kind](rows)
    assert len(seen.reads) == 1
    assert "test_pretended.py" in seen.told()


def test_what_stays_on_the_device_waits_for_nothing():
    with ledger() as seen:
        rows = torch.ones(3, 3, device=DEVICE)
        torch.where(rows > 0, rows, 0).softmax(-1).argmax(-1)
        held = torch.ones(3, 3).to(DEVICE)
        held.add_(rows)
    assert not seen.reads and len(seen.uploads) == 1 and seen.kernels["add"] == 1


# Ten mistakes of real code, each caught by the rule that every model and trainer is held to.


def test_a_tensor_left_on_the_cpu_is_caught(reader, monkeypatch):
    monkeypatch.setattr(reader._engine, "device", torch.device("cpu"))  # where batches are put
    with pytest.raises(RuntimeError, match="xpected all tensors .*on"):
        reader.read(PAIRS)


def test_a_value_read_in_a_loop_is_caught(reader, monkeypatch):
    with ledger() as seen:
        reader.read(PAIRS)
    limit = len(seen.reads)
    assert_few_waits(seen, limit)
    spans = reader._spans

    def one_by_one(states, mask, chunks):
        assert all(float(row.norm()) > 0 for row in states)
        return spans(states, mask, chunks)

    monkeypatch.setattr(reader, "_spans", one_by_one)
    with ledger() as seen:
        reader.read(PAIRS)
    with pytest.raises(AssertionError, match="(?s)the host waited .*_local_scalar_dense at"):
        assert_few_waits(seen, limit)


@pytest.mark.parametrize("kind", ["llama", "modernbert"])
def test_rounded_frequencies_are_caught(kind, tmp_path):
    if kind == "llama":
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(write_rotary(tmp_path, kind))
    else:
        model = load_base(write_modernbert(tmp_path))[0]
    assert_placed(place(model, DEVICE, torch.bfloat16), dtype=torch.bfloat16)
    with pytest.raises(AssertionError, match="inv_freq was rounded to torch.bfloat16"):
        assert_placed(model.to(torch.bfloat16))


def test_a_part_left_training_is_caught(tmp_path):
    base = write_rotary(tmp_path / "base", "qwen2")
    ik = IKClassifier.from_pretrained(write_ik(tmp_path / "ik", base), **ON)
    model = ik._engine.model
    assert_resting(model)
    # peft makes the parts of an adapter training, whatever the model they join does
    config = causal_adapters.lora_config(model, rank=2, alpha=2, dropout=0.1)
    causal_adapters.attach(model, config, {}, "another")
    assert_resting(model)
    next(part for name, part in model.named_modules() if "lora_dropout" in name).train()
    with pytest.raises(AssertionError, match="left training: .*lora_dropout"):
        assert_resting(model)
    ik.unload()


def test_grades_from_a_head_in_half_precision_are_caught(tmp_path):
    evaluator = RetrievalEvaluator.from_pretrained(write_t5_classifier(tmp_path), **ON)
    with ledger() as seen:
        evaluator.evaluate(PAIRS[:1])
    assert_exact(seen)
    head = evaluator._grader._model.classification_head
    head._forward_pre_hooks.clear()  # which bring it its input in float32
    head.bfloat16()
    with ledger() as seen:
        evaluator.evaluate(PAIRS[:1])
    with pytest.raises(AssertionError, match="read in half precision"):
        assert_exact(seen)
    evaluator.unload()


def test_logits_of_all_positions_are_caught(tmp_path):
    base = write_rotary(tmp_path / "base", "qwen2")
    ik = IKClassifier.from_pretrained(write_ik(tmp_path / "ik", base), **ON)
    engine = ik._engine
    with narrow_logits(engine.model, 1):
        ik.p_known(QUESTIONS, DRAFTS)
    engine._takes.discard("logits_to_keep")
    with (
        pytest.raises(AssertionError, match=r"logits of \d\d positions, read are 1"),
        narrow_logits(engine.model, 1),
    ):
        ik.p_known(QUESTIONS, DRAFTS)
    ik.unload()


def test_a_copy_for_each_row_is_caught(reader, monkeypatch):
    def uploads(times):
        with ledger() as seen:
            reader.read([(f"{question} {n}", p) for n in range(times) for question, p in PAIRS])
        return seen

    assert_alike_uploads(uploads(1), uploads(3))
    sent = pair_trunk.sent
    one_by_one = lambda rows, device: torch.stack([sent(row, device) for row in rows])  # noqa: E731
    monkeypatch.setattr(pair_trunk, "sent", one_by_one)
    with pytest.raises(AssertionError, match="copied again for each row"):
        assert_alike_uploads(uploads(1), uploads(3))


def test_pooling_in_half_precision_is_caught(tmp_path, monkeypatch):
    folder = tmp_path / "evaluator"
    make_evaluator(write_t5(tmp_path / "base")).save_pretrained(folder)
    evaluator = RetrievalEvaluator.from_pretrained(folder, **ON)
    with ledger() as seen:
        evaluator.evaluate(PAIRS)
    assert_whole_sums(seen)
    trunk = evaluator._grader._engine.trunk
    pool = trunk.pool
    half = lambda states, mask: pool(states.bfloat16(), mask).float()  # noqa: E731
    monkeypatch.setattr(trunk, "pool", half)
    with ledger() as seen:
        evaluator.evaluate(PAIRS)
    with pytest.raises(AssertionError, match=r"summed in half precision: .*trunk\.py"):
        assert_whole_sums(seen)
    evaluator.unload()


def test_what_only_a_gpu_runs_is_run(reader, monkeypatch, tmp_path):
    def crashes(*_, **__):
        raise ZeroDivisionError("on a GPU alone")

    generator = LocalGenerator.from_pretrained(write_rotary(tmp_path, "llama"), **ON)
    generator.generate(QUESTIONS)
    monkeypatch.setattr(torch.cuda, "mem_get_info", crashes)
    with pytest.raises(ZeroDivisionError, match="on a GPU alone"):
        generator.generate(QUESTIONS)
    monkeypatch.setattr(torch.Tensor, "pin_memory", crashes)
    with pytest.raises(ZeroDivisionError, match="on a GPU alone"):
        reader.read(PAIRS)
    generator.unload()


def test_attention_in_several_kernels_is_caught(tmp_path):
    base = write_rotary(tmp_path, "mistral")
    eager = {"attn_implementation": "eager"}
    usual, slow = (
        LocalGenerator.from_pretrained(base, **ON, model_kwargs=given) for given in ({}, eager)
    )
    assert_fused(usual._engine.model)
    with pytest.raises(AssertionError, match="the model attends by eager"):
        assert_fused(slow._engine.model)
    usual.unload()
    slow.unload()
