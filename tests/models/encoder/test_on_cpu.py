"""Which precision an encoder takes by itself on a CPU, and the BERT that runs in kept memory."""

import pytest
import torch
from tiny import PAIRS, make_scorer, write_modernbert
from transformers import BertConfig, BertModel

from fitrag_integrations.errors import InputError
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.models.encoder import on_cpu
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.on_cpu import (
    VARIABLE,
    HalfLayer,
    Kept,
    half_will_do,
    in_place,
    near,
)
from fitrag_integrations.models.encoder.trunk import Trunk, mask_of, states_of
from fitrag_integrations.models.runtime.engine import Options

OPEN = Options(device="cpu")
packs = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="this processor cannot pack bfloat16 weights: the layers run in torch's own steps",
)


@pytest.fixture
def rates(monkeypatch):
    """Have a processor of these rates, and nothing said of a precision."""
    monkeypatch.setenv(VARIABLE, "auto")
    found = {torch.float32: 100.0, torch.bfloat16: 400.0}
    monkeypatch.setattr(on_cpu, "rate", found.get)
    return found


def test_bfloat16_is_the_default_where_it_is_faster_and_near(bert, rates):
    trunk, _ = load_base(bert)
    before = [p.clone() for p in trunk.parameters()]
    assert near(trunk) and half_will_do(trunk, OPEN)
    assert all(map(torch.equal, before, trunk.parameters()))
    rates[torch.bfloat16] = 140.0
    assert not half_will_do(trunk, OPEN)


def test_states_that_go_astray_keep_float32(bert, rates, monkeypatch):
    monkeypatch.setattr(on_cpu, "NEAR", 1e-6)
    assert not half_will_do(load_base(bert)[0], OPEN)


@pytest.mark.parametrize("options", [Options("cpu", "float32"), Options("meta")])
def test_what_is_named_is_not_asked_about(bert, rates, options):
    assert not half_will_do(load_base(bert)[0], options)


@pytest.mark.parametrize(("said", "expected"), [("float32", False), ("bfloat16", True)])
def test_the_environment_has_the_last_word(bert, rates, monkeypatch, said, expected):
    rates[torch.bfloat16] = 10.0
    monkeypatch.setenv(VARIABLE, said)
    assert half_will_do(load_base(bert)[0], OPEN) is expected


def test_a_scorer_says_which_it_took(bert, rates, tmp_path):
    make_scorer(bert).save_pretrained(tmp_path)
    for dtype, expected in ((None, torch.bfloat16), ("auto", torch.bfloat16), ("float32", None)):
        made = BiLabelScorer.from_pretrained(tmp_path, device="cpu", dtype=dtype)
        assert made._engine.dtype == (expected or torch.float32)
        assert len(made.score(PAIRS)) == len(PAIRS)
        made.unload()
    with pytest.raises(InputError, match="dtype: given 'half'"):
        BiLabelScorer.from_pretrained(tmp_path, device="cpu", dtype="half")


@torch.inference_mode()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_in_place_is_what_transformers_makes_of_it(bert, dtype):
    trunk = load_base(bert)[0].to(dtype).eval()
    run = in_place(trunk)
    for lengths in ([9, 4, 1], [5], [12, 12]):  # more, less, more: what is kept is written over
        ids = torch.arange(len(lengths) * max(lengths)).view(len(lengths), -1) % 40
        given = ids, (ids % 2), torch.tensor(lengths)
        inside = mask_of(given[2], ids.shape[1]) > 0
        expected, found = states_of(trunk)(*given), run(*given)
        assert found.dtype == torch.float32
        apart = (found - expected)[inside].norm() / expected[inside].norm()
        assert apart < (1e-6 if dtype == torch.float32 else 0.02)


@packs
@torch.inference_mode()
def test_layers_in_bfloat16_are_as_near_to_float32_as_those_of_transformers(bert):
    exact, trunk = (
        load_base(bert)[0].to(dtype).eval() for dtype in (torch.float32, torch.bfloat16)
    )
    lengths = torch.tensor([30, 22])
    ids = torch.arange(60).view(2, -1) % 40
    inside, run = mask_of(lengths, 30) > 0, in_place(trunk)
    assert isinstance(run._layers[0], HalfLayer)
    expected, theirs, ours = (
        states(ids, ids % 2, lengths)[inside]
        for states in (states_of(exact), states_of(trunk), run)
    )
    assert (ours - expected).norm() < 1.5 * (theirs - expected).norm()


@torch.inference_mode()
@pytest.mark.parametrize(("scores", "safe"), [(1, 1e30), (50, 1e30), (2**22, 1.0)])
def test_attention_in_parts_and_beyond_the_safe_range_is_the_same(bert, monkeypatch, scores, safe):
    trunk = load_base(bert)[0].to(torch.bfloat16).eval()
    given = torch.arange(36).view(3, -1), torch.zeros(3, 12, dtype=torch.long)
    lengths = torch.tensor([12, 7, 1])
    expected = in_place(trunk)(*given, lengths)
    monkeypatch.setattr(on_cpu, "SCORES", scores)
    monkeypatch.setattr(on_cpu, "SAFE", safe)
    found, inside = in_place(trunk)(*given, lengths), mask_of(lengths, 12) > 0
    assert (found - expected)[inside].norm() < 0.02 * expected[inside].norm()


@packs
def test_scores_that_overflow_an_exponential_are_weighed_all_the_same(bert):
    layer = load_base(bert)[0].to(torch.bfloat16).encoder.encoder.layer[0]
    heads = layer.attention.self.num_attention_heads
    width = layer.attention.self.query.in_features
    with torch.inference_mode():
        layer.attention.self.query.weight.mul_(1e4)
        states = torch.randn(8, width, generator=torch.Generator().manual_seed(3)).bfloat16()
        found = HalfLayer(layer, heads, Kept(torch.bfloat16))(states, 1, None)
        expected = layer(states[None])
    assert torch.isfinite(found).all()
    assert (found - (expected if isinstance(expected, torch.Tensor) else expected[0])[0]).norm() < 1


def test_without_onednn_bfloat16_runs_in_torchs_own_steps_and_it_is_logged(
    bert, monkeypatch, caplog
):
    def missing(*given):
        raise RuntimeError("could not create a primitive descriptor")

    monkeypatch.setattr(on_cpu, "_packed", missing)
    run = in_place(load_base(bert)[0].to(torch.bfloat16).eval())
    assert run is not None and not isinstance(run._layers[0], HalfLayer)
    assert "without packed bfloat16 layers: could not create" in caplog.text


def test_what_is_no_plain_bert_runs_as_it_is(t5, tmp_path):
    assert in_place(load_base(t5)[0]) is None
    assert in_place(load_base(write_modernbert(tmp_path))[0]) is None
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(**sizes, intermediate_size=16, vocab_size=40, hidden_act="relu")
    assert in_place(Trunk(BertModel(config), pooling="first")) is None


def test_a_bert_whose_numbers_differ_runs_as_it_is_and_it_is_logged(bert, caplog):
    trunk = load_base(bert)[0].eval()
    trunk.encoder.encoder.layer[0].output.register_forward_hook(lambda *given: given[-1] + 1)
    assert in_place(trunk) is None
    assert "without layers in kept memory: states are" in caplog.text
