"""What every family of rerankers is made of, and what several of them use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models.encoder.pairs import PairTokenizer
from fitrag_integrations.models.runtime.loading import Checkpoint, position_limit

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
        positions = position_limit(self.config)
        if self.max_length is None:
            named = [n for n in (positions, self.tokenizer.model_max_length) if n and n < 1e9]
            return min(*named, LONGEST_LENGTH) if named else USUAL_LENGTH
        if not SHORTEST_LENGTH <= self.max_length <= (positions or self.max_length):
            most = f" to {positions}, the positions of the checkpoint" if positions else " on"
            allowed = f"a whole number from {SHORTEST_LENGTH}{most}"
            raise InputError.of("max_length", given=self.max_length, allowed=allowed)
        return self.max_length

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
