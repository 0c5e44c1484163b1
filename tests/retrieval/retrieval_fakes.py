"""An encoder without weights, and checkpoints of a few thousand random ones."""

import zlib

import numpy as np

from fitrag_integrations import Passage

WORDS = ["the", "a", "river", "city", "king", "wrote", "score", "film", "rome", "ocean", "1954"]


class WordEncoder:
    """Count words in buckets: equal words, equal places. Keeps what it was asked."""

    def __init__(self, name="words", width=64, salt=""):
        self.name = name
        self.width = width
        self.salt = salt
        self.calls = []

    def encode(self, texts):
        self.calls.append(list(texts))
        vectors = np.zeros((len(texts), self.width), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[
                    row, zlib.crc32((self.salt + word).encode(errors="replace")) % self.width
                ] += 1
        return vectors


def passages(*texts):
    return [Passage(f"p{i}", text) for i, text in enumerate(texts)]


def write_tokenizer(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, sep_token="[SEP]", model_max_length=32, **special
    ).save_pretrained(folder)
    return len(vocabulary)


def write_bert(folder, *, seed=0):
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    config = BertConfig(
        vocab_size=write_tokenizer(folder),
        num_attention_heads=4,
        max_position_embeddings=32,
        initializer_range=0.5,
        **sizes,
    )
    BertModel(config).save_pretrained(folder)
    return str(folder)


def write_t5(folder):
    import torch
    from transformers import T5Config, T5EncoderModel

    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    T5EncoderModel(T5Config(vocab_size=write_tokenizer(folder), **sizes)).save_pretrained(folder)
    return str(folder)
