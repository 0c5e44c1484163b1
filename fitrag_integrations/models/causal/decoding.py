"""Greedy decoding with a causal engine, and the token probabilities of what it writes.

Drafts, their token probabilities (TARG's margin and entropy) and streaming all use the `generate`
of transformers; this file observes it and cuts its output.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from fitrag_integrations.core.generic import Q, T
from fitrag_integrations.models.causal.language_model import CausalEngine, Ids, finite, left_padded
from fitrag_integrations.models.runtime.worker import Steps, Worker, abandoned
from fitrag_integrations.models.words import cut_at, until_stop
from fitrag_integrations.types import Draft
from fitrag_integrations.values.excerpt import grouped
from fitrag_integrations.values.prompt import Completion

Hear: TypeAlias = Callable[[str], bool]  # gets a row's text so far, says whether to stop


@dataclass(frozen=True, slots=True)
class Writing:
    """How to write: at most `tokens`, up to the first of the `stop` texts.

    All prompts written so may begin with `begins`, their examples, which is computed once. With
    `facts` the probability, margin and entropy of each token are measured, which costs a softmax
    over the vocabulary at each step.
    """

    tokens: int
    stop: tuple[str, ...] = ()
    facts: bool = False
    begins: str = ""


def write(
    engine: CausalEngine,
    rows: Sequence[Ids],
    how: Writing,
    *,
    adapter: str | None = None,
    hear: Hear | None = None,
) -> Steps[list[Draft]]:
    """Continue each row of ids, with an adapter or the base alone. On the worker only.

    A row near the end of the model's input gets the tokens that are left, in a separate batch.
    On a GPU a row counts for more where there is no memory for the cache of a full batch.
    """
    cost = row_cost(engine)

    def one_batch(batch: list[Ids]) -> list[Draft]:
        engine.use(adapter)
        rows, measured, done = generated(engine, batch, how, hear=hear)
        drafts = []
        for row, facts in zip(rows, measured, strict=True):
            text, count = read_row(engine, row, done)
            drafts.append(Draft(text if count else "", *zip(*facts[:count], strict=True)))
        return drafts

    return engine.batched(
        rows, one_batch, length=lambda row: cost(len(row) + how.tokens), writes=True
    )


def row_cost(engine: CausalEngine) -> Callable[..., int]:
    """Return the function from the final tokens of a row, and its copies, to its batch tokens.

    A row that would pass the model's input takes a whole batch. Free memory is read once.
    """
    cache = engine.cache_tokens()

    def cost(tokens: int, copies: int = 1) -> int:
        if engine.limit is not None and tokens > engine.limit:
            return engine.room.tokens
        wanted = tokens * copies
        return (
            wanted if cache is None else max(wanted, math.ceil(wanted * engine.room.tokens / cache))
        )

    return cost


def rescore(
    engine: CausalEngine, pairs: Sequence[tuple[Ids, Ids]]
) -> Steps[list[list[list[float]]]]:
    """Compute the facts of each draft token after its prompt, in one pass. On the worker only.

    Items are (prompt ids, draft ids), none empty; returns [log-probability, margin, entropy] per
    token.
    """

    def one_batch(batch: list[tuple[Ids, Ids]]) -> list[list[list[float]]]:
        keep = max(len(draft) for _, draft in batch) + 1
        rows = [[*prompt, *draft] for prompt, draft in batch]
        engine.use(None)
        logits = engine.inferred(rows, keep=keep).logits
        drafts = [draft for _, draft in batch]
        ids, _, _ = left_padded(drafts, pad_id=0, device=logits.device)  # one copy for all
        found = [
            token_facts(row[-len(draft) - 1 : -1], chosen[-len(draft) :])
            for row, chosen, draft in zip(logits, ids, drafts, strict=True)
        ]
        return [one.tolist() for one in torch.cat(found).cpu().split(list(map(len, drafts)))]

    return engine.batched(pairs, one_batch, length=lambda pair: len(pair[0]) + len(pair[1]))


def token_facts(logits: Tensor, chosen: Tensor) -> Tensor:
    """Compute log-probability, margin and entropy (nats) of tokens. Shape: (tokens, 3)."""
    logs = logits.float().log_softmax(-1)
    probabilities = logs.exp()
    top = probabilities.topk(2).values
    margin = (top[..., 0] - top[..., 1]).clamp(0.0, 1.0)
    entropy = torch.special.entr(probabilities).sum(-1)
    return torch.stack(
        [logs.gather(-1, chosen.unsqueeze(-1)).squeeze(-1).clamp(max=0.0), margin, entropy], -1
    )


class _Facts(LogitsProcessor):
    """Measure the most likely token of each step, and change nothing."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.steps.append(token_facts(scores, scores.argmax(-1)))
        return scores

    def taken(self) -> list[list[list[float]]]:
        """Take what was measured, by row."""
        steps, self.steps = self.steps, []
        return torch.stack(steps, 1).tolist() if steps else []


class _Sound(LogitsProcessor):
    """Refuse logits that are no numbers, and change nothing."""

    def __init__(self, engine: CausalEngine) -> None:
        self._engine = engine

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self._engine.check_finite(finite(scores).all())
        return scores


class _Row:
    """Text of a row so far, decoded a few tokens at a time.

    A step decodes the tokens since the last but one complete text, so its cost does not grow with
    what was written. A character that is not complete yet ("\ufffd") waits for its last token.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.text = ""
        self.ended = False
        self._first = self._shown = 0
        self._known = ""  # the text of ids[_first:_shown]

    def add(self, token: int, tokenizer: Any) -> None:
        """Add a token, and to the text what is complete by it."""
        self.ids.append(token)
        window = tokenizer.decode(self.ids[self._first :], skip_special_tokens=True)
        if window.endswith("\ufffd") or not window.startswith(self._known):
            return
        self.text += window[len(self._known) :]
        self._first, self._shown = self._shown, len(self.ids)
        self._known = tokenizer.decode(self.ids[self._first :], skip_special_tokens=True)


class _Listener(StoppingCriteria):
    """Stop a row at its end or a stop text, or when the listener of a stream has left.

    With `parts` a batch of which half the rows have ended is stopped, to go on without them.
    """

    def __init__(self, engine: CausalEngine, stop: Sequence[str], hear: Hear | None, parts: bool):
        self._engine, self._stop, self._hear, self._parts = engine, stop, hear, parts
        self.rows: list[_Row] = []

    def __call__(self, input_ids: Tensor, scores: object, **_: object) -> Any:
        left = abandoned()
        for row, token in zip(self.rows, input_ids[:, -1].tolist(), strict=True):
            row.ended = row.ended or left or token in self._engine.eos_ids
            if row.ended or not (self._stop or self._hear):
                continue
            row.add(token, self._engine.tokenizer)
            heard = self._hear is not None and self._hear(row.text)
            row.ended = heard or cut_at(row.text, self._stop) != row.text
        ended = [row.ended for row in self.rows]
        stopped = self._parts and 2 * sum(ended) >= len(ended)
        return torch.tensor([stopped or each for each in ended], device=input_ids.device)


@torch.inference_mode()
def generated(
    engine: CausalEngine,
    batch: Sequence[Ids],
    how: Writing,
    *,
    mixing: LogitsProcessor | None = None,
    hear: Hear | None = None,
) -> tuple[list[list[int]], list[list[list[float]]], Writing]:
    """Continue one batch greedily, within the model's input; on the worker only.

    Rows that have ended leave the batch as soon as they are half of it, and the others go on with
    their keys and values; where `mixing` ties rows together they stay. Returns the new ids of each
    row, their facts, none unless they are asked for, and how it was done.
    """
    ids, mask, _ = left_padded(batch, pad_id=engine.pad_id, device=engine.device)
    if engine.limit is not None:
        how = replace(how, tokens=min(how.tokens, engine.limit - ids.shape[1]))
    parts = mixing is None and engine._caches and not engine.options.generation_kwargs
    listener, facts = _Listener(engine, how.stop, hear, parts), _Facts()
    processors = [_Sound(engine), *([mixing] if mixing else []), *([facts] if how.facts else [])]
    written: list[list[int]] = [[] for _ in batch]
    measured: list[list[list[float]]] = [[] for _ in batch]
    rows, end = {at: _Row() for at in range(len(batch))}, ids.shape[1] + how.tokens
    begins = engine.encode([how.begins])[0] if how.begins and parts else []
    past = engine.begun(begins, batch)
    while rows and ids.shape[1] < end:
        listener.rows = list(rows.values())
        out = engine.model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=end - ids.shape[1],
            **({} if past is None else {"past_key_values": past}),
            logits_processor=LogitsProcessorList(processors),
            stopping_criteria=StoppingCriteriaList([listener]),
            return_dict_in_generate=True,
        )
        new = out.sequences[:, ids.shape[1] :]
        for found, more in ((written, new.tolist()), (measured, facts.taken())):
            for at, own in zip(rows, more, strict=False):
                found[at] += own
        going = [place for place, row in enumerate(listener.rows) if not row.ended]
        rows = {at: row for at, row in rows.items() if not row.ended}
        kept = torch.tensor(going, dtype=torch.long, device=ids.device)
        ids, mask = out.sequences[kept], torch.cat([mask, torch.ones_like(new)], 1)[kept]
        if rows and ids.shape[1] < end:
            past = out.past_key_values
            past.batch_select_indices(kept)
    return written, measured, how


def read_row(engine: CausalEngine, ids: list[int], how: Writing) -> tuple[Completion, int]:
    """Cut the output of a row at its end of text or stop text; return its text and tokens."""
    ended = next((i for i, token in enumerate(ids) if token in engine.eos_ids), len(ids))
    decode = partial(engine.tokenizer.decode, skip_special_tokens=True)
    text, count = until_stop(decode, ids[:ended], how.stop)
    return Completion(text.strip(), cut=count if count == how.tokens else None), count


def by_how(
    items: Sequence[tuple[Q, Writing]], run: Callable[[list[Q], Writing], Steps[list[T]]]
) -> Steps[list[T]]:
    """Run items with the same options together; results in the order of the items."""
    found: dict[int, T] = {}
    for how, places in grouped(range(len(items)), lambda at: items[at][1]).items():
        found.update(zip(places, (yield from run([items[i][0] for i in places], how)), strict=True))
    return [found[i] for i in range(len(items))]


def stream_from(
    worker: Worker, write: Callable[[Hear], Steps[list[str]]], stop: Sequence[str]
) -> Iterator[str]:
    """Run `write` on the worker and yield what is new in the text it tells so far.

    What may still turn out to be a stop text, a blank at the end or half a character is held back.
    """
    heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    left = threading.Event()

    def hear(text: str) -> bool:
        heard.put(sure_part(text, stop))
        return left.is_set()

    future = worker.submit(lambda items: write(hear), [None])
    future.add_done_callback(lambda _: heard.put(None))

    def pieces() -> Iterator[str]:
        shown = ""
        try:
            while (text := heard.get()) is not None:
                if text.startswith(shown) and text != shown:
                    yield text[len(shown) :]
                    shown = text
            (whole,) = future.result()
            if whole != shown:
                yield whole[len(shown) :]
        finally:
            left.set()

    return pieces()  # the worker has begun already


def sure_part(text: str, stop: Sequence[str]) -> str:
    """Return the part of a text that nothing written after it can take back."""
    cut = cut_at(text, stop)
    if cut == text:
        cut = text.rstrip("\ufffd")  # half a character
        begun = (mark[:n] for mark in stop for n in range(1, len(mark)))
        held = max((len(start) for start in begun if cut.endswith(start)), default=0)
        cut = cut[: len(cut) - held]
    return cut.strip()
