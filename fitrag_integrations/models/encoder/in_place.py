"""A BERT's forward for a CPU: transformers' arithmetic, in memory that is kept between batches.

What a layer makes is as large as the cache and gone a moment later; to ask the system for it anew
costs a tenth of the time. The steps and their order are BERT's, and so are the numbers; in
bfloat16, where `HalfLayer` runs the layers, they are as near to it as rounding lets them be.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.models.encoder.half_layers import HalfLayer, Kept, Layer
from fitrag_integrations.models.encoder.trunk import States, Trunk, mask_of, states_of

APART = {torch.float32: 1e-5, torch.bfloat16: 0.02}
"""How far states may be from what transformers makes of them, over the length of these."""
LENGTHS = (12, 7)  # of the pairs that both are tried on


def in_place(trunk: nn.Module) -> States | None:
    """Run a trunk in place if it is a BERT and the outcome is the same; else give None."""
    if not isinstance(trunk, Trunk) or type(trunk.encoder).__name__ != "BertModel":
        return None
    config: Any = trunk.encoder.config
    dtype = next(trunk.parameters()).dtype
    if config.hidden_act != "gelu" or dtype not in APART:
        return None
    halves = [True, False] if dtype == torch.bfloat16 else [False]
    return next(filter(None, (_tried(trunk, dtype, half=half) for half in halves)), None)


@torch.inference_mode()
def _tried(trunk: Trunk, dtype: torch.dtype, *, half: bool) -> States | None:
    config: Any = trunk.encoder.config
    lengths = torch.tensor(LENGTHS)
    ids = torch.arange(1, 2 * LENGTHS[0] + 1).view(2, -1) % config.vocab_size
    there = mask_of(lengths, ids.shape[1]) > 0
    given = ids, torch.zeros_like(ids), lengths
    try:
        made = _InPlace(trunk.encoder, dtype, half=half)
        found = made(*given)[there]
    except (AttributeError, RuntimeError):  # of a torch without oneDNN
        return None
    expected = states_of(trunk)(*given)[there]
    same = (found - expected).norm() <= APART[dtype] * expected.norm()
    return made if bool(same) else None


class _InPlace:
    """Run a BERT of transformers, whose weights stay its own. Not thread-safe."""

    def __init__(self, encoder: Any, dtype: torch.dtype, *, half: bool) -> None:
        self._encoder, self._dtype = encoder, dtype
        self._heads: int = encoder.config.num_attention_heads
        self._kept = Kept(dtype)
        self._layers: list[Layer] = [
            HalfLayer(layer, self._heads, self._kept) if half else partial(self._layer, layer)
            for layer in encoder.encoder.layer
        ]

    def __call__(self, ids: Tensor, types: Tensor, lengths: Tensor) -> Tensor:
        """Return token states, as `States` says."""
        batch, tokens = ids.shape
        states = self._embedded(ids, types)
        mask = None
        if int(lengths.min()) < tokens:
            absent = mask_of(lengths, tokens) == 0
            empty = torch.zeros(absent.shape, dtype=self._dtype)
            mask = empty.masked_fill_(absent, -torch.inf)[:, None, None]
        for layer in self._layers:
            states = layer(states, batch, mask)
        return states.view(batch, tokens, -1).float()

    def _embedded(self, ids: Tensor, types: Tensor) -> Tensor:
        parts = self._encoder.embeddings
        found: Tensor = parts.word_embeddings(ids)
        found += parts.token_type_embeddings(types)
        found += parts.position_embeddings.weight[: ids.shape[1]]
        normal: Tensor = parts.LayerNorm(found)
        return normal.flatten(0, 1)

    def _layer(self, layer: Any, states: Tensor, batch: int, mask: Tensor | None) -> Tensor:
        inner, outer = layer.attention.self, layer.attention.output
        shape = batch, len(states) // batch, self._heads, -1
        query, key, value = (
            self._linear(part, states, name).view(shape).transpose(1, 2)
            for name, part in (("query", inner.query), ("key", inner.key), ("value", inner.value))
        )
        heads = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        seen = self._linear(outer.dense, heads.transpose(1, 2).reshape(states.shape), "out")
        states = outer.LayerNorm(seen.add_(states))
        wide = torch.ops.aten.gelu_(self._linear(layer.intermediate.dense, states, "wide"))
        made: Tensor = layer.output.LayerNorm(
            self._linear(layer.output.dense, wide, "out").add_(states)
        )
        return made

    def _linear(self, part: nn.Linear, states: Tensor, name: str) -> Tensor:
        """Run a layer into the memory of this name, which the next one of the name overwrites."""
        out = self._kept.of(name, len(states), len(part.weight))
        return torch.addmm(part.bias, states, part.weight.T, out=out)
