"""The heads of the embedded models over numpy: what `encoder.heads` and its likes do in torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fitrag_integrations.models.encoder.pairs import Batch

Floats = NDArray[np.float32]
Weights = Mapping[str, Floats]
FURTHEST = 20.0  # where the best span's score is cut off
ANSWER_TOKENS = 24


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
