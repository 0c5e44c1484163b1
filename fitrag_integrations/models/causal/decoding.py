"""Write greedily with a causal engine, and tell how sure it was of each token.

Drafts, their token probabilities (TARG's margin and entropy) and streaming all come from one loop,
transformers' own; this file only listens to it and cuts what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from fitrag_integrations.models.causal.engine import CausalEngine, Ids, left_padded
from fitrag_integrations.models.causal.words import cut_at
from fitrag_integrations.models.runtime.worker import Steps, abandoned
from fitrag_integrations.types import Draft
from fitrag_integrations.values.prompt import Written

X = TypeVar("X")
T = TypeVar("T")
Hear: TypeAlias = Callable[[str], bool]  # gets a row's text so far, says whether to stop


@dataclass(frozen=True, slots=True)
class Writing:
    """Say how to write: at most `tokens`, up to the first of the `stop` texts."""

    tokens: int
    stop: tuple[str, ...] = ()


def write(
    engine: CausalEngine,
    rows: Sequence[Ids],
    how: Writing,
    *,
    adapter: str | None = None,
    hear: Hear | None = None,
) -> Steps[list[Draft]]:
    """Continue each row of ids, with an adapter or the base alone. On the worker only.

    A row near the end of the model's input gets what room there is, in a batch of its own.
    """

    def one_batch(batch: list[Ids]) -> list[Draft]:
        room = how.tokens
        if engine.limit is not None:
            room = min(room, engine.limit - max(map(len, batch)))
        with engine.using(adapter):
            return _written(engine, batch, Writing(room, how.stop), hear)

    def length(row: Ids) -> int:
        tight = engine.limit is not None and len(row) + how.tokens > engine.limit
        return engine.budget if tight else engine.written_length(len(row) + how.tokens)

    return engine.batched(rows, one_batch, length=length)


def rescore(
    engine: CausalEngine, pairs: Sequence[tuple[Ids, Ids]]
) -> Steps[list[list[list[float]]]]:
    """Tell how sure the base is of each draft token after its prompt, in one pass. On the worker.

    Items are (prompt ids, draft ids), none empty; gives per token [log-probability, margin,
    entropy].
    """

    def one_batch(batch: list[tuple[Ids, Ids]]) -> list[list[list[float]]]:
        keep = max(len(draft) for _, draft in batch) + 1
        rows = [[*prompt, *draft] for prompt, draft in batch]
        with engine.using(None):
            logits = engine.inferred(rows, keep=keep).logits
        found = [
            token_facts(row[-len(draft) - 1 : -1], draft)
            for row, (_, draft) in zip(logits, batch, strict=True)
        ]
        told = torch.cat(found).cpu().split([len(draft) for _, draft in batch])
        return [one.tolist() for one in told]

    return engine.batched(pairs, one_batch, length=_length)


def token_facts(logits: Tensor, chosen: Ids | Tensor) -> Tensor:
    """Measure the tokens written. Shape: (tokens, 3); log-probability, margin, entropy (nats)."""
    logs = logits.float().log_softmax(-1)
    ids = torch.as_tensor(chosen, device=logits.device).unsqueeze(-1)
    probabilities = logs.exp()
    top = probabilities.topk(2).values
    margin = (top[..., 0] - top[..., 1]).clamp(0.0, 1.0)
    entropy = torch.special.entr(probabilities).sum(-1)
    return torch.stack([logs.gather(-1, ids).squeeze(-1).clamp(max=0.0), margin, entropy], -1)


def _length(pair: tuple[Ids, Ids]) -> int:
    return len(pair[0]) + len(pair[1])


class _Facts(LogitsProcessor):
    """Measure each step's likeliest token, and change nothing."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.steps.append(token_facts(scores, scores.argmax(-1)))
        return scores


class _Listener(StoppingCriteria):
    """Stop a row at a stop text, or when whoever listens has heard enough."""

    def __init__(self, tokenizer: Any, start: int, stop: Sequence[str], hear: Hear | None) -> None:
        self._tokenizer, self._start, self._stop, self._hear = tokenizer, start, stop, hear

    def __call__(self, input_ids: Tensor, scores: object, **_: object) -> Any:
        new = input_ids[:, self._start :]
        left = abandoned()
        if left or not (self._stop or self._hear):
            return torch.full((len(new),), left, device=input_ids.device)
        texts = self._tokenizer.batch_decode(new, skip_special_tokens=True)
        return torch.tensor([self._ended(text) for text in texts], device=input_ids.device)

    def _ended(self, text: str) -> bool:
        heard = self._hear is not None and self._hear(text)
        return heard or any(stop in text for stop in self._stop)


@torch.inference_mode()
def _written(
    engine: CausalEngine, batch: Sequence[Ids], how: Writing, hear: Hear | None
) -> list[Draft]:
    ids, mask, _ = left_padded(batch, pad_id=engine.pad_id, device=engine.device)
    facts = _Facts()
    listener = _Listener(engine.tokenizer, ids.shape[1], how.stop, hear)
    out = engine.model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=how.tokens,
        logits_processor=LogitsProcessorList([facts]),
        stopping_criteria=StoppingCriteriaList([listener]),
    )
    measured = torch.stack(facts.steps, 1).tolist()
    new = out[:, ids.shape[1] :].tolist()
    return [_draft(engine, row, told, how) for row, told in zip(new, measured, strict=True)]


def _draft(engine: CausalEngine, ids: list[int], told: list[list[float]], how: Writing) -> Draft:
    """Read a row; the tokens of what is left of it speak for it."""
    written, count = read_row(engine, ids, how)
    return Draft(written, *zip(*told[:count], strict=True)) if count else Draft("")


def read_row(engine: CausalEngine, ids: list[int], how: Writing) -> tuple[Written, int]:
    """Cut what was written at its end of text or stop text; gives its text and its tokens."""
    ended = next((i for i, token in enumerate(ids) if token in engine.eos_ids), len(ids))
    text, count = _until_stop(engine.tokenizer, ids[:ended], how.stop)
    return Written(text.strip(), cut=count if count == how.tokens else None), count


def _until_stop(tokenizer: Any, ids: list[int], stop: Sequence[str]) -> tuple[str, int]:
    text = tokenizer.decode(ids, skip_special_tokens=True)
    cut = cut_at(text, stop)
    if cut == text:
        return text, len(ids) if text.strip() else 0
    for count in range(1, len(ids)):  # the fewest tokens that hold what was kept
        if tokenizer.decode(ids[:count], skip_special_tokens=True).startswith(cut.rstrip()):
            return cut, count if cut.strip() else 0
    return cut, 0 if not cut.strip() else len(ids)


def by_how(
    items: Sequence[tuple[X, Writing]], run: Callable[[list[X], Writing], Steps[list[T]]]
) -> Steps[list[T]]:
    """Run items that are to be written alike together; results in the order given."""
    found: dict[int, T] = {}
    for how in dict.fromkeys(how for _, how in items):
        places = [i for i, (_, own) in enumerate(items) if own == how]
        found.update(zip(places, (yield from run([items[i][0] for i in places], how)), strict=True))
    return [found[i] for i in range(len(items))]
