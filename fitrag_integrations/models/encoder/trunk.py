"""The encoder under every pair model, and how its token states become one vector.

Any Hugging Face encoder: T5's encoder (FIT-RAG 4.2 uses T5-base), BERT-likes, ModernBERT, DeBERTa.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fitrag_integrations.models.encoder.pairs import EncodedPair
from fitrag_integrations.models.runtime.loading import Checkpoint

_T5_LIKE = {"t5", "mt5", "umt5"}


class States(Protocol):
    """Run an encoder over a padded batch, by whatever computes it; an engine has one."""

    def __call__(self, ids: Tensor, types: Tensor, lengths: Tensor) -> Tensor:
        """Give token states, (batch, tokens, width), float32; beyond a length, any finite number.

        `ids` and `types` are (batch, tokens), `lengths` (batch,); all are int64.
        """
        ...


class Trunk(nn.Module):
    """Run an encoder over padded pairs.

    `pooling` is "first" (the first token, for encoders that have one) or "mean" (T5).
    """

    def __init__(self, encoder: nn.Module, *, pooling: str) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        config: Any = encoder.config
        self.width: int = getattr(config, "hidden_size", None) or config.d_model
        self.uses_types = getattr(config, "type_vocab_size", 0) > 1

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Give token states. Shape: (batch, tokens, width), float32."""
        extra = {"token_type_ids": types} if self.uses_types else {}
        states: Tensor = self.encoder(input_ids=ids, attention_mask=mask, **extra).last_hidden_state
        return states.float()

    def pool(self, states: Tensor, mask: Tensor) -> Tensor:
        """Give one vector per pair. Shape: (batch, width)."""
        if self.pooling == "first":
            return states[:, 0]
        weights = mask.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


def states_of(forward: Callable[..., Tensor]) -> States:
    """Run a trunk's forward, whatever computes it, with the mask it takes."""

    def states(ids: Tensor, types: Tensor, lengths: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        found: Tensor = forward(ids, (places < lengths.unsqueeze(1)).long(), types)
        return found

    return states


def build_encoder(checkpoint: Checkpoint, *, attention: str | None = None) -> tuple[nn.Module, str]:
    """Load an encoder and name its pooling; T5 checkpoints give their encoder alone.

    Weights are float32, however the checkpoint stores them: small steps are lost in half precision.
    """
    options: dict[str, Any] = {"dtype": torch.float32}
    if attention:
        options["attn_implementation"] = attention
    if checkpoint.config().model_type in _T5_LIKE:
        return checkpoint.model("T5EncoderModel", **options)[0], "mean"
    return checkpoint.model("AutoModel", **options)[0], "first"


def collate(
    pairs: Sequence[EncodedPair], *, pad_id: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor, Tensor]:
    """Pad encoded pairs to the longest. Gives ids, mask, types. Shape each: (batch, tokens)."""
    width = max(map(len, pairs))
    ids = torch.full((len(pairs), width), pad_id)
    mask = torch.zeros((len(pairs), width), dtype=torch.long)
    types = torch.zeros((len(pairs), width), dtype=torch.long)
    for row, pair in enumerate(pairs):
        ids[row, : len(pair)] = torch.tensor(pair.ids)
        mask[row, : len(pair)] = 1
        types[row, : len(pair)] = torch.tensor(pair.types)
    return ids.to(device), mask.to(device), types.to(device)
