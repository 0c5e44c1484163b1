"""BERT's layers on a CPU: fused products in kept memory, in float32 and bfloat16.

A layer's output is as large as the processor's cache and gone a moment later; requesting new memory
for each costs a tenth of the time. Products add bias, activation and residual themselves, their
weights are packed once (torch's products do it at every call), and attention runs as whole
products, which in bfloat16 takes a quarter of the time of torch's own. The steps are BERT's, and so
are the numbers. A slower path than the expected one is logged.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.models.runtime.backends import sample

LAYERED = {f"{n}Encoder" for n in ("Bert", "Roberta", "XLMRoberta", "Camembert", "Electra")}
"""Classes of transformers with the layers of BERT."""
APART = {torch.float32: 1e-4, torch.bfloat16: 0.05}
"""How far outputs may be from those of transformers, over their length."""
TRIED = (2, 12)  # the shape of the batch that both are tried on
ROWS = 1024  # of the products that weights are packed for; others are as right
PACKED = 2**28  # bytes of a model's layers that are packed, beside the weights themselves
SCORES = 2**22  # numbers that attention holds at once, or those of one head
SAFE = 1e30  # what a sum of exponentials is below, and over one of it above
_log = logging.getLogger(__name__)


@torch.inference_mode()
def speed_up(module: nn.Module) -> bool:
    """Run the layers of a BERT, or of its kin, below a module as `Layers`.

    Returns whether they are: not of other architectures, nor where outputs would be others, which
    is logged. `slow_down` takes it back.
    """
    encoder: Any = next((p for p in module.modules() if type(p).__name__ in LAYERED), None)
    if encoder is None:
        return False
    config, dtype = encoder.config, next(encoder.parameters()).dtype
    if config.hidden_act != "gelu" or config.is_decoder or dtype not in APART:
        return False
    given = sample(module, TRIED)
    there = given[1].bool()
    try:
        expected = module(*given)
        layers = Layers(
            [layer.state_dict() for layer in encoder.layer],
            heads=config.num_attention_heads,
            epsilon=config.layer_norm_eps,
        )
        encoder.forward = layers.as_encoder
        made = module(*given)
        if expected.dim() == 3:
            expected, made = expected[there], made[there]
        apart = float((made - expected).norm() / expected.norm().clamp(min=1e-6))
        if apart <= APART[dtype]:
            return True
        why = f"outputs are {apart:.2g} from those of transformers"
    except (AttributeError, KeyError, RuntimeError) as error:  # of a torch without oneDNN
        why = str(error)
    slow_down(module)
    _log.warning("a %s runs slower on this CPU, without fused layers: %s", config.model_type, why)
    return False


def slow_down(module: nn.Module) -> None:
    """Run the layers below a module as transformers has them again; drop the packed weights."""
    for part in module.modules():
        if isinstance(getattr(vars(part).get("forward"), "__self__", None), Layers):
            del part.forward


class Layers:
    """Run the layers of a BERT in kept memory. Not thread-safe.

    Args:
        layers: Tensors of each layer, by their names in transformers' `BertLayer`.
        heads: Number of attention heads.
        epsilon: Of the normalizations.
    """

    def __init__(
        self, layers: Sequence[Mapping[str, Tensor]], *, heads: int, epsilon: float = 1e-12
    ) -> None:
        self._heads, self._epsilon = heads, epsilon
        self._dtype = layers[0]["output.dense.weight"].dtype
        self._kept: dict[str, Tensor] = {}
        pack = sum(each.nbytes for layer in layers for each in layer.values()) <= PACKED
        self._layers = [_packed(layer, pack=pack) for layer in layers]

    def __call__(self, states: Tensor, mask: Tensor | None) -> Tensor:
        """Return the states after the last layer, of shape (batch, tokens, width) as given.

        `mask`, (batch, 1, 1, tokens), is added to attention's scores.
        """
        product, shape = torch.ops.mkldnn._linear_pointwise, states.shape
        states = states.flatten(0, 1)
        for weight, bias, (seen, wide, made), normal in self._layers:
            heads = self._attended(product(states, weight, bias, "none", [], ""), shape[0], mask)
            states = self._normal(product.binary(heads, states, *seen, "add"), normal[0])
            inner = product(states, *wide, "gelu", [], "none")
            states = self._normal(product.binary(inner, states, *made, "add"), normal[1])
        return states.view(shape)

    def as_encoder(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **_: object
    ) -> Any:
        """Run in the place of transformers' `BertEncoder.forward`."""
        from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

        mask = attention_mask
        if mask is not None:
            mask = mask[:, :, :1] if mask.dim() == 4 else mask[:, None, None]
            if not mask.is_floating_point():
                empty = torch.zeros(mask.shape, dtype=self._dtype)
                mask = empty.masked_fill_(mask == 0, -torch.inf)
        states = self(hidden_states.to(self._dtype), mask)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=states)

    def _normal(self, states: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
        return F.layer_norm(states, states.shape[1:], *weights, self._epsilon)

    def _memory(self, name: str, *shape: int) -> Tensor:
        """Return memory of a shape, whatever is in it; its name's next use overwrites it."""
        size, part = math.prod(shape), self._kept.get(name)
        if part is None or len(part) < size:
            part = self._kept[name] = torch.empty(size, dtype=self._dtype)
        return part[:size].view(shape)

    def _attended(self, asked: Tensor, batch: int, mask: Tensor | None) -> Tensor:
        """Attend. Shapes: (rows, 3 width), queries, keys and values; gives (rows, width)."""
        rows, width = len(asked), asked.shape[1] // 3
        tokens, size = rows // batch, width // self._heads
        apart = asked.view(batch, tokens, 3, self._heads, size).permute(2, 0, 3, 1, 4)
        each = self._memory("heads", *apart.shape).copy_(apart).flatten(1, 2)
        if mask is None:
            mask = asked.new_zeros(batch, 1, 1, 1)
        added = mask.expand(-1, self._heads, -1, -1).flatten(0, 1)
        seen = self._memory("seen", batch * self._heads, tokens, size)
        most = max(1, SCORES // tokens**2)
        parts = zip(*(whole.split(most) for whole in (*each, added, seen)), strict=True)
        for query, key, value, some, out in parts:
            scores = self._memory("scores", *query.shape[:2], key.shape[1])
            torch.baddbmm(some, query, key.transpose(1, 2), alpha=size**-0.5, out=scores)
            total = torch.exp(scores, out=scores).sum(2, keepdim=True)
            if float(total.amin()) > 1 / SAFE and float(total.amax()) < SAFE:
                torch.bmm(scores, value, out=out).div_(total)
            else:
                _log_beyond_range()
                out.copy_(F.scaled_dot_product_attention(query, key, value, attn_mask=some))
        back = seen.view(batch, self._heads, tokens, size).transpose(1, 2)
        return self._memory("back", *back.shape).copy_(back).view(rows, width)


def _packed(
    layer: Mapping[str, Tensor], *, pack: bool
) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]], list[tuple[Tensor, Tensor]]]:
    """Return a layer's first product, weight and bias, its further products, and its norms."""

    def weight(*names: str) -> Tensor:
        return _joined([layer[f"{name}.weight"] for name in names], pack=pack)

    heads = [f"attention.self.{name}" for name in ("query", "key", "value")]
    bias = torch.cat([layer[f"{name}.bias"] for name in heads])
    single = ("attention.output.dense", "intermediate.dense", "output.dense")
    further = [(weight(name), layer[f"{name}.bias"]) for name in single]
    normal = [f"{name}.LayerNorm" for name in ("attention.output", "output")]
    norms = [(layer[f"{name}.weight"], layer[f"{name}.bias"]) for name in normal]
    return weight(*heads), bias, further, norms


def _joined(weights: list[Tensor], *, pack: bool) -> Tensor:
    """Concatenate the weights of layers over the same states, and pack them."""
    whole = torch.cat(weights) if len(weights) > 1 else weights[0]
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(whole, ROWS) if pack else whole
    return packed


@cache
def _log_beyond_range() -> None:
    _log.info("attention scores beyond the range of exponentials run in torch's attention")


class ArrayBert:
    """Run a BERT whose weights are arrays, in a precision of torch. Not thread-safe.

    Args:
        weights: Arrays by their names in transformers' `BertModel`, or as "encoder" of a trunk.
        heads: Number of attention heads.
        dtype: Name of the precision.
    """

    @torch.inference_mode()
    def __init__(
        self, weights: Mapping[str, NDArray[np.float32]], *, heads: int, dtype: str
    ) -> None:
        kind = getattr(torch, dtype)
        tensors = {name: torch.from_numpy(array).to(kind) for name, array in weights.items()}
        layers: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if found := re.fullmatch(r".*encoder\.layer\.(\d+)\.(.+)", name):
                layers.setdefault(int(found[1]), {})[found[2]] = tensor
        self._layers = Layers([layers[i] for i in range(len(layers))], heads=heads)
        self._embedded = {n.partition("embeddings.")[2]: t for n, t in tensors.items()}

    @torch.inference_mode()
    def __call__(
        self, ids: NDArray[np.int64], types: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return token states. Shapes: (batch, tokens), (batch, tokens), (batch,)."""
        parts, tokens = self._embedded, ids.shape[1]
        states = F.embedding(torch.from_numpy(ids), parts["word_embeddings.weight"])
        states += F.embedding(torch.from_numpy(types), parts["token_type_embeddings.weight"])
        states += parts["position_embeddings.weight"][:tokens]
        normal = parts["LayerNorm.weight"], parts["LayerNorm.bias"]
        states = F.layer_norm(states, states.shape[2:], *normal, 1e-12)
        absent = torch.from_numpy(np.arange(tokens) >= lengths[:, None])
        mask = torch.zeros(absent.shape, dtype=states.dtype).masked_fill_(absent, -torch.inf)
        found: NDArray[np.float32] = self._layers(states, mask[:, None, None]).float().numpy()
        return found
