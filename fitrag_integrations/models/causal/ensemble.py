"""REPLUG's ensemble (Shi et al., 2023, arXiv:2301.12652, section 3.2): many prompts, one answer.

Each next token is the likeliest under the weighted mean of the distributions behind all prompts of
an item, and goes to all of them. The loop is transformers' own greedy one; a logits processor
mixes what its rows expect, so that the rows of an item always choose alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from transformers import LogitsProcessor

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.causal.decoding import (
    Writing,
    by_how,
    generated,
    read_row,
    row_cost,
)
from fitrag_integrations.models.causal.generator import LocalGenerator
from fitrag_integrations.models.causal.language_model import Ids
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.models.words import checked_texts
from fitrag_integrations.values.prompt import LimitedPrompt

Item: TypeAlias = tuple[Sequence[str], Sequence[float]]  # prompts, and what each of them weighs
_Rows: TypeAlias = tuple[Sequence[Ids], tuple[float, ...]]
_Texts: TypeAlias = tuple[list[str], tuple[float, ...]]


class ReplugGenerator(LocalGenerator):
    """Local generator that also continues several weighted prompts as one.

    This is REPLUG's ensemble (Shi et al., 2023, section 3.2).

    Args:
        engine: Language model and tokenizer.
        max_new_tokens: Maximum length of a reply.
        prompt: Text with {question}, for a tokenizer without a chat template.
        stop: Texts that end a reply.
        draft_tokens: Length of a draft.

    Example:
        >>> llm = ReplugGenerator.from_pretrained("Qwen/Qwen3-0.6B")
        >>> llm.ensemble([(["Context: a. Answer:", "Context: b. Answer:"], [0.7, 0.3])])
    """

    def ensemble(self, items: Sequence[Item]) -> list[str]:
        """Continue the prompts of each item greedily by their weighted mean.

        With one prompt, the result is that of `generate`.

        Args:
            items: Prompts and weights. The first prompt determines the length of the text. Weights
                are at least 0, not all 0, and are divided by their sum.

        Returns:
            One text per item, in order.

        Raises:
            InputError: If a prompt fills the model's input.
        """
        return self._call(self._ensemble, self._wanted(items))

    async def aensemble(self, items: Sequence[Item]) -> list[str]:
        """Async version of `ensemble`."""
        return await self._acall(self._ensemble, self._wanted(items))

    def _wanted(self, items: Sequence[Item]) -> list[tuple[_Texts, Writing]]:
        checked = []
        for at, (prompts, weights) in enumerate(items):
            texts = checked_texts(f"items[{at}].prompts", prompts)
            numbers = [check_number(f"items[{at}].weights", one, low=0.0) for one in weights]
            total = sum(numbers)
            refuse_if(
                not texts or len(texts) != len(numbers) or not total,
                f"items[{at}]",
                (len(texts), numbers),
                "as many weights as prompts, 1 up, not all 0",
            )
            one = texts, tuple(number / total for number in numbers)
            checked.append((one, self._how(LimitedPrompt(prompts[0]))))
        return checked

    def _ensemble(self, items: Sequence[tuple[_Texts, Writing]]) -> Steps[list[str]]:
        return by_how(items, self._alike)

    def _alike(self, items: list[_Texts], how: Writing) -> Steps[list[str]]:
        engine = self._engine
        rows: list[_Rows] = [
            (engine.encode([engine.render(prompt) for prompt in prompts]), weights)
            for prompts, weights in items
        ]
        cost = row_cost(engine)
        return engine.batched(
            rows,
            lambda batch: self._mixed(batch, how),
            length=lambda item: cost(max(map(len, item[0])) + how.tokens, len(item[0])),
            writes=True,
        )

    def _mixed(self, batch: Sequence[_Rows], how: Writing) -> list[str]:
        """Write one batch of items; on the worker only."""
        flat = [row for rows, _ in batch for row in rows]
        mixing = _Mixing([weights for _, weights in batch], self._engine.device)
        self._engine.use(None)
        new, _, how = generated(self._engine, flat, how, mixing=mixing)
        firsts = [sum(len(rows) for rows, _ in batch[:at]) for at in range(len(batch))]
        return [read_row(self._engine, new[first], how)[0] for first in firsts]


class _Mixing(LogitsProcessor):
    """Logits processor that gives all rows of an item the log of their weighted mean
    distribution.
    """

    def __init__(self, weights: Sequence[tuple[float, ...]], device: torch.device) -> None:
        self._sizes = [len(some) for some in weights]
        flat = [weight for some in weights for weight in some]
        self._shares = torch.tensor(flat, device=device).log().unsqueeze(-1)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        weighed = scores.float().log_softmax(-1) + self._shares
        return torch.cat(
            [own.logsumexp(0, keepdim=True).expand_as(own) for own in weighed.split(self._sizes)]
        )
