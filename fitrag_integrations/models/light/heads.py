"""The heads of the embedded models over numpy, as `encoder.heads` and `scorer.spans` in torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fitrag_integrations.models.encoder.items import ANSWER_TOKENS, NOTHING, Range
from fitrag_integrations.models.encoder.pairs import Batch, moved_left

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]
Inside = NDArray[np.bool_]


def linear(weights: Weights, name: str, inputs: Floats) -> Floats:
    """Run a layer; one without a bias adds none."""
    found: Floats = inputs @ weights[f"{name}.weight"].T
    return found + weights.get(f"{name}.bias", np.float32(0))


def best_spans(logits: Floats, batch: Batch) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Find the best span of at most 24 tokens in each row's text: score, first and last token.

    Shapes: (batch, tokens, 2); each (batch,). A row without text scores -inf.
    """
    start, end = (np.where(batch.placed, logits[..., i], -np.inf) for i in (0, 1))
    scores = start[..., None] + later_ends(end)
    flat = scores.reshape(len(scores), -1)
    best = flat.argmax(1)
    first, further = np.divmod(best, ANSWER_TOKENS)
    return flat[np.arange(len(flat)), best], first, first + further


def later_ends(end: Floats) -> Floats:
    """Return the scores of the ends that may follow each token. Shape: (..., tokens, 24)."""
    fill = [(0, 0)] * (end.ndim - 1) + [(0, ANSWER_TOKENS - 1)]
    padded = np.pad(end, fill, constant_values=-np.inf)
    return sliding_window_view(padded, ANSWER_TOKENS, axis=-1)


def bilabel(weights: Weights, pooled: Floats, clues: Floats, span: Floats) -> Floats:
    """Return the logits of `has_answer` and `llm_prefer`, shape (batch, 2); see `BiLabelHead`."""
    features = np.concatenate([clues, span[:, None]], axis=1)
    alike = (features - weights["shift"]) * weights["scale"]
    mixed = linear(weights, "mixed", np.tanh(linear(weights, "units", alike)))
    return linear(weights, "out", pooled) + mixed


def grade(weights: Weights, pooled: Floats, clues: Floats, span: Floats) -> Floats:
    """Return the evaluator's logits, shape (batch,); see `EvaluatorHead`."""
    alike = (clues - weights["shift"]) * weights["scale"]
    both = np.concatenate([alike, span[:, None] / 5], axis=1)
    mixed = linear(weights, "mixed", np.tanh(linear(weights, "hidden", both)))
    found: Floats = (linear(weights, "out", pooled) + mixed)[:, 0]
    return found


def extra_logits(weights: Weights, clues: Floats, span: Floats) -> Floats:
    """Return what the clues add to a reader's select logits, shape (batch,); see `ReaderHead`."""
    features = np.concatenate([clues, span[:, None]], axis=1)
    mixed = linear(weights, "mixed", np.tanh(linear(weights, "units", features)))
    found: Floats = (linear(weights, "line", features) + mixed)[:, 0]
    return found


class Spans:
    """Spans of a batch, `ranges[i]` those of its chunk i, as stretches of all its tokens in a row.

    Attributes:
        rows: Chunk of each span.
        bounds: Its first token and the one after its last, in the chunk. Shape: (spans, 2).
        counts: Its tokens that are the passage's text.
    """

    def __init__(self, batch: Batch, ranges: Sequence[Sequence[Range]]) -> None:
        self.rows = np.repeat(np.arange(len(ranges)), list(map(len, ranges)))
        given = [span for each in ranges for span in each]
        self.bounds = np.array(given, dtype=np.int64).reshape(-1, 2)
        self._text = batch.placed.reshape(-1, 1)
        self._stretches = (self.bounds + batch.tokens.shape[2] * self.rows[:, None]).ravel()
        self.counts = self.over(np.add, np.ones(batch.placed.shape, np.float32), 0.0)[:, 0]

    def over(self, reduce: np.ufunc, values: Floats, fill: float) -> Floats:
        """Reduce the values of each span's tokens of the text; of none, and elsewhere, `fill`.

        Shapes: (batch, tokens, ...); (spans, ...), the rest flat.
        """
        flat = np.where(self._text, values.reshape(len(self._text), -1), np.float32(fill))
        ended = np.concatenate([flat, flat[:1]])  # a stretch may end with the last token
        found = reduce.reduceat(ended, self._stretches)[::2] if len(self.rows) else ended[:0]
        found[self.bounds[:, 0] >= self.bounds[:, 1]] = fill
        return cast(Floats, found)


def span_logits(
    weights: Weights, states: Floats, batch: Batch, spans: Spans, rarity: Floats, wholes: Floats
) -> Floats:
    """Judge the spans of a batch; see `SpanHead` and `LineHead`.

    Shapes: states (batch, tokens, width), rarity (vocabulary,), wholes (batch, 2), the calibrated
    logits of each chunk; gives (spans, 2).
    """
    own = wholes[spans.rows]
    numbers = evidence(linear(weights, "answers", states), states, batch, spans, rarity)
    features = np.concatenate([numbers, own], axis=1).astype(np.float32)
    if "line.weight" in weights:
        return linear(weights, "line", features)
    alike = (features - weights["shift"]) * weights["scale"]
    mixed = linear(weights, "mixed", np.tanh(linear(weights, "units", alike)))
    sums = spans.over(np.add, states, 0.0)
    means: Floats = (sums / np.maximum(spans.counts, 1)[:, None]).astype(np.float32)
    pooled = linear(weights, "pooled", states[spans.rows, 0])
    found: Floats = own + linear(weights, "means", means) + pooled + mixed
    return found


def evidence(answers: Floats, states: Floats, batch: Batch, spans: Spans, rarity: Floats) -> Floats:
    """Measure spans. Shape: (spans, 12), or 14 where a third column of `answers` says how far a
    token is worth keeping.
    """
    rows, counts, text = spans.rows, spans.counts, batch.placed
    numbers = [
        *_found(states, batch, spans, rarity),
        *_answered(answers, text, spans),
        np.log1p(counts) / 5,
        counts / np.maximum(1, text.sum(1))[rows],
        *(spans.bounds / batch.lengths[rows, None]).T,
    ]
    if answers.shape[2] > 2:
        most = spans.over(np.maximum, answers[..., 2], -np.inf)[:, 0]
        mean = spans.over(np.add, answers[..., 2], 0.0)[:, 0] / np.maximum(counts, 1)
        numbers += [mean, np.where(counts > 0, most, 0.0)]
    return np.stack(numbers, axis=1)


def _found(states: Floats, batch: Batch, spans: Spans, rarity: Floats) -> Iterator[Floats]:
    """Yield what of the question's tokens finds a like one in each span, by rarity and plain."""
    rows = spans.rows
    mine = batch.tokens[2] == 1
    everywhere = np.broadcast_to(np.arange(mine.shape[1], dtype=np.int32), mine.shape)
    places = moved_left(everywhere, mine, fill=-1)
    asked, chunks = places >= 0, np.arange(len(places))[:, None]
    ids = batch.tokens[0]
    weights = rarity[ids[chunks, places]] * asked
    unit = states / np.maximum(np.linalg.norm(states, axis=2, keepdims=True), 1e-12)
    near = unit @ unit[chunks, places].transpose(0, 2, 1)
    same = (ids[:, :, None] == ids[chunks, places][:, None]).astype(np.float32)
    for values in (near, same):
        best = spans.over(np.maximum, values, -1.0).clip(min=0.0) * asked[rows]
        yield (best * weights[rows]).sum(1) / np.maximum(weights.sum(1), 1e-6)[rows]
        yield best.sum(1) / np.maximum(1, asked.sum(1))[rows]


def _answered(answers: Floats, text: Inside, spans: Spans) -> Iterator[Floats]:
    """Yield the best answer's score, that less the passage's best, and the shares of both ends."""
    rows, bounds = spans.rows, spans.bounds
    start, end = (np.where(text, answers[..., i], -np.inf) for i in (0, 1))
    until = np.maximum.accumulate(later_ends(end), axis=2)  # (batch, tokens, 24): best end so far
    sizes = (bounds[:, 1] - bounds[:, 0]).clip(min=0)
    firsts = sizes.cumsum() - sizes
    which = np.repeat(np.arange(len(rows)), sizes)
    places = np.arange(len(which)) - firsts[which] + bounds[which, 0]
    room = (bounds[which, 1] - places).clip(1, ANSWER_TOKENS) - 1
    scores = start[rows[which], places] + until[rows[which], places, room]
    best = np.full(len(rows), -np.inf, dtype=np.float32)
    if len(scores):
        best[sizes > 0] = np.maximum.reduceat(scores, firsts[sizes > 0])
    most = (start + until[..., -1]).max(1)[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        yield np.maximum(best, NOTHING)
        yield np.nan_to_num(np.maximum(best - most, NOTHING), nan=0.0)
        for side in (start, end):
            masses = np.exp(side - side.max(1, keepdims=True))
            share = np.log(spans.over(np.add, masses, 0.0)[:, 0]) - np.log(masses.sum(1))[rows]
            yield np.maximum(np.nan_to_num(share, nan=NOTHING), NOTHING)
