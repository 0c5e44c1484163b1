"""REPLUG's ensemble (Shi et al., 2023, arXiv:2301.12652, section 3.2): many prompts, one answer.

Each next token is the likeliest under the weighted mean of the distributions behind all prompts of
an item, and goes to all of them. The loop is transformers' own greedy one; a logits processor
mixes what its rows expect, so that the rows of an item always choose alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, StoppingCriteriaList

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.causal.decoding import _Listener, cut_at
from fitrag_integrations.models.causal.engine import Ids, left_padded
from fitrag_integrations.models.causal.generator import LocalGenerator
from fitrag_integrations.models.causal.model import checked_texts
from fitrag_integrations.models.runtime.worker import Steps

Item: TypeAlias = tuple[Sequence[str], Sequence[float]]  # prompts, and what each of them weighs
_Rows: TypeAlias = tuple[list[Ids], tuple[float, ...]]


class ReplugGenerator(LocalGenerator):
    """Continue several weighted prompts as one, besides what a `LocalGenerator` does.

    As REPLUG's ensemble (Shi et al., 2023, section 3.2).
    """

    def ensemble(self, items: Sequence[Item]) -> list[str]:
        """Continue the prompts of each item greedily by their weighted mean; one text per item.

        Weights are numbers of at least 0, not all 0, and are divided by their sum. With one prompt
        it is what `generate` gives. Raises `InputError` for a prompt that fills the model's input.
        """
        return self._call(self._ensemble, _checked(items))

    async def aensemble(self, items: Sequence[Item]) -> list[str]:
        """Do what `ensemble` does without blocking the event loop."""
        return await self._acall(self._ensemble, _checked(items))

    def _ensemble(self, items: Sequence[tuple[list[str], tuple[float, ...]]]) -> Steps[list[str]]:
        engine = self._engine
        rows = [
            (engine.encode([engine.render(prompt) for prompt in prompts]), weights)
            for prompts, weights in items
        ]

        def size(item: Any) -> int:
            longest = max(map(len, item[0]))
            tight = engine.limit is not None and longest + self.max_new_tokens > engine.limit
            return engine.budget if tight else len(item[0]) * (longest + self.max_new_tokens)

        return engine.batched(rows, self._mixed, length=size)

    @torch.inference_mode()
    def _mixed(self, batch: Sequence[Any]) -> list[str]:
        """Write one batch of items; on the worker only."""
        engine = self._engine
        flat = [row for rows, _ in batch for row in rows]
        ids, mask, _ = left_padded(flat, pad_id=engine.pad_id, device=engine.device)
        room = self.max_new_tokens
        if engine.limit is not None:
            room = min(room, engine.limit - ids.shape[1])
        mixing = _Mixing([weights for _, weights in batch], ids.device)
        listener = _Listener(engine.tokenizer, ids.shape[1], self.stop, None)
        with engine.using(None):
            out = engine.model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=room,
                logits_processor=LogitsProcessorList([mixing]),
                stopping_criteria=StoppingCriteriaList([listener]),
            )
        new = out[:, ids.shape[1] :].tolist()
        firsts = [sum(len(rows) for rows, _ in batch[:at]) for at in range(len(batch))]
        return [self._text(new[first]) for first in firsts]

    def _text(self, ids: list[int]) -> str:
        eos_ids = self._engine.eos_ids
        ended = next((at for at, token in enumerate(ids) if token in eos_ids), len(ids))
        text = self._engine.tokenizer.decode(ids[:ended], skip_special_tokens=True)
        return cut_at(str(text), self.stop).strip()


class _Mixing(LogitsProcessor):
    """Give all rows of an item the logarithm of their weighted mean distribution."""

    def __init__(self, weights: Sequence[tuple[float, ...]], device: torch.device) -> None:
        self._sizes = [len(some) for some in weights]
        flat = [weight for some in weights for weight in some]
        self._shares = torch.tensor(flat, device=device).log().unsqueeze(-1)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        weighed = scores.float().log_softmax(-1) + self._shares
        mixed = [
            own.logsumexp(0, keepdim=True).expand_as(own) for own in weighed.split(self._sizes)
        ]
        return torch.cat(mixed)


def _checked(items: Sequence[Item]) -> list[tuple[list[str], tuple[float, ...]]]:
    checked = []
    for at, (prompts, weights) in enumerate(items):
        texts = checked_texts(f"items[{at}].prompts", prompts)
        numbers = [check_number(f"items[{at}].weights", one, low=0.0) for one in weights]
        total = sum(numbers)
        if not texts or len(texts) != len(numbers) or not total:
            allowed = "as many weights as prompts, 1 up, not all 0"
            raise InputError.of(f"items[{at}]", given=(len(texts), numbers), allowed=allowed)
        checked.append((texts, tuple(number / total for number in numbers)))
    return checked
