"""A BERT on a CPU: its precision where none is given, and a forward pass in kept memory.

A layer's output is as large as the cache and gone a moment later; requesting new memory for each
costs a tenth of the time. The steps and their order are BERT's, and so are the numbers. In bfloat16
the weights are packed once (torch's products do it at every call) and attention runs as whole
products, which takes a quarter of the time of torch's own. A slower path than the expected one is
logged.
"""

from __future__ import annotations

import copy
import logging
import math
import os
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.models.encoder.trunk import States, Trunk, mask_of, states_of
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.placing import cast, is_placed

Layer: TypeAlias = Callable[[Tensor, int, Tensor | None], Tensor]
VARIABLE = "FITRAG_CPU_DTYPE"  # float32: nothing is tried; bfloat16: only the numbers are
FASTER = 1.5  # times as fast as float32 at least: by less, rounding is not worth it
NEAR = 0.05  # of the norm, that states in bfloat16 may be from those of float32
SHAPE = 256, 384, 1536  # of the product that is timed, a small encoder's
APART = {torch.float32: 1e-5, torch.bfloat16: 0.02}
"""How far states may be from those of transformers, over their length."""
LENGTHS = (12, 7)  # of the pairs that both are tried on
ROWS = 1024  # of the products that weights are packed for; others are as right
SCORES = 2**22  # numbers that attention holds at once, or those of one head
SAFE = 1e30  # what a sum of exponentials is below, and over one of it above
_log = logging.getLogger(__name__)


def half_will_do(trunk: nn.Module, options: Options) -> bool:
    """Check whether bfloat16 is to be an encoder's precision, where `options` leave that open."""
    said = os.environ.get(VARIABLE, "auto")
    device, _, _ = options.resolved()
    unsaid = options.dtype is None and options.backend in (None, "torch")
    if said == "float32" or not unsaid or device.type != "cpu" or is_placed(trunk):
        return False
    if not isinstance(trunk, Trunk):
        return False
    quick = said == "bfloat16" or rate(torch.bfloat16) >= FASTER * rate(torch.float32)
    return quick and near(trunk)


@cache
def rate(dtype: torch.dtype) -> float:
    """Measure this machine's matrix product, in GFLOP/s: the best of a few."""
    rows, inner, outer = SHAPE
    left, right = torch.ones(rows, inner, dtype=dtype), torch.ones(inner, outer, dtype=dtype)
    seconds = []
    for _ in range(4):
        began = time.thread_time()  # what else the machine does is not counted
        left @ right
        seconds.append(max(1e-4, time.thread_time() - began))  # where a clock is too coarse
    return 2e-9 * math.prod(SHAPE) / min(seconds)


@torch.inference_mode()
def near(trunk: Trunk) -> bool:
    """Check whether states in bfloat16 are near those of float32, on some tokens of all kinds."""
    size = trunk.encoder.get_input_embeddings().num_embeddings  # type: ignore[operator]
    ids = (torch.arange(1, 97) * 7919 % size).view(2, -1)
    given = ids, torch.zeros_like(ids), torch.tensor([48, 40])
    half = cast(copy.deepcopy(trunk), torch.bfloat16).eval()
    found, expected = (states_of(one)(*given)[:, :40] for one in (half, trunk.eval()))
    return bool((found - expected).norm() <= NEAR * expected.norm())


@torch.inference_mode()
def in_place(trunk: nn.Module) -> States | None:
    """Return what runs a BERT in kept memory, or None for another model or unequal states."""
    if not isinstance(trunk, Trunk) or type(trunk.encoder).__name__ != "BertModel":
        return None
    config: Any = trunk.encoder.config
    dtype = next(trunk.parameters()).dtype
    if config.hidden_act != "gelu" or dtype not in APART:
        return None
    lengths = torch.tensor(LENGTHS)
    ids = torch.arange(1, 2 * LENGTHS[0] + 1).view(2, -1) % config.vocab_size
    there = mask_of(lengths, ids.shape[1]) > 0
    given = ids, torch.zeros_like(ids), lengths
    expected = states_of(trunk)(*given)[there]
    for half in (True, False) if dtype == torch.bfloat16 else (False,):
        layers = "packed bfloat16 layers" if half else "layers in kept memory"
        try:
            made = _InPlace(trunk.encoder, dtype, half=half)
            apart = float((made(*given)[there] - expected).norm() / expected.norm())
        except (AttributeError, RuntimeError) as error:  # of a torch without oneDNN
            _log.warning("a BERT runs slower on this CPU, without %s: %s", layers, error)
            continue
        if apart <= APART[dtype]:
            return made
        _log.warning(
            "a BERT runs slower on this CPU, without %s: states are %.2g from transformers'",
            layers,
            apart,
        )
    return None


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


@cache
def _log_once(message: str) -> None:
    _log.info("a slower path: %s", message)


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
            _log_once("attention scores beyond the range of exponentials run in torch's attention")
            out.copy_(F.scaled_dot_product_attention(query, key, value, attn_mask=mask))


def _packed(*parts: nn.Linear) -> tuple[Tensor, Tensor]:
    """Concatenate the weights of layers over the same states, and pack them."""
    weight = torch.cat([part.weight.detach() for part in parts])
    bias = torch.cat([part.bias.detach() for part in parts])
    return torch.ops.mkldnn._reorder_linear_weight(weight, ROWS), bias
