"""Every kind of encoder, and ready-made rerankers, are fitted by the command and load again."""

import json

import pytest
import torch
from safetensors.torch import load_file
from tiny import write_bert, write_t5
from tiny_causal import write_llama
from training_rows import labelled_rows
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    DebertaV2Config,
    ModernBertConfig,
    T5Config,
    T5ForConditionalGeneration,
)
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.training.bilabel.fit import BilabelPlan, fit_bilabel
from fitrag_integrations.training.rows import labelled_json, write_jsonl
from fitrag_integrations.training.trainer import Running

# what peft asks of transformers
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
PASSAGES = [passage.text for row in labelled_rows() for passage in row.passages]
PAIRS = [(row.question, passage) for row in labelled_rows() for passage in row.passages]


def write_like(folder, make):
    """Write an encoder of another kind with the tokenizer of the tiny BERT."""
    size = len(AutoTokenizer.from_pretrained(write_bert(folder)))
    torch.manual_seed(0)
    AutoModel.from_config(make(vocab_size=size, num_attention_heads=4, **SIZES)).save_pretrained(
        folder
    )
    return str(folder)


def modernbert(**sizes):
    special = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2}
    return ModernBertConfig(eos_token_id=3, **special, **sizes)


def deberta(**sizes):
    relative = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}
    relative["share_att_key"] = True  # as published
    return DebertaV2Config(type_vocab_size=0, pad_token_id=0, **relative, **sizes)


def write_cross_encoder(folder):
    config = BertConfig.from_pretrained(write_bert(folder), num_labels=1)
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


def write_monot5(folder):
    config = T5Config.from_pretrained(write_t5(folder), decoder_start_token_id=0)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return str(folder)


KINDS = {
    "modernbert": (lambda folder: write_like(folder, modernbert), {"Wqkv", "Wo", "Wi"}),
    "deberta": (
        lambda folder: write_like(folder, deberta),
        {"query_proj", "key_proj", "value_proj", "dense"},
    ),
    "cross-encoder": (write_cross_encoder, {"query", "key", "value", "dense"}),
    "monot5": (write_monot5, {"q", "v"}),
    "llama": (
        lambda folder: write_llama(folder, pad=False),
        {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_lora_through_the_command(kind, tmp_path):
    write, layers = KINDS[kind]
    base, out = write(tmp_path / "base"), tmp_path / "model"
    write_jsonl(tmp_path / "rows.jsonl", map(labelled_json, labelled_rows()))
    words = ["train", "bilabel", str(tmp_path / "rows.jsonl"), "--out", str(out), "--base", base]
    options = "--steps 3 --questions 3 --validation 0.3 --learning-rate 0.01 --device cpu"
    words += [*options.split(), "--log-every", "1", "--batch-tokens", "200"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    adapters = load_file(out / "encoder" / "adapter_model.safetensors")
    assert {layer_of(name) for name in adapters} == layers
    assert not any("pooler" in name for name in adapters)
    assert all(float(tensor.abs().max()) > 0 for tensor in adapters.values())  # all have moved
    assert losses_of(out) and all(0 < loss < 20 for loss in losses_of(out))
    scorer = BiLabelScorer.from_pretrained(out, device="cpu")
    scores = scorer.score(PAIRS)
    assert all(0 <= x <= 1 for s in scores for x in (s.has_answer, s.llm_prefer))
    assert len({round(s.has_answer_logit, 6) for s in scores}) > 10
    given = AutoConfig.from_pretrained(base).model_type
    assert scorer._engine.trunk.encoder.config.model_type == given


def test_a_scorer_over_a_decoder_reads_the_passage(tmp_path):
    """Its last token alone attends to the passage; the first one is the question's."""
    base, out = write_llama(tmp_path / "base", pad=False), tmp_path / "model"
    plan = BilabelPlan(base=base, steps=2, evidence=False, validation="0.3", bfloat16=False)
    fit_bilabel(labelled_rows(), out, plan, running=Running(device="cpu"))
    assert json.loads((out / "encoder" / "encoder.json").read_text())["pooling"] == "last"
    scorer = BiLabelScorer.from_pretrained(out, device="cpu")
    question = PAIRS[0][0]
    scores = scorer.score([(question, passage) for _, passage in PAIRS])
    assert len({round(score.has_answer_logit, 6) for score in scores}) == len(set(PASSAGES))
    alone = [scorer.score([(question, passage)])[0] for _, passage in PAIRS]
    assert [one.has_answer_logit for one in alone] == pytest.approx(
        [one.has_answer_logit for one in scores], abs=1e-5
    )


def layer_of(name):
    return name.partition(".lora_")[0].rpartition(".")[2]


def losses_of(out):
    rows = [json.loads(line) for line in (out / "run" / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3]
    return [row["point"] for row in rows]
