"""Score sentences from the forward pass that scores their passages.

FIT-RAG's token reducer (section 4.4.2) has the scorer read every window of sentences as a text of
its own, which costs more than twice what reading the passages did. Here a line over seven numbers
judges a span of a passage by what one pass over all of it gives: two labels, and for each token how
well an answer begins and ends there (Karpukhin et al., 2020, section 6.1) and how far it is worth
keeping. The bundled graph and the scorer in torch share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fitrag_integrations.models.encoder.items import (
    ANSWER_TOKENS,
    NOTHING,
    Item,
    Lines,
    chunk_spans,
)
from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.text.spans import Span

Floats: TypeAlias = NDArray[np.float32]
Pool: TypeAlias = Callable[[Sequence[EncodedPair], Sequence[Floats]], Steps[list[Floats]]]
Text: TypeAlias = tuple[str, ...]  # a question alone, or a title and a text
NUMBERS = 7
KEPT_VECTORS = 64_000  # of texts met last, 48 MB in half precision


class Read(NamedTuple):
    """Logits of a chunk, the labels first, and of its tokens, (tokens, 3): start, end and keep."""

    labels: Floats
    tokens: Floats


def sentence_numbers(read: Read, text: NDArray[np.bool_], spans: Sequence[Span]) -> Floats:
    """Measure spans of a chunk's tokens. Shape: (spans, 7).

    Mean and maximum of how far its tokens are worth keeping; a fifth of the best answer in it, and
    of that less the chunk's best; both labels of the chunk; the log of its length over 5. Only
    tokens of the text count; a span without any has finite numbers too.
    """
    start, end, keep = np.where(text, read.tokens.T, -np.inf)
    until = np.maximum.accumulate(later_ends(end), axis=1)  # the best end so far
    first, last = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    sizes = (last - first).clip(min=0)
    full, begins = sizes > 0, sizes.cumsum() - sizes
    which = np.repeat(np.arange(len(sizes)), sizes)
    places = np.arange(len(which)) - begins[which] + first[which]
    room = (last[which] - places).clip(1, ANSWER_TOKENS) - 1
    numbers = np.zeros((len(sizes), NUMBERS), dtype=np.float32)
    counts, own = np.zeros(len(sizes)), np.full(len(sizes), -np.inf)
    if full.any():
        at = begins[full]
        counts[full] = np.add.reduceat(text[places], at, dtype=np.int64)
        own[full] = np.maximum.reduceat(start[places] + until[places, room], at)
        numbers[full, 0] = np.add.reduceat(np.where(text, keep, 0.0)[places], at)
        numbers[full, 1] = np.maximum.reduceat(keep[places], at)
    numbers[:, 0] /= np.maximum(counts, 1)
    numbers[counts == 0, 1] = 0.0
    with np.errstate(invalid="ignore"):  # a chunk without text
        behind = own - (start + until[:, -1]).max()
    numbers[:, 2] = np.maximum(own, NOTHING) / 5
    numbers[:, 3] = np.nan_to_num(np.maximum(behind, NOTHING), nan=0.0) / 5
    numbers[:, 4:6] = read.labels[:2]
    numbers[:, 6] = np.log1p(counts) / 5
    return numbers


def later_ends(end: Floats) -> Floats:
    """Return the scores of the ends that may follow each token. Shape: (tokens, 24)."""
    fill = (0, ANSWER_TOKENS - 1)
    return sliding_window_view(np.pad(end, fill, constant_values=-np.inf), ANSWER_TOKENS)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Unit vectors of a text, in half precision: of its chunks, (chunks, width), and of spans."""

    whole: NDArray[np.float16]
    spans: dict[Span, NDArray[np.float16]]

    def __len__(self) -> int:
        return len(self.whole) + len(self.spans)


class Nearness:
    """Cosines, by the untouched base, of questions with passages and with spans of them.

    A text is read once, without any question: the mean over all its tokens is its vector, the mean
    over a span's own tokens in that pass the span's (late pooling). So a passage costs a pass of
    its own when it is met, and none for later questions. One worker owns it.

    Args:
        tokenizer: The engine's tokenizer.
        length: Tokens the base reads at once.
        read: Runs the base over chunks, each with weights of shape (rows, tokens), and returns for
            each the product of its weights and states. Shape: (rows, width).
    """

    def __init__(self, tokenizer: PairTokenizer, length: int, read: Pool) -> None:
        self._tokenizer, self._length, self._read = tokenizer, length, read
        self._kept: dict[Text, Vectors] = {}  # the oldest first
        self._count = 0

    def of(self, items: Sequence[Item]) -> Steps[list[Floats]]:
        """Return for each item the cosine of its passage, and then of its spans."""
        wanted: dict[Text, dict[Span, None]] = {}
        for question, passage, spans in items:
            wanted.setdefault((question,), {})
            wanted.setdefault((passage.title, passage.text), {}).update(dict.fromkeys(spans))
        found = yield from self._vectors(wanted)
        cosines = []
        for question, passage, spans in items:
            asked = found[question,].whole[0].astype(np.float32)
            own = found[passage.title, passage.text]
            near = np.stack([*own.whole, *(own.spans[span] for span in spans)]) @ asked
            chunks = len(own.whole)
            cosines.append(np.concatenate([near[:chunks].max(keepdims=True), near[chunks:]]))
        return cosines

    def _vectors(self, wanted: Mapping[Text, Mapping[Span, None]]) -> Steps[dict[Text, Vectors]]:
        kept = {key: self._kept[key] for key in wanted if key in self._kept}
        new = [
            key
            for key, spans in wanted.items()
            if key not in kept or not spans.keys() <= kept[key].spans.keys()
        ]
        spans = [[*wanted[key], *(kept[key].spans if key in kept else ())] for key in new]
        groups = self._tokenizer.alone(new, self._length)
        placed = [chunk_spans(group, own) for group, own in zip(groups, spans, strict=True)]
        flat = [chunk for group in groups for chunk in group]
        weights = [
            averages(len(chunk), ranges)
            for group, own in zip(groups, placed, strict=True)
            for chunk, (_, ranges) in zip(group, own, strict=True)
        ]
        pooled = iter((yield from self._read(flat, weights)))
        for key, own, at in zip(new, spans, placed, strict=True):
            whole, parts = [], dict[Span, NDArray[np.float16]]()
            for which, _ in at:
                rows = next(pooled)
                norms = np.linalg.norm(rows, axis=1, keepdims=True)
                first, *others = (rows / np.maximum(norms, 1e-12)).astype(np.float16)
                whole.append(first)
                parts.update(zip((own[i] for i in which), others, strict=True))
            kept[key] = Vectors(np.stack(whole), parts)
        for key, vectors in kept.items():  # the last used at the end
            self._count += len(vectors) - len(self._kept.pop(key, ()))
            self._kept[key] = vectors
        while self._count > KEPT_VECTORS:
            self._count -= len(self._kept.pop(next(iter(self._kept))))
        return kept


def cosines(engine: Any, lines: Lines, items: Sequence[Item]) -> Steps[list[Floats]]:
    """Return the cosines of items, as `Nearness.of` does; zeros if no line reads them."""
    if lines.compare:
        return cast(list[Floats], (yield from engine.nearness.of(items)))
    return [np.zeros(1 + len(spans), np.float32) for *_, spans in items]


def averages(tokens: int, spans: Sequence[Span]) -> Floats:
    """Return weights that average all tokens, then those of each span: (1 + spans, tokens)."""
    made = np.zeros((1 + len(spans), tokens), np.float32)
    made[0] = 1 / tokens
    for row, (first, end) in zip(made[1:], spans, strict=True):
        row[first:end] = 1 / max(1, end - first)
    return made
