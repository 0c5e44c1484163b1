"""One answer whatever the attention, the padding and the load; every model has dropout above 0."""

import copy

import pytest
import torch
import transformers
from tiny import PAIRS, make_scorer, write_bert, write_modernbert, write_t5
from tiny_causal import write_gpt2, write_rotary

from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.models.causal.loading import shared_causal
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.placing import attending, fused

ENCODERS = {"bert": write_bert, "modernbert": write_modernbert, "t5": write_t5}
WRITERS = ("llama", "mistral", "qwen2", "gpt2")
ATTENTIONS = ("eager", "sdpa")
ON_CPU = Options(device="cpu", dtype="float32")
ROWS = [[5, 9, 30, 7, 21, 12], [8, 4], [17]]


@pytest.fixture(scope="module", params=WRITERS)
def writer(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return write_gpt2(folder) if request.param == "gpt2" else write_rotary(folder, request.param)


@pytest.fixture(scope="module", params=ENCODERS)
def encoder(request, tmp_path_factory):
    return ENCODERS[request.param](tmp_path_factory.mktemp(request.param))


def padded(rows):
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return ids, mask, torch.zeros_like(ids)


@torch.inference_mode()
def test_encoders_agree_under_every_attention(encoder):
    found = []
    for attention in ATTENTIONS:
        trunk = load_base(encoder, attention=attention)[0].eval()
        ids, mask, types = padded(ROWS)
        found.append(trunk(ids, mask, types)[mask.bool()])
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-4)


def test_the_last_forward_pass_gives_attention_back():
    """Also where another thread began its own in between."""
    enabled, device = torch.backends.cuda.cudnn_sdp_enabled, torch.device("cuda")
    before, one, other = enabled(), attending(device), attending(device)
    with attending(torch.device("cpu")):
        assert enabled() == before
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert before and not enabled()
    other.__exit__(None, None, None)
    assert enabled()


@pytest.mark.parametrize("kind", ["T5EncoderModel", "MT5EncoderModel", "UMT5EncoderModel"])
def test_a_fused_t5_is_transformers_own(kind):
    """Its bias is one that fused kernels take, also of a copy, and its gradients are the same."""
    torch.manual_seed(2)
    made = getattr(transformers, kind)
    sizes = {"d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8}
    plain = made(made.config_class(vocab_size=50, **sizes)).eval()
    changed = copy.deepcopy(fused(copy.deepcopy(plain)))
    ids, mask, _ = padded(ROWS)
    found = [
        model(input_ids=ids, attention_mask=mask)[0][mask.bool()] for model in (plain, changed)
    ]
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)
    for states in found:
        states.square().sum().backward()
    gradients = [[p.grad for p in model.parameters()] for model in (plain, changed)]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
    attentions = [part for part in changed.modules() if hasattr(part, "compute_bias")]
    assert attentions[0].compute_bias(6, 6).is_contiguous()


@torch.inference_mode()
def test_encoders_heed_no_padding(encoder):
    trunk = load_base(encoder)[0].eval()
    ids, mask, types = padded(ROWS)
    together = trunk(ids, mask, types)
    for at, row in enumerate(ROWS):
        alone = trunk(*padded([row]))[0]
        torch.testing.assert_close(together[at, : len(row)], alone, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_padding_on_the_left_on_the_right_and_none_give_equal_numbers(writer):
    engine = shared_causal(writer, ON_CPU)
    left = engine.inferred(ROWS).logits[:, -1]
    ids, mask, _ = padded(ROWS)
    right = engine.model(input_ids=ids, attention_mask=mask).logits
    for at, row in enumerate(ROWS):
        alone = engine.inferred([row]).logits[0, -1]
        torch.testing.assert_close(left[at], alone, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(right[at, len(row) - 1], alone, atol=1e-4, rtol=1e-4)
    engine.release()


@torch.inference_mode()
def test_two_loads_of_a_language_model_are_one(writer):
    found = []
    for _ in range(2):
        engine = shared_causal(writer, ON_CPU)
        found.append(engine.inferred(ROWS).logits)
        engine.release()
    assert torch.equal(*found)


def test_two_loads_of_a_scorer_are_one(encoder, tmp_path):
    make_scorer(encoder, evidence=True).save_pretrained(tmp_path)
    found = []
    for _ in range(2):
        scorer = BiLabelScorer.from_pretrained(tmp_path, device="cpu")
        found.append(scorer.score(PAIRS))
        scorer.unload()
    assert found[0] == found[1]
