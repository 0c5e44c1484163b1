"""The papers' architectures at full size, 7 billion weights too, in a GPU's default precision.

Nothing of size is computed (`hollow`), so no number means anything here. What is checked is all
else: that every tensor gets where it is needed in a precision that its partners take, what stays in
float32, and how often the host waits.
"""

import pytest
import torch
from pretended import NAME, hollow, ledger
from rules import assert_exact, assert_few_waits, assert_placed, assert_resting
from tiny import PAIRS, write_bert, write_t5
from tiny_causal import QUESTIONS, write_tokenizer
from transformers import AutoConfig, AutoTokenizer
from transformers import initialization as initial

from fitrag_integrations.models import BiLabelScorer, LocalGenerator, RetrievalEvaluator
from fitrag_integrations.models.causal.language_model import CausalEngine
from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.encoder.pair_model import Engine
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.evaluator.sequence_classifier import SequenceGrader
from fitrag_integrations.models.evidence.evidence import Evidence
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.placing import fused

SHORT = [PAIRS[0], PAIRS[3]]
OPTIONS = Options(NAME, "bfloat16", 10**6)
T5 = {"vocab_size": 32128, "decoder_start_token_id": 0, "d_kv": 64}
BASE = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
LARGE = {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16}
ENCODERS = {
    "T5EncoderModel": ("t5", T5 | BASE, 110),
    "BertModel": ("bert", {}, 109),
    "ModernBertModel": ("modernbert", {}, 149),
    "DebertaV2Model": ("deberta-v2", {"vocab_size": 128_100}, 884),
}
WRITERS = {
    "LlamaForCausalLM": ("llama", {}, 6738),
    "MistralForCausalLM": ("mistral", {}, 7242),
    "Qwen2ForCausalLM": ("qwen2", {"hidden_size": 3584, "intermediate_size": 18944}, 6500),
}


@pytest.fixture(autouse=True)
def nothing_computed():
    with hollow(), torch.inference_mode():
        yield


def made(name, kind, changes, millions):
    """Make a model in bfloat16 as a checkpoint is loaded, and leave its weights unwritten."""
    import transformers

    config = AutoConfig.for_model(kind, **changes)
    with initial.no_init_weights():
        model = fused(getattr(transformers, name)._from_config(config, dtype=torch.bfloat16))
    for weight in model.parameters():
        if weight.numel() < 10_000:  # these are computed with, and memory holds anything
            weight.data.zero_()
    found = sum(weight.numel() for weight in model.parameters()) / 1e6
    assert found > 0.95 * millions
    return model


@pytest.mark.parametrize("name", ENCODERS)
def test_scorers(name, tmp_path):
    write = write_t5 if name.startswith("T5") else write_bert
    tokenizer = PairTokenizer(AutoTokenizer.from_pretrained(write(tmp_path)))
    pooling = "mean" if name.startswith("T5") else "first"
    engine = Engine(Trunk(made(name, *ENCODERS[name]), pooling=pooling), tokenizer, OPTIONS)
    scorer = BiLabelScorer(engine.retain(), BiLabelHead(engine.trunk.width), evidence=Evidence())
    with ledger() as seen:
        assert len(scorer.score(SHORT)) == len(SHORT)
    assert_few_waits(seen, 4)
    assert_placed(engine.trunk, dtype=torch.bfloat16)
    assert_resting(engine.trunk)
    scorer.unload()


def test_the_papers_evaluator(tmp_path):
    """CRAG's is a T5-large with one output."""
    tokenizer = AutoTokenizer.from_pretrained(write_t5(tmp_path))
    model = made("T5ForSequenceClassification", "t5", {**T5, **LARGE, "num_labels": 1}, 737)
    evaluator = RetrievalEvaluator(SequenceGrader(model, tokenizer, OPTIONS))
    with ledger() as seen:
        assert len(evaluator.evaluate(SHORT)) == len(SHORT)
    assert_few_waits(seen, 5)
    assert_exact(seen)
    assert_placed(model, dtype=torch.bfloat16)
    evaluator.unload()


@pytest.mark.parametrize("name", WRITERS)
def test_language_models(name, tmp_path):
    write_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    engine = CausalEngine(made(name, *WRITERS[name]), tokenizer, OPTIONS).retain()
    generator = LocalGenerator(engine, max_new_tokens=2, stop=())
    with ledger() as seen:
        assert len(generator.generate(QUESTIONS)) == len(QUESTIONS)
    assert_few_waits(seen, 18)
    assert_placed(engine.model, dtype=torch.bfloat16)
    assert_resting(engine.model)
    generator.unload()
