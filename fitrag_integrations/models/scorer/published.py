"""Published rerankers as scorers, just as they are: `has_answer` from one output.

Two kinds. monoT5 (Nogueira et al., 2020) is a whole T5 that is asked for one word: the probability
of "true" against "false", of these two vocabulary tokens alone, at the first step of its decoder. A
cross-encoder is an encoder with one output. Neither knows which language model reads the passages,
so `llm_prefer` is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models.encoder.engine import Engine
from fitrag_integrations.models.encoder.pairs import (
    Pair,
    PairTokenizer,
    Tokens,
    places_of,
    rows_of,
    title_of,
    whole,
)
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.loading import (
    Checkpoint,
    check_vocabulary,
    position_limit,
)
from fitrag_integrations.models.runtime.placing import float32_head
from fitrag_integrations.models.runtime.sources import weights_source

Scale = Literal["tokens", "logit", "probability"]
MAX_LENGTH = 512
T5_LIKE = ("t5", "mt5", "umt5")


def load_published(
    name_or_dir: str, options: Options, *, scale: Scale | None = None
) -> tuple[Engine, Scale]:
    """Load a reranker by name or folder; only safetensors are read, and no remote code is run.

    Gives its engine, whose trunk puts out one number per pair, and what that number is.
    """
    if scale is not None and scale not in get_args(Scale):
        allowed = ", ".join(map(repr, get_args(Scale)))
        raise InputError.of("scale", given=scale, allowed=f"{allowed} or None")
    checkpoint = Checkpoint(weights_source(name_or_dir), f"reranker {name_or_dir!r}")
    config, tokenizer = checkpoint.config(), checkpoint.tokenizer()
    if scale is None:
        scale = "tokens" if _writes(config) else "logit"
    load = _true_or_false if scale == "tokens" else _one_output
    trunk, pairs = load(checkpoint, config, tokenizer)
    check_vocabulary(trunk.encoder, tokenizer, checkpoint.what)
    return Engine(trunk, pairs, options).retain(), scale


class TrueOrFalse(nn.Module):
    """A whole T5, of which two logits at the first step of the decoder are wanted.

    Its output layer gives way to the two rows that make them.
    """

    def __init__(self, encoder: Any, *, yes: int, no: int) -> None:
        super().__init__()
        self.encoder = encoder
        encoder.lm_head = _Rows(encoder.lm_head.weight[[yes, no]])
        self.start: int = encoder.config.decoder_start_token_id

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the logit of "true" less that of "false". Shape: (batch,)."""
        first = torch.full((len(ids), 1), self.start, device=ids.device)
        given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": first}
        logits: Tensor = self.encoder(**given, use_cache=False).logits[:, 0]
        return logits[:, 0] - logits[:, 1]


class _Rows(nn.Module):
    """Some rows of an output layer, in float32 whatever the states are computed in."""

    rows: Tensor

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.register_buffer("rows", rows.detach().float().clone(), persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        return states.float() @ self.rows.T


class OneOutput(nn.Module):
    """An encoder with a classifier of one output."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        float32_head(encoder)
        self.encoder = encoder
        self.uses_types = getattr(encoder.config, "type_vocab_size", 0) > 1

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the output of each pair. Shape: (batch,)."""
        extra = {"token_type_ids": types} if self.uses_types else {}
        outputs: Tensor = self.encoder(input_ids=ids, attention_mask=mask, **extra).logits
        return outputs.squeeze(-1)


class QueryDocument(PairTokenizer):
    """Write pairs as monoT5 reads them: `Query: ... Document: title. text Relevant:`."""

    def _encode(self, pairs: Sequence[Pair]) -> list[Tokens]:
        return [
            self._written(self._question(q), title_of(p.title), whole(p.text)) for q, p in pairs
        ]

    def _written(self, question: str, title: str, text: str) -> Tokens:
        before = f"Query: {question} Document: {title}"
        encoded = self._fast.encode(f"{before}{text} Relevant:")
        found = rows_of(encoded.ids, 0, 1, places_of(encoded.offsets, len(before), text))
        found[2, found[3] >= 0] = 2
        return found


def _writes(config: Any) -> bool:
    """Check whether a checkpoint is a T5 that writes, and no classifier."""
    named = " ".join(config.architectures or [])
    return config.model_type in T5_LIKE and "Classification" not in named


def _true_or_false(checkpoint: Checkpoint, config: Any, tokenizer: Any) -> tuple[Any, Any]:
    if not _writes(config):
        allowed = f"'logit' or 'probability' for a {config.model_type} that does not write"
        raise InputError.of("scale", given="tokens", allowed=allowed)
    yes, no = (_token(checkpoint, tokenizer, word, config.vocab_size) for word in ("true", "false"))
    if yes == no:
        raise ModelLoadError(f"{checkpoint.what}: true and false are one token, {yes}")
    model = checkpoint.model("AutoModelForSeq2SeqLM")
    length = min(MAX_LENGTH, tokenizer.model_max_length)
    trunk = TrueOrFalse(model, yes=yes, no=no)
    return trunk, QueryDocument(tokenizer, max_length=length)


def _token(checkpoint: Checkpoint, tokenizer: Any, word: str, size: int) -> int:
    """Find the one token a word is at the start of an answer."""
    ids: list[int] = tokenizer(word, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id or ids[0] >= size:
        wording = f"given {word!r} as the tokens {ids}, allowed one token of its vocabulary"
        raise ModelLoadError(f"{checkpoint.what}: {wording}")
    return ids[0]


def _one_output(checkpoint: Checkpoint, config: Any, tokenizer: Any) -> tuple[Any, Any]:
    if config.is_encoder_decoder or config.num_labels != 1:
        given = f"a {config.model_type} checkpoint of {config.num_labels} outputs"
        raise ModelLoadError(f"{checkpoint.what}: given {given}, allowed an encoder with one")
    model = checkpoint.model("AutoModelForSequenceClassification")
    limit = position_limit(config) or MAX_LENGTH
    length = min(MAX_LENGTH, tokenizer.model_max_length, limit)
    return OneOutput(model), PairTokenizer(tokenizer, max_length=length)
