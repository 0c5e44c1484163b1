"""A BERT's layers in bfloat16 on a CPU: weights packed once, attention by whole products.

torch's own attention takes a quarter of the time in bfloat16, and its products put the weights into
oneDNN's order at every call. Here they lie in it, a second time in memory, with GELU and the sum
after them in the same pass. Attention weights are exponentials over their sum; where a sum leaves
the range that is safe without taking off the largest first, torch's attention does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Layer: TypeAlias = Callable[[Tensor, int, Tensor | None], Tensor]
ROWS = 1024  # of the products that weights are packed for; others are as right
SCORES = 2**22  # numbers that attention holds at once, or those of one head
SAFE = 1e30  # what a sum of exponentials is below, and over one of it above


class Kept:
    """Memory that is kept between batches, by name; requesting a name overwrites its content."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._parts: dict[str, Tensor] = {}

    def of(self, name: str, *shape: int) -> Tensor:
        """Return memory of a shape, whatever is in it."""
        size, part = math.prod(shape), self._parts.get(name)
        if part is None or len(part) < size:
            part = self._parts[name] = torch.empty(size, dtype=self._dtype)
        return part[:size].view(shape)


class HalfLayer:
    """Run one layer of transformers' `BertModel`, (rows, width) bfloat16, in `kept` memory."""

    def __init__(self, layer: Any, heads: int, kept: Kept) -> None:
        self._heads, self._kept = heads, kept
        inner = layer.attention.self
        self._asked = _packed(inner.query, inner.key, inner.value)
        self._seen = _packed(layer.attention.output.dense)
        self._wide = _packed(layer.intermediate.dense)
        self._made = _packed(layer.output.dense)
        self._normal = layer.attention.output.LayerNorm, layer.output.LayerNorm

    def __call__(self, states: Tensor, batch: int, mask: Tensor | None) -> Tensor:
        """Return the next states; `mask`, (batch, 1, 1, tokens), is added to attention's scores."""
        product, first, last = torch.ops.mkldnn._linear_pointwise, *self._normal
        heads = self._attended(product(states, *self._asked, "none", [], ""), batch, mask)
        states = first(product.binary(heads, states, *self._seen, "add"))
        wide = product(states, *self._wide, "gelu", [], "none")
        made: Tensor = last(product.binary(wide, states, *self._made, "add"))
        return made

    def _attended(self, asked: Tensor, batch: int, mask: Tensor | None) -> Tensor:
        """Attend. Shapes: (rows, 3 width), queries, keys and values; gives (rows, width)."""
        rows, width = len(asked), asked.shape[1] // 3
        tokens, size = rows // batch, width // self._heads
        apart = asked.view(batch, tokens, 3, self._heads, size).permute(2, 0, 3, 1, 4)
        each = self._kept.of("heads", *apart.shape).copy_(apart).flatten(1, 2)
        if mask is None:
            mask = asked.new_zeros(batch, 1, 1, 1)
        added = mask.expand(-1, self._heads, -1, -1).flatten(0, 1)
        seen = self._kept.of("seen", batch * self._heads, tokens, size)
        most = max(1, SCORES // tokens**2)
        parts = zip(*(whole.split(most) for whole in (*each, added, seen)), strict=True)
        for query, key, value, some, out in parts:
            self._weighed(query, key, value, some, out)
        back = seen.view(batch, self._heads, tokens, size).transpose(1, 2)
        return self._kept.of("back", *back.shape).copy_(back).view(rows, width)

    def _weighed(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, out: Tensor
    ) -> None:
        scores = self._kept.of("scores", *query.shape[:2], key.shape[1])
        scale = query.shape[2] ** -0.5
        torch.baddbmm(mask, query, key.transpose(1, 2), alpha=scale, out=scores)
        total = torch.exp(scores, out=scores).sum(2, keepdim=True)
        if float(total.amin()) > 1 / SAFE and float(total.amax()) < SAFE:
            torch.bmm(scores, value, out=out).div_(total)
        else:
            out.copy_(F.scaled_dot_product_attention(query, key, value, attn_mask=mask))


def _packed(*parts: nn.Linear) -> tuple[Tensor, Tensor]:
    """Concatenate the weights of layers over the same states, and pack them."""
    weight = torch.cat([part.weight.detach() for part in parts])
    bias = torch.cat([part.bias.detach() for part in parts])
    return torch.ops.mkldnn._reorder_linear_weight(weight, ROWS), bias
