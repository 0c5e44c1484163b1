"""The public methods of each kind of model, sync and async, whatever runs it.

The models over PyTorch and those that ship without it inherit these calls; a kind implements the
task behind each, which runs on its worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fitrag_integrations.core.record import Record
from fitrag_integrations.models.encoder.items import (
    Correction,
    Item,
    Lines,
    checked_items,
    placed_spans,
)
from fitrag_integrations.models.encoder.pairs import EncodedPair, Pair, checked_pairs
from fitrag_integrations.models.encoder.sentences import (
    Floats,
    Read,
    cosines,
    sentence_numbers,
)
from fitrag_integrations.models.runtime.batching import blockwise, in_groups
from fitrag_integrations.models.runtime.saved import Bundled
from fitrag_integrations.models.runtime.worker import Steps, Task
from fitrag_integrations.types import BiLabelScore, Passage
from fitrag_integrations.values.score import sigmoid

Judged: TypeAlias = tuple[BiLabelScore, list[BiLabelScore]]


class PairScorer(Bundled):
    """Scorer of (question, passage) pairs."""

    _score: Task[Pair, BiLabelScore]
    _lines, _correction = Lines(), Correction()

    def answerable(self, labels: Sequence[BiLabelScore]) -> float | None:
        """Return the probability that some passage of a list answers its question.

        Args:
            labels: What `score` returned for the passages.

        Returns:
            A number in [0, 1]; None without passages, or if the scorer was not calibrated for it.
        """
        plain = [
            (one.has_answer_logit - self._correction.shift) / self._correction.slope
            for one in labels
            if one.has_answer_logit is not None
        ]
        return self._lines.answerable(plain)

    def score(
        self, pairs: Sequence[Pair], *, show_progress: bool | None = False
    ) -> list[BiLabelScore]:
        """Score pairs of question and passage.

        Args:
            pairs: Pairs of a question and a `Passage`.
            show_progress: Draw a bar. None draws it on a terminal.

        Returns:
            The labels of each pair, in order; probabilities in [0, 1].

        Raises:
            InputError: Naming the first pair that is not a question and a passage with text.
        """
        return self._call(self._score, checked_pairs(pairs), show_progress)

    async def ascore(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        """Async version of `score`."""
        return await self._acall(self._score, checked_pairs(pairs))


class SentenceScorer(PairScorer):
    """Scorer that scores sentences of its passages as well, in the same forward pass."""

    _judge: Task[Item, Judged]

    def score_sentences(self, items: Sequence[Item]) -> list[Judged]:
        """Score passages and spans of them.

        Args:
            items: Tuples of a question, a passage and its spans, [start, end) in the text.

        Returns:
            For each item the label that `score` gives its passage, and a label for each span.

        Raises:
            InputError: If an item is not such a tuple, or a span is empty or outside the text.
        """
        return self._call(self._judge, checked_items(items))

    async def ascore_sentences(self, items: Sequence[Item]) -> list[Judged]:
        """Async version of `score_sentences`."""
        return await self._acall(self._judge, checked_items(items))


class ChunkScorer(PairScorer):
    """Scorer of passages by the labels of their chunks, whatever runs the encoder.

    `_labelled` reads the labels of chunks on the worker; a passage takes its best chunk's.
    """

    _labelled: Callable[[Sequence[EncodedPair]], Steps[list[Read]]]
    _lines: Lines
    _correction: Correction
    _temperatures: tuple[float, float] = (1.0, 1.0)  # divisors of both labels

    @blockwise
    def _score(self, pairs: Sequence[Pair]) -> Steps[list[BiLabelScore]]:
        read = yield from in_groups(self._engine.tokenizer.encode(pairs), self._labelled)
        near = yield from cosines(self._engine, self._lines, [(*pair, ()) for pair in pairs])
        return [
            self._labels(pair, chunks, float(cosine))
            for pair, chunks, (cosine,) in zip(pairs, read, near, strict=True)
        ]

    def _labels(self, pair: Pair, chunks: Sequence[Read], cosine: float) -> BiLabelScore:
        best = np.max([read.labels[:2] for read in chunks], axis=0).tolist()
        has, prefer = (each / by for each, by in zip(best, self._temperatures, strict=True))
        return self._correction.labels(*self._lines.passage(pair[1].text, has, prefer, cosine))


class ChunkSentenceScorer(SentenceScorer, ChunkScorer):
    """Scorer that judges sentences by what the pass over their passages gives.

    `_marked` reads the labels of chunks, and the scores of their tokens; `_line` has the weights of
    the seven numbers, and a bias, shape (8,).
    """

    _marked: Callable[[Sequence[EncodedPair]], Steps[list[Read]]]
    _line: Floats

    @blockwise
    def _judge(self, items: Sequence[Item]) -> Steps[list[Judged]]:
        placed, chunks, wanted = placed_spans(self._engine.tokenizer, items)
        read = yield from self._marked(chunks)
        near = yield from cosines(self._engine, self._lines, items)
        results, judged = zip(chunks, read, strict=True), []
        for own, (question, passage, spans), numbers in zip(placed, items, near, strict=True):
            mine, best = [], np.full(len(spans), -np.inf, dtype=np.float32)
            for which, _ in own:
                chunk, one = next(results)
                measured = sentence_numbers(one, chunk.tokens[3] >= 0, wanted[id(chunk)])
                mine.append(one)
                best[which] = np.maximum(best[which], measured @ self._line[:-1] + self._line[-1])
            logits = self._lines.spans(passage.text, best, numbers[1:]).tolist()
            whole = self._labels((question, passage), mine, float(numbers[0]))
            judged.append((whole, [self._correction.labels(logit) for logit in logits]))
        return judged


@dataclass(frozen=True, slots=True)
class Answer(Record):
    """Answer of a reader such as that of Karpukhin et al. (2020): a span of a passage.

    Args:
        text: `passage.text[start:end]`.
        start: Offset of the first character.
        end: Offset after the last character.
        score: Probability in [0, 1] that the passage answers the question.
    """

    text: str
    start: int
    end: int
    score: float


Found: TypeAlias = tuple[float, int, int]  # the reader's score of a chunk, and its best span


def found_in(chunk: EncodedPair, select: float, first: int, last: int) -> Found:
    """Return the place of a chunk's tokens, its best span's first and last."""
    start, end = int(chunk.tokens[3, first]), int(chunk.tokens[4, min(last, len(chunk) - 1)])
    known = start >= 0 and end >= 0  # else the tokenizer knows no character of this text
    return (select, start, end) if known else (select, 0, 0)


def answer_of(passage: Passage, chunks: Sequence[Found]) -> Answer:
    """Return the best span of the chunk that the reader selects."""
    select, start, end = max(chunks, key=lambda found: found[0])
    if not end:  # the first word
        start = len(passage.text) - len(passage.text.lstrip())
        end = start + len(passage.text.split(maxsplit=1)[0])
    return Answer(passage.text[start:end], start, end, sigmoid(select))


class PairReader(Bundled):
    """Reader that extracts answers from passages."""

    _read: Task[Pair, Answer]

    def read(self, pairs: Sequence[Pair], *, show_progress: bool | None = False) -> list[Answer]:
        """Return the best answer of each pair, in order.

        Args:
            pairs: Questions and passages.
            show_progress: Whether to draw a progress bar; None draws one on a terminal.

        Returns:
            Answers of at most 24 tokens, whose text is never empty.

        Raises:
            InputError: If a pair is not a question and a passage with text.
        """
        return self._call(self._read, checked_pairs(pairs), show_progress)

    async def aread(self, pairs: Sequence[Pair]) -> list[Answer]:
        """Async version of `read`."""
        return await self._acall(self._read, checked_pairs(pairs))


class PairGrader(Bundled):
    """Evaluator of pairs, in [-1, 1]."""

    _grades: Task[Pair, float]

    def evaluate(self, pairs: Sequence[Pair], *, show_progress: bool | None = False) -> list[float]:
        """Return the grade of each pair, in [-1, 1], in order.

        Args:
            pairs: Questions and passages.
            show_progress: Whether to draw a progress bar; None draws one on a terminal.

        Raises:
            InputError: If a pair is not a question and a passage with text.
        """
        return self._call(self._grades, checked_pairs(pairs), show_progress)

    async def aevaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Async version of `evaluate`, in [-1, 1]."""
        return await self._acall(self._grades, checked_pairs(pairs))
