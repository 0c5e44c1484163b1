"""The encoder under every pair model, and how its token states become one vector.

Any Hugging Face encoder: T5's encoder (FIT-RAG 4.2 uses T5-base), BERT-likes, ModernBERT, DeBERTa.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fitrag_integrations.models.encoder.pairs import Batch
from fitrag_integrations.models.runtime.placing import GPUS, sent

SQUARE = ("bert", "mt5", "roberta", "t5", "umt5", "xlm-roberta")
"""Architectures that take a mask for each pair of tokens, and use it in all layers."""


class Trunk(nn.Module):
    """Run an encoder over padded pairs.

    `pooling` is "first" (the first token, for encoders that have one), "mean" (T5) or "last" (the
    last token, for decoders, where no earlier one attends to the whole input). `rounded` is set
    where the embeddings were rounded to eight bits.
    """

    rounded = False

    def __init__(self, encoder: nn.Module, *, pooling: str) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling
        config: Any = encoder.config
        self.width: int = getattr(config, "hidden_size", None) or config.d_model
        self.uses_types = has_types(config)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return token states. Shape: (batch, tokens, width), float32."""
        extra = {"token_type_ids": types} if self.uses_types else {}
        seen = as_attended(mask, self.encoder)
        states: Tensor = self.encoder(input_ids=ids, attention_mask=seen, **extra).last_hidden_state
        return states.float()

    def pool(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return one vector per input, of the tokens where `mask` is 1. Shape: (batch, width)."""
        if self.pooling == "mean":
            weights = mask.unsqueeze(-1).to(states.dtype)
            return (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        at = (mask * (places if self.pooling == "last" else places.flip(0))).argmax(1)
        return states[torch.arange(len(states), device=mask.device), at]


def as_attended(mask: Tensor, encoder: Any) -> Tensor:
    """Return the mask in the form of fused attention on a GPU, if all layers use one mask.

    For any other form, transformers waits for the device to check whether it hides anything. A
    whole T5 is called with the plain mask instead, because the cross-attention of its decoder
    requires one of another shape, (batch, 1, decoder tokens, tokens).

    Args:
        mask: 1 for each token, 0 for padding. Shape: (batch, tokens).
        encoder: Encoder that the mask is for.

    Returns:
        The mask unchanged, or boolean, shape (batch, 1, tokens, tokens).
    """
    config = encoder.config
    on_gpu = mask.device.type in GPUS and config.model_type in SQUARE
    wide = on_gpu and config._attn_implementation == "sdpa"
    return mask.bool()[:, None, None, :].expand(-1, 1, mask.shape[1], -1) if wide else mask


def has_types(config: object) -> bool:
    """Check whether an architecture distinguishes the two texts of a pair by types of tokens."""
    return getattr(config, "type_vocab_size", 0) > 1


def is_decoder(model_type: str) -> bool:
    """Check whether an architecture is a decoder, whose tokens attend to earlier ones only."""
    from transformers.models.auto import modeling_auto

    masked = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and (
        model_type not in masked
    )


def collate(batch: Batch, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
    """Send a batch to a device. Gives ids, mask, types. Shape each: (batch, tokens)."""
    ids, types = sent(torch.from_numpy(batch.tokens[:2]), device).long()
    lengths = sent(torch.from_numpy(batch.lengths), device).unsqueeze(1)
    return ids, (torch.arange(ids.shape[1], device=ids.device) < lengths).long(), types
