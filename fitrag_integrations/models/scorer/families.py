"""Families of published rerankers: how each is loaded, tokenized and scored.

Sequence classifiers with one output are MiniLM, BGE, ModernBERT and most cross-encoders. monoT5
(Nogueira et al., 2020) answers "true" or "false". Causal ones are in `causal_families`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.encoder.pairs import (
    Pair,
    PairTokenizer,
    Tokens,
    placed_rows,
    title_of,
    whole,
)
from fitrag_integrations.models.encoder.trunk import (
    has_types,
    is_decoder,
    square,
    takes_square,
)
from fitrag_integrations.models.runtime.loading import (
    T5_LIKE,
    Checkpoint,
    checked_length,
    position_limit,
)
from fitrag_integrations.models.runtime.placing import GPUS, float32_head

Scale = Literal["tokens", "logit", "probability"]
USUAL_LENGTH = 512  # of checkpoints that name no limit
LONGEST_LENGTH = 8192  # unless `max_length` says otherwise
SHORTEST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Folder:
    """A checkpoint to load, and how the caller wants it read.

    Args:
        checkpoint: Folder or hub name.
        config: Its configuration.
        tokenizer: Its tokenizer.
        max_length: Maximum number of tokens of an input. Defaults to what the checkpoint allows.
        instruction: Task description for families whose prompt has one. Defaults to the published
            one.
    """

    checkpoint: Checkpoint
    config: Any
    tokenizer: Any
    max_length: int | None = None
    instruction: str | None = None

    @property
    def architecture(self) -> str:
        """Class of transformers that the configuration names first."""
        return str((self.config.architectures or [""])[0])

    def length(self) -> int:
        """Return the maximum number of tokens of an input.

        Raises:
            InputError: If the caller's is larger than the number of positions.
        """
        if self.max_length is not None:
            return checked_length(self.max_length, self.config, low=SHORTEST_LENGTH)
        limits = (position_limit(self.config), self.tokenizer.model_max_length)
        named = [n for n in limits if n and n < 1e9]
        return min(*named, LONGEST_LENGTH) if named else USUAL_LENGTH

    def token(self, word: str) -> int:
        """Return the one token that a word is at the start of an answer.

        Raises:
            ModelLoadError: If the tokenizer writes the word as several tokens.
        """
        ids: list[int] = self.tokenizer(word, add_special_tokens=False)["input_ids"]
        if (
            len(ids) != 1
            or ids[0] == self.tokenizer.unk_token_id
            or ids[0] >= self.config.vocab_size
        ):
            wording = f"given {word!r} as the tokens {ids}, allowed one token of its vocabulary"
            raise ModelLoadError(f"{self.checkpoint.what}: {wording}")
        return ids[0]


Loaded: TypeAlias = tuple[Any, PairTokenizer]  # a module over `encoder`, and its tokenizer


@dataclass(frozen=True, slots=True)
class Family:
    """Rerankers that are loaded, tokenized and scored alike.

    Args:
        name: What `family=` calls it.
        scales: What its outputs may be; the first is the default.
        fits: Checks whether a checkpoint is one of the family.
        load: Loads the network, which returns one number per pair, and its tokenizer.
        takes_instruction: Whether its prompt has a place for an instruction.
    """

    name: str
    scales: tuple[Scale, ...]
    fits: Callable[[Folder], bool]
    load: Callable[[Folder], Loaded]
    takes_instruction: bool = False


class OutputRows(nn.Module):
    """Some rows of an output layer, in float32 whatever the states are computed in."""

    rows: Tensor
    bias: Tensor | None

    def __init__(self, layer: Any, ids: list[int]) -> None:
        super().__init__()
        self.register_buffer("rows", layer.weight[ids].detach().float().clone(), persistent=False)
        bias = getattr(layer, "bias", None)
        kept = None if bias is None else bias[ids].detach().float().clone()
        self.register_buffer("bias", kept, persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        """Return the logits. Shape: (..., rows)."""
        return torch.nn.functional.linear(states.float(), self.rows, self.bias)


def load_classifier(folder: Folder) -> nn.Module:
    """Load the classifier of a checkpoint.

    Raises:
        ModelLoadError: If it does not have exactly one output, or its decoder no padding token.
    """
    config, what = folder.config, folder.checkpoint.what
    if config.is_encoder_decoder or config.num_labels != 1:
        given = f"a {config.model_type} checkpoint of {config.num_labels} outputs"
        other = "; RetrievalEvaluator loads such a T5" if config.is_encoder_decoder else ""
        raise ModelLoadError(f"{what}: given {given}, allowed an encoder with one{other}")
    model = folder.checkpoint.model("AutoModelForSequenceClassification")
    if folder.tokenizer.pad_token_id is not None:  # a decoder finds the last token by it
        model.config.pad_token_id = folder.tokenizer.pad_token_id
    elif is_decoder(config.model_type):
        raise ModelLoadError(
            f"{what}: its tokenizer has no padding token, by which a {config.model_type} finds the "
            "last token; pass tokenizer_kwargs={'pad_token': ...}"
        )
    return OneOutput(model, types="token_type_ids" in folder.tokenizer.model_input_names)


class OneOutput(nn.Module):
    """A network with a classifier of one output; `types` as its tokenizer returns them or not."""

    def __init__(self, encoder: nn.Module, *, types: bool) -> None:
        super().__init__()
        float32_head(encoder)
        self.encoder = encoder
        self.uses_types = types and has_types(encoder.config)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the output of each pair. Shape: (batch,)."""
        extra = {"token_type_ids": types} if self.uses_types else {}
        seen = square(mask) if mask.device.type in GPUS and takes_square(self.encoder) else mask
        outputs: Tensor = self.encoder(input_ids=ids, attention_mask=seen, **extra).logits
        return outputs.squeeze(-1)


CLASSIFIER = Family(
    "classifier",
    scales=("logit", "probability"),
    fits=lambda folder: not folder.architecture.endswith("ForCausalLM"),
    load=lambda folder: (
        load_classifier(folder),
        PairTokenizer(folder.tokenizer, max_length=folder.length()),
    ),
)


class TrueOrFalse(nn.Module):
    """A T5 whose output layer is reduced to two rows, run for the first step of the decoder."""

    def __init__(self, encoder: Any, *, yes: int, no: int) -> None:
        super().__init__()
        self.encoder = encoder
        encoder.lm_head = OutputRows(encoder.lm_head, [yes, no])
        self.start: int = encoder.config.decoder_start_token_id

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the logit of "true" less that of "false". Shape: (batch,)."""
        first = torch.full((len(ids), 1), self.start, device=ids.device)
        given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": first}
        logits: Tensor = self.encoder(**given, use_cache=False).logits[:, 0]
        return logits[:, 0] - logits[:, 1]


class QueryDocument(PairTokenizer):
    """Tokenizer of pairs as monoT5 reads them: `Query: ... Document: title. text Relevant:`."""

    def _encode(self, pairs: Sequence[Pair]) -> list[Tokens]:
        texts = [whole(passage.text) for _, passage in pairs]
        before = [
            f"Query: {question} Document: {title_of(passage.title)}"
            for question, (_, passage) in zip(self._asked(pairs), pairs, strict=True)
        ]
        both = zip(before, texts, strict=True)
        read = self._fast.encode_batch([f"{start}{text} Relevant:" for start, text in both])
        ids, offsets = [one.ids for one in read], [one.offsets for one in read]
        made = placed_rows(ids, offsets, [*map(len, before)], texts, 0, 1)
        for one in made:
            one[2, one[3] >= 0] = 2
        return made


def _load_monot5(folder: Folder) -> Loaded:
    yes, no = (folder.token(word) for word in ("true", "false"))
    if yes == no:
        raise ModelLoadError(f"{folder.checkpoint.what}: true and false are one token, {yes}")
    trunk = TrueOrFalse(folder.checkpoint.model("AutoModelForSeq2SeqLM"), yes=yes, no=no)
    return trunk, QueryDocument(folder.tokenizer, max_length=folder.length())


MONOT5 = Family(
    "monot5",
    scales=("tokens",),
    fits=lambda folder: (
        folder.config.model_type in T5_LIKE
        and "Classification" not in " ".join(folder.config.architectures or [])
    ),
    load=_load_monot5,
)
