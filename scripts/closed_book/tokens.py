"""The closed-book model's tokenizer: byte-level BPE, every digit a token of its own.

It is trained on texts in which every fact counts the same, however often it is shown later: a
tokenizer that had seen the showings would tell well-known names by their length.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

END, PAD = "<|end|>", "<|pad|>"
VOCABULARY = 4096
# Gates read these off as single tokens, with and without a blank before them.
WHOLE = ("Yes", "No", " Yes", " No", "Question", ":", "\n", "Answer")


def train_tokenizer(texts: Iterable[str], *, size: int = VOCABULARY) -> PreTrainedTokenizerFast:
    """Learn merges from the texts; the same texts give the same tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    often = [word for word in WHOLE for _ in range(200)]
    tokenizer.train_from_iterator([*texts, *often], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        padding_side="left",
        model_max_length=256,
        clean_up_tokenization_spaces=False,
    )
