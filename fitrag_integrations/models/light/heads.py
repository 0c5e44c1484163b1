"""The heads of the embedded models over numpy, as `encoder.heads` and `scorer.spans` in torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair
from fitrag_integrations.models.scorer.items import Range

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]
FURTHEST = 20.0  # where the best span's score is cut off
ANSWER_TOKENS = 24
NOTHING = -20.0  # where a score or a logarithm is cut off, and what a span without tokens has
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


def span_logits(
    weights: Weights,
    states: Floats,
    chunk: EncodedPair,
    ranges: Sequence[Range],
    rarity: Floats,
    whole: Floats,
) -> Floats:
    """Judge the spans of one chunk; its first state is the passage's vector.

    Shapes: states (tokens, width), rarity (vocabulary,), whole (2,), the passage's calibrated
    logits; gives (spans, 2).
    """
    means, numbers = evidence(linear(weights, "answers", states), states, chunk, ranges, rarity)
    wholes = np.broadcast_to(whole, (len(ranges), 2))
    features = np.concatenate([numbers, wholes], axis=1)
    if "line.weight" in weights:
        return linear(weights, "line", features)
    alike = (features - weights["shift"]) * weights["scale"]
    mixed = linear(weights, "mixed", np.tanh(linear(weights, "units", alike)))
    pooled = linear(weights, "pooled", states[:1])
    return wholes + linear(weights, "means", means) + pooled + mixed


def evidence(
    answers: Floats, states: Floats, chunk: EncodedPair, ranges: Sequence[Range], rarity: Floats
) -> tuple[Floats, Floats]:
    """Measure spans: the means of their states, (spans, width), and numbers, (spans, 12 or 14)."""
    ids, segments, starts = chunk.tokens[0], chunk.tokens[2], chunk.tokens[3]
    text = starts >= 0
    bounds = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    places = np.arange(len(chunk))
    inside = (places >= bounds[:, :1]) & (places < bounds[:, 1:]) & text
    counts = inside.sum(1)
    means = inside.astype(np.float32) @ states / np.maximum(counts, 1)[:, None]
    asked = segments == 1
    unit = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-12)
    weights = rarity[ids[asked]]
    found = [
        number
        for values in (unit[asked] @ unit.T, (ids[asked][:, None] == ids).astype(np.float32))
        for number in _shares(values, inside, weights)
    ]
    numbers = [
        *found,
        *_answered(answers, inside, text, bounds),
        np.log1p(counts) / 5,
        counts / max(1, text.sum()),
        bounds[:, 0] / len(chunk),
        bounds[:, 1] / len(chunk),
        *(_kept(answers[:, 2], inside) if answers.shape[1] > 2 else ()),
    ]
    return means.astype(np.float32), np.stack(numbers, axis=1).astype(np.float32)


def _shares(values: Floats, inside: Inside, weights: Floats) -> tuple[Floats, Floats]:
    """Return what of the question's tokens finds a like one in each span, by rarity and plain."""
    each = np.where(inside[:, None, :], values, -1.0).max(2, initial=-1.0).clip(min=0.0)
    by_rarity = each @ weights / max(float(weights.sum()), 1e-6)
    return by_rarity, each.sum(1) / max(1, len(weights))


def _answered(
    answers: Floats, inside: Inside, text: Inside, bounds: NDArray[np.int64]
) -> tuple[Floats, ...]:
    """Return the best answer's score, that less the passage's best, and the shares of both ends."""
    start, end = (np.where(text, answers[:, i], -np.inf) for i in (0, 1))
    until = np.maximum.accumulate(later_ends(end), axis=1)  # (tokens, 24): best end so far
    room = (bounds[:, 1:] - np.arange(len(start))).clip(1, until.shape[1]) - 1
    scores = start + until[np.arange(len(start)), room]
    best = np.where(inside, scores, -np.inf).max(1)
    most = (start + until[:, -1]).max()
    with np.errstate(invalid="ignore"):
        behind = np.nan_to_num(np.maximum(best - most, NOTHING), nan=0.0)
        shares = [_share(side, inside) for side in (start, end)]
    return np.maximum(best, NOTHING), behind, *shares


def _kept(keep: Floats, inside: Inside) -> tuple[Floats, Floats]:
    mean = inside.astype(np.float32) @ keep / np.maximum(inside.sum(1), 1)
    most = np.where(inside, keep, -np.inf).max(1)
    return mean, np.where(inside.any(1), most, 0.0)


def _share(side: Floats, inside: Inside) -> Floats:
    """Return the logarithm of the share of a softmax that lies inside each span."""
    peak = side.max()
    if not np.isfinite(peak):
        return np.full(len(inside), NOTHING, dtype=np.float32)
    masses = np.exp(side - peak)
    with np.errstate(divide="ignore"):
        found: Floats = np.log(inside @ masses) - np.log(masses.sum())
    return np.maximum(found, NOTHING)
