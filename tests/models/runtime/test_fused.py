"""BERT's layers in fused products and kept memory: the numbers of transformers, or its steps."""

import copy
import logging

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    ElectraConfig,
    ElectraForSequenceClassification,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.runtime import fused
from fitrag_integrations.models.runtime.fused import ArrayBert, Layers, slow_down, speed_up
from fitrag_integrations.models.runtime.placing import cast
from fitrag_integrations.models.scorer.families import OneOutput

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 60}
SIZES |= {"intermediate_size": 48, "num_labels": 1, "max_position_embeddings": 64}
RERANKERS = {
    "bert": (BertConfig, BertForSequenceClassification),
    "electra": (ElectraConfig, ElectraForSequenceClassification),
    "xlm-roberta": (XLMRobertaConfig, XLMRobertaForSequenceClassification),
}
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 0.03}


def batch(*lengths):
    ids = 5 + torch.arange(len(lengths) * max(lengths)).view(len(lengths), -1) % 40
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)).long()
    return ids * mask + (1 - mask), mask, ids % 2 * mask


def apart(found, expected):
    return float((found - expected).norm() / expected.norm())


@pytest.fixture
def module(request, bert):
    """Make a trunk, or a reranker of an architecture."""
    if request.param == "trunk":
        return load_base(bert)[0].eval()
    config, kind = RERANKERS[request.param]
    torch.manual_seed(3)
    made = kind(config(**SIZES, embedding_size=32)).eval()
    for parameter in made.parameters():  # outputs of more than noise
        parameter.data.mul_(4)
    return OneOutput(made, types=request.param == "bert").eval()


@torch.inference_mode()
@pytest.mark.parametrize("dtype", list(LIMITS))
@pytest.mark.parametrize("module", ["trunk", *RERANKERS], indirect=True)
def test_outputs_are_those_of_transformers(module, dtype):
    cast(module, dtype)
    batches = [batch(9, 4, 1), batch(5), batch(12, 12)]  # more, less, more: memory is written over
    expected = [module(*given) for given in batches]
    assert speed_up(module)
    for given, wanted in zip(batches, expected, strict=True):
        found = module(*given)
        assert found.dtype == wanted.dtype
        there = given[1].bool() if wanted.dim() == 3 else ...
        assert apart(found[there], wanted[there]) < LIMITS[dtype]
    names = dict(module.named_parameters())
    slow_down(module)
    assert (
        torch.equal(module(*batches[0]), expected[0]) and dict(module.named_parameters()) == names
    )


@torch.inference_mode()
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_masks_of_each_attention_are_read(bert, attention):
    trunk = load_base(bert, attention=attention)[0].eval()
    expected, given = trunk(*batch(9, 4)), batch(9, 4)
    assert speed_up(trunk)
    assert apart(trunk(*given)[given[1].bool()], expected[given[1].bool()]) < 1e-5


@torch.inference_mode()
@pytest.mark.parametrize("module", ["trunk"], indirect=True)
def test_bfloat16_is_as_near_to_float32_as_in_transformers(module):
    given = batch(30, 22)
    there, expected = given[1].bool(), module(*given)
    cast(module, torch.bfloat16)
    theirs = module(*given)
    assert speed_up(module)
    ours = module(*given)
    assert apart(ours[there], expected[there]) < 1.5 * apart(theirs[there], expected[there])


@torch.inference_mode()
@pytest.mark.parametrize(
    ("name", "value"), [("SCORES", 1), ("SCORES", 50), ("SAFE", 1.0), ("PACKED", 0)]
)
@pytest.mark.parametrize("module", ["trunk"], indirect=True)
def test_parts_ranges_and_unpacked_weights_change_nothing(module, monkeypatch, name, value):
    given = batch(12, 7, 1)
    expected = module(*given)
    monkeypatch.setattr(fused, name, value)
    assert speed_up(module)
    assert apart(module(*given)[given[1].bool()], expected[given[1].bool()]) < 1e-5


def test_scores_that_overflow_an_exponential_are_weighed_all_the_same(bert):
    layer = copy.deepcopy(load_base(bert)[0].encoder.encoder.layer[0])
    with torch.inference_mode():
        layer.attention.self.query.weight.mul_(1e4)
        states = torch.randn(1, 8, layer.output.dense.out_features)
        heads = layer.attention.self.num_attention_heads
        found, expected = Layers([layer.state_dict()], heads=heads)(states, None), layer(states)
    assert torch.isfinite(found).all()
    whole = expected if isinstance(expected, torch.Tensor) else expected[0]
    assert apart(found, whole) < 0.01


@torch.inference_mode()
def test_arrays_run_without_transformers(bert):
    trunk = load_base(bert)[0].eval()
    config = trunk.encoder.config
    ids, mask, types = batch(9, 4)
    arrays = {f"encoder.{n}": t.numpy() for n, t in trunk.encoder.state_dict().items()}
    for dtype, limit in (("float32", 1e-5), ("bfloat16", 0.03)):
        run = ArrayBert(arrays, heads=config.num_attention_heads, dtype=dtype)
        found = run(ids.numpy(), types.numpy(), np.array([9, 4]))
        assert found.dtype == np.float32
        expected = trunk(ids, mask, types)[mask.bool()]
        assert apart(torch.from_numpy(found)[mask.bool()], expected) < limit


def test_without_onednn_it_runs_in_torchs_own_steps_and_that_is_logged(bert, monkeypatch, caplog):
    def missing(*given, **named):
        raise RuntimeError("could not create a primitive descriptor")

    trunk = load_base(bert)[0].eval()
    expected = trunk(*batch(9, 4))
    monkeypatch.setattr(fused, "_joined", missing)
    assert not speed_up(trunk)
    assert torch.equal(trunk(*batch(9, 4)), expected)
    assert "without fused layers: could not create" in caplog.text


def test_outputs_that_differ_leave_it_as_it_is_and_that_is_logged(bert, caplog):
    trunk = load_base(bert)[0].eval()
    trunk.encoder.encoder.layer[0].output.register_forward_hook(lambda *given: given[-1] + 1)
    assert not speed_up(trunk)
    assert "without fused layers: outputs are" in caplog.text


def test_other_architectures_run_as_they_are(t5, caplog):
    sizes = {name: value for name, value in SIZES.items() if name != "num_labels"}
    relu = Trunk(BertModel(BertConfig(**sizes, hidden_act="relu")), pooling="first")
    with caplog.at_level(logging.WARNING):
        assert not speed_up(load_base(t5)[0]) and not speed_up(relu)
    assert not caplog.records
