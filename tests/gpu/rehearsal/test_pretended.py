"""What the device refuses and counts, and the mistakes that the rules must catch."""

import pytest
import torch
from pretended import DEVICE, NAME, ledger
from rules import (
    assert_alike_uploads,
    assert_exact,
    assert_few_waits,
    assert_whole_sums,
    narrow_logits,
)
from tiny import PAIRS, make_evaluator, make_reader, write_bert, write_t5, write_t5_classifier
from tiny_causal import DRAFTS, QUESTIONS, write_ik, write_rotary

from fitrag_integrations.models import ExtractiveReader, IKClassifier, RetrievalEvaluator
from fitrag_integrations.models.encoder import trunk as pair_trunk

ON = {"device": NAME, "dtype": "bfloat16", "batch_tokens": 10**6}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    make_reader(write_bert(folder / "base")).save_pretrained(folder / "reader")
    made = ExtractiveReader.from_pretrained(folder / "reader", **ON)
    yield made
    made.unload()


WAITS = {
    "item": lambda x: x.sum().item(),
    "truth": lambda x: bool(x.all()),
    "numpy": lambda x: x.cpu().numpy(),
    "chosen rows": lambda x: x[x > 1],
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


def test_a_tensor_left_on_the_cpu_is_caught(reader, monkeypatch):
    monkeypatch.setattr(reader._engine, "device", torch.device("cpu"))  # where batches are put
    with pytest.raises(RuntimeError, match="xpected all tensors .*on"):
        reader.read(PAIRS)


def test_a_value_read_in_a_loop_is_caught(reader, monkeypatch):
    with ledger() as seen:
        reader.read(PAIRS)
    limit = len(seen.reads)
    spans = reader._spans

    def one_by_one(states, mask, chunks):
        assert all(float(row.norm()) > 0 for row in states)
        return spans(states, mask, chunks)

    monkeypatch.setattr(reader, "_spans", one_by_one)
    with ledger() as seen:
        reader.read(PAIRS)
    with pytest.raises(AssertionError, match="(?s)the host waited .*_local_scalar_dense at"):
        assert_few_waits(seen, limit)


def test_a_copy_for_each_row_is_caught(reader, monkeypatch):
    def uploads(times):
        with ledger() as seen:
            reader.read([(f"{question} {n}", p) for n in range(times) for question, p in PAIRS])
        return seen

    sent = pair_trunk.sent
    one_by_one = lambda rows, device: torch.stack([sent(row, device) for row in rows])  # noqa: E731
    monkeypatch.setattr(pair_trunk, "sent", one_by_one)
    with pytest.raises(AssertionError, match="copied again for each row"):
        assert_alike_uploads(uploads(1), uploads(3))


def test_logits_of_all_positions_are_caught(tmp_path):
    base = write_rotary(tmp_path / "base", "qwen2")
    ik = IKClassifier.from_pretrained(write_ik(tmp_path / "ik", base), **ON)
    ik._engine._takes.discard("logits_to_keep")
    with (
        pytest.raises(AssertionError, match=r"logits of \d\d positions, read are 1"),
        narrow_logits(ik._engine.model, 1),
    ):
        ik.p_known(QUESTIONS, DRAFTS)
    ik.unload()


def test_a_head_and_a_pooling_in_half_precision_are_caught(tmp_path, monkeypatch):
    published = RetrievalEvaluator.from_pretrained(write_t5_classifier(tmp_path / "t5"), **ON)
    head = published._grader._model.classification_head
    head._forward_pre_hooks.clear()  # which bring it its input in float32
    head.bfloat16()
    with ledger() as seen:
        published.evaluate(PAIRS[:1])
    with pytest.raises(AssertionError, match="read in half precision"):
        assert_exact(seen)
    make_evaluator(write_t5(tmp_path / "base")).save_pretrained(tmp_path / "ours")
    ours = RetrievalEvaluator.from_pretrained(tmp_path / "ours", **ON)
    trunk = ours._grader._engine.trunk
    pool = trunk.pool
    half = lambda states, mask: pool(states.bfloat16(), mask).float()  # noqa: E731
    monkeypatch.setattr(trunk, "pool", half)
    with ledger() as seen:
        ours.evaluate(PAIRS)
    with pytest.raises(AssertionError, match=r"summed in half precision: .*trunk\.py"):
        assert_whole_sums(seen)
    published.unload()
    ours.unload()
