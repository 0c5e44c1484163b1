"""The trunk: pooling by hand, padding, and what the tiny checkpoints give."""

import json

import pytest
import torch
from tiny import encoded, write_bert
from tiny_causal import write_llama
from transformers import BertConfig, BertModel

from fitrag_integrations import Passage
from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.encoder.encoders import load_base, load_encoder, save_encoder
from fitrag_integrations.models.encoder.pairs import Batch, PairTokenizer
from fitrag_integrations.models.encoder.trunk import collate

STATES = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [9.0, 9.0]], [[4.0, 0.0], [8.0, 8.0], [7.0, 7.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 0, 0]])


def test_pooling_by_hand(bert, t5):
    first, mean = load_base(bert)[0], load_base(t5)[0]
    assert (first.pooling, mean.pooling) == ("first", "mean")
    assert first.pool(STATES, MASK).tolist() == [[1, 2], [4, 0]]
    assert mean.pool(STATES, MASK).tolist() == [[2, 4], [4, 0]]
    assert mean.pool(STATES, torch.zeros_like(MASK)).tolist() == [[0, 0], [0, 0]]


def test_collate_pads_to_the_longest():
    ids, mask, types = collate(Batch.of([encoded([5], [6, 7]), encoded([], [])], pad_id=9))
    assert ids.tolist() == [[0, 5, 0, 6, 7, 0], [0, 0, 0, 9, 9, 9]]
    assert mask.tolist() == [[1] * 6, [1, 1, 1, 0, 0, 0]]
    assert types.shape == (2, 6) and ids.dtype == mask.dtype == types.dtype == torch.long


@torch.inference_mode()
def test_bert_is_given_segments_and_t5_none(bert, t5):
    ids, mask = torch.tensor([[2, 5, 3, 6, 3]]), torch.ones(1, 5, dtype=torch.long)
    none, second = torch.zeros_like(ids), torch.tensor([[0, 0, 0, 1, 1]])
    for folder, differs in ((bert, True), (t5, False)):
        trunk = load_base(folder)[0].eval()
        assert torch.equal(trunk(ids, mask, none), trunk(ids, mask, second)) != differs


@torch.inference_mode()
def test_states_are_float32_from_half_precision(bert):
    trunk = load_base(bert)[0].bfloat16()
    ids = torch.tensor([[2, 5, 3]])
    assert trunk(ids, torch.ones_like(ids), torch.zeros_like(ids)).dtype == torch.float32


def test_only_what_trains_is_saved(bert, tmp_path):
    trunk, _ = load_base(bert)
    trunk.requires_grad_(False)
    layer = trunk.encoder.get_parameter("encoder.layer.1.output.dense.bias")
    layer.requires_grad_(True)
    layer.data.fill_(0.5)
    save_encoder(trunk, tmp_path, base=bert, max_length=99)
    loaded, pairs = load_encoder(tmp_path)
    assert pairs.max_length == 99 and loaded.pooling == "first"
    assert (tmp_path / "tuned.safetensors").stat().st_size < 500
    for name, parameter in trunk.encoder.named_parameters():
        twin = loaded.encoder.get_parameter(name)
        assert torch.equal(parameter, twin) and parameter.requires_grad is twin.requires_grad


def test_weights_that_do_not_fit_the_base_are_named(bert, tmp_path):
    trunk, _ = load_base(bert)
    save_encoder(trunk.requires_grad_(True), tmp_path / "encoder", base=bert)
    write_bert(tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    BertModel(BertConfig(**{**config, "intermediate_size": 48})).save_pretrained(tmp_path / "other")
    manifest = json.loads((tmp_path / "encoder" / "encoder.json").read_text())
    manifest["base"] = str(tmp_path / "other")
    (tmp_path / "encoder" / "encoder.json").write_text(json.dumps(manifest))
    with pytest.raises(
        ModelLoadError, match=r"tuned.safetensors: 'encoder.* does not fit the base"
    ):
        load_encoder(tmp_path / "encoder")


def test_a_base_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelLoadError, match="config.json is missing; name a folder"):
        load_base(str(tmp_path))
    write_bert(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ModelLoadError, match="could not be loaded"):
        load_base(str(tmp_path))


def test_rounded_embeddings_stay_so_where_it_is_saved_again(bert, t5, tmp_path):
    plain = load_base(bert)[0]
    save_encoder(plain, tmp_path / "plain", base=bert)
    manifest = json.loads((tmp_path / "plain" / "encoder.json").read_text())
    (tmp_path / "plain" / "encoder.json").write_text(json.dumps({**manifest, "rounded": True}))
    trunk, _ = load_encoder(tmp_path / "plain")
    words, given = (each.encoder.embeddings.word_embeddings.weight for each in (trunk, plain))
    steps = words / (given.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127)
    torch.testing.assert_close(steps, steps.round(), atol=1e-3, rtol=0)
    assert 0 < (words - given).abs().max() < given.abs().max() / 250
    save_encoder(trunk, tmp_path / "again", base=bert)
    again, _ = load_encoder(tmp_path / "again")
    assert torch.equal(again.encoder.embeddings.word_embeddings.weight, words)
    other = {**manifest, "base": t5, "pooling": "mean", "rounded": True}
    (tmp_path / "plain" / "encoder.json").write_text(json.dumps(other))
    with pytest.raises(ModelLoadError, match="rounded"):
        load_encoder(tmp_path / "plain")


def test_a_decoder_is_pooled_at_its_last_token_and_sees_the_passage(tmp_path):
    folder = write_llama(tmp_path)
    trunk, tokenizer = load_base(folder)
    assert trunk.pooling == "last"
    pairs = PairTokenizer(tokenizer).encode_cut(
        [("what river?", Passage("1", "the Danube")), ("what river?", Passage("2", "a king"))]
    )
    with torch.inference_mode():
        ids, mask, types = collate(Batch.of(pairs))
        vectors = trunk.pool(trunk(ids, mask, types), mask)
        alone = [trunk(*collate(Batch.of([one])))[0, -1] for one in pairs]
    torch.testing.assert_close(vectors, torch.stack(alone), atol=1e-5, rtol=1e-5)
    assert (vectors[0] - vectors[1]).norm() > 0.1
    save_encoder(trunk, tmp_path / "saved", base=folder)
    assert load_encoder(tmp_path / "saved")[0].pooling == "last"
