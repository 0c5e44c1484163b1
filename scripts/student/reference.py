"""The student without torch: tokenizers, numpy and onnxruntime, from text to every decision.

    from reference import Student
    student = Student("FOLDER")
    judged = student.judge([("who wrote Emma", "Emma (novel)", "Emma is a novel by Jane Austen.")])

FOLDER holds `student.onnx`, `tokenizer.json` and `student.json` (what was fitted after training).

The graph. Inputs, int64, shape (batch, tokens): `input_ids` and `token_type_ids` of
`[CLS] question [SEP] title. text [SEP]`, `attention_mask`, and `text_mask`, 1 for the tokens of the
text (not of the title). Outputs, float32: `labels` (batch, 4), the logits of has_answer,
llm_prefer, grade and answered; `tokens` (batch, tokens, 3), start, end and keep.

Afterwards. `has_answer` and `llm_prefer` are a logit's `slope * logit + shift`; the grade is
`tanh(logit / 2)` of such a one; `answered` is a line over all four and the answer's score. The
answer is the best start + end of at most 24 tokens in the text. A sentence is judged by a line over
seven numbers (`sentence_numbers`). Of a text longer than 384 tokens, read in chunks with 64 tokens
in common, labels are the best chunk's, the answer is that of the chunk with the highest `answered`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fitrag_integrations.text.question import asked_of

LENGTH, QUESTION, OVERLAP, ANSWER = 384, 128, 64, 24
BATCH_TOKENS = 2048
LABELS = ("has_answer", "llm_prefer", "grade", "answered")
Span = tuple[int, int]
Split = Callable[[str], Sequence[Span]]
_SURROGATES = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Hold one input of the graph; `places` are characters of the text, None outside it."""

    ids: list[int]
    types: list[int]
    places: list[Span | None]


@dataclass(frozen=True, slots=True)
class Judged:
    """Hold all that one pass says of a passage.

    `has_answer`, `llm_prefer` and `answered` are calibrated logits, `grade` is in [-1, 1], `score`
    the probability that the passage answers the question, `span` the answer's start + end logit,
    above 0 where the reader finds any. `sentences` are ((start, end), logit).
    """

    has_answer: float
    llm_prefer: float
    grade: float
    answered: float
    span: float
    answer: str
    start: int
    end: int
    sentences: list[tuple[Span, float]] = field(default_factory=list)

    @property
    def score(self) -> float:
        """Give the probability that the passage answers the question."""
        return sigmoid(self.answered)


class Student:
    """Run the graph and read its output."""

    def __init__(
        self, folder: str | Path, *, threads: int = 1, graph: str = "student.onnx"
    ) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        folder = Path(folder)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(
            str(folder / graph), options, providers=["CPUExecutionProvider"]
        )
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.fitted: dict[str, Any] = json.loads((folder / "student.json").read_text())

    def judge(
        self, pairs: Sequence[tuple[str, str, str]], split: Split | None = None
    ) -> list[Judged]:
        """Judge (question, title, text) triples, in the order given."""
        groups = [*self.encode(pairs)]
        chunks = [chunk for group in groups for chunk in group]
        found = iter(self.run(chunks))
        return [
            self._judged(text, group, [next(found) for _ in group], split)
            for (_, _, text), group in zip(pairs, groups, strict=True)
        ]

    def encode(self, pairs: Sequence[tuple[str, str, str]]) -> Iterator[list[Chunk]]:
        """Encode each pair as one chunk, or as several that overlap."""
        given = [(self._question(q), clean(f"{t}. ") if t else "", clean(x)) for q, t, x in pairs]
        encoded = self.tokenizer.encode_batch([(q, t + x) for q, t, x in given])
        for (_, title, text), one in zip(given, encoded, strict=True):
            spans = zip(one.offsets, one.sequence_ids, strict=True)
            places = [
                place(text, a - len(title), b - len(title)) if s == 1 else None
                for (a, b), s in spans
            ]
            yield chunked(Chunk(one.ids, one.type_ids, places))

    def _question(self, question: str) -> str:
        question = asked_of(clean(question))  # as the package reads one that tells a story first
        if len(question) <= QUESTION:
            return question
        offsets = self.tokenizer.encode(question, add_special_tokens=False).offsets
        return question if len(offsets) <= QUESTION else question[: offsets[QUESTION - 1][1]]

    def run(self, chunks: Sequence[Chunk]) -> list[tuple[Any, Any]]:
        """Run the graph over chunks of like length together. Gives labels and token scores."""
        order = sorted(range(len(chunks)), key=lambda i: len(chunks[i].ids))
        made: list[Any] = [None] * len(chunks)
        while order:
            count = max(1, BATCH_TOKENS // len(chunks[order[0]].ids))
            width = max(len(chunks[i].ids) for i in order[:count])
            while count > 1 and count * width > BATCH_TOKENS:
                count -= 1
                width = max(len(chunks[i].ids) for i in order[:count])
            some, order = order[:count], order[count:]
            given = {
                name: np.zeros((count, width), np.int64)
                for name in ("input_ids", "attention_mask", "token_type_ids", "text_mask")
            }
            for row, i in enumerate(some):
                size = len(chunks[i].ids)
                given["input_ids"][row, :size] = chunks[i].ids
                given["attention_mask"][row, :size] = 1
                given["token_type_ids"][row, :size] = chunks[i].types
                given["text_mask"][row, :size] = [p is not None for p in chunks[i].places]
            labels, tokens = self.session.run(["labels", "tokens"], given)
            for row, i in enumerate(some):
                made[i] = (labels[row], tokens[row, : len(chunks[i].ids)])
        return made

    def _judged(
        self, text: str, chunks: list[Chunk], found: list[tuple[Any, Any]], split: Split | None
    ) -> Judged:
        lines = self.fitted["labels"]
        logits = np.array(
            [
                [
                    lines[name][0] * x + lines[name][1]
                    for name, x in zip(LABELS, labels, strict=True)
                ]
                for labels, _ in found
            ]
        )
        has, prefer, grade, answered = logits.max(0).tolist()
        read = int(logits[:, 3].argmax())
        span, start, end = best_answer(chunks[read], found[read][1], text)
        weights = self.fitted.get("answered")
        if weights:
            numbers = [has, prefer, grade, answered, max(-20.0, min(20.0, span)) / 2]
            answered = float(np.dot(weights[:-1], numbers) + weights[-1])
        sentences = []
        for a, b in split(text) if split else ():
            each = [
                self._sentence(c, t, own, (a, b))
                for c, (_, t), own in zip(chunks, found, logits, strict=True)
            ]
            sentences.append(((a, b), max(each)[1]))
        return Judged(
            has,
            prefer,
            math.tanh(grade / 2),
            answered,
            span,
            text[start:end],
            start,
            end,
            sentences,
        )

    def _sentence(self, chunk: Chunk, tokens: Any, logits: Any, span: Span) -> tuple[int, float]:
        """Judge a sentence in a chunk; gives how many of its tokens are there, and a logit."""
        numbers = sentence_numbers(chunk, tokens, logits, span)
        if numbers is None:
            return 0, -20.0
        count, values = numbers
        weights = self.fitted["sentence"]
        return count, float(np.dot(weights[:-1], values) + weights[-1])


def sentence_numbers(chunk: Chunk, tokens: Any, logits: Any, span: Span) -> tuple[int, Any] | None:
    """Measure a sentence in a chunk: mean, most of `keep`; its best answer, alone and less the
    passage's; the passage's labels; the log of its length.
    """
    inside = [i for i, p in enumerate(chunk.places) if p and p[0] < span[1] and p[1] > span[0]]
    if not inside:
        return None
    every = [i for i, p in enumerate(chunk.places) if p]
    own = best_span(tokens[inside[0] : inside[-1] + 1])[0]
    best = best_span(tokens[every[0] : every[-1] + 1])[0]
    keep = tokens[inside, 2]
    own, best = max(own, -20.0), max(best, -20.0)
    values = [
        keep.mean(),
        keep.max(),
        own / 5,
        (own - best) / 5,
        logits[0],
        logits[1],
        math.log1p(len(inside)) / 5,
    ]
    return len(inside), np.array(values, np.float64)


def best_answer(chunk: Chunk, tokens: Any, text: str) -> tuple[float, int, int]:
    """Find the answer's characters in a chunk; the first word where no token is of the text."""
    every = [i for i, p in enumerate(chunk.places) if p]
    if not every:
        start = len(text) - len(text.lstrip())
        return -20.0, start, start + len(text[start:].split(maxsplit=1)[0])
    out = np.full(len(tokens), -1e4, np.float32)
    out[every] = 0
    score, first, last = best_span(tokens[:, :2] + out[:, None])
    a, b = chunk.places[first], chunk.places[last]
    assert a is not None and b is not None
    return score, a[0], b[1]


def best_span(tokens: Any) -> tuple[float, int, int]:
    """Give score, first and last token of the best span of at most 24 tokens."""
    start, end = (
        tokens[:, 0],
        np.concatenate([tokens[:, 1], np.full(ANSWER - 1, -np.inf, np.float32)]),
    )
    windows = np.lib.stride_tricks.sliding_window_view(end, ANSWER)
    far = windows.argmax(1)
    scores = start + windows[np.arange(len(start)), far]
    first = int(scores.argmax())
    return float(scores[first]), first, first + int(far[first])


def chunked(whole: Chunk) -> list[Chunk]:
    """Cut what is longer than the model's input; each chunk has the question and the title."""
    if len(whole.ids) <= LENGTH:
        return [whole]
    inside = [i for i, p in enumerate(whole.places) if p]
    if not inside:
        return [_take(whole, [*range(LENGTH - 1), len(whole.ids) - 1])]
    after = range(inside[-1] + 1, len(whole.ids))
    before = range(min(inside[0], LENGTH - len(after) - 2 * OVERLAP))
    room = LENGTH - len(before) - len(after)
    found, at = [], 0
    while at + room < len(inside):
        found.append(inside[at : at + room])
        at += room - OVERLAP
    return [_take(whole, [*before, *some, *after]) for some in [*found, inside[at:]]]


def _take(whole: Chunk, places: Sequence[int]) -> Chunk:
    return Chunk(
        [whole.ids[i] for i in places],
        [whole.types[i] for i in places],
        [whole.places[i] for i in places],
    )


def place(text: str, start: int, end: int) -> Span | None:
    """Leave out the title, and the blanks that byte-level tokens begin with."""
    start = max(start, 0)
    piece = text[start : max(end, 0)]
    start += len(piece) - len(piece.lstrip())
    return (start, end) if start < end else None


def clean(text: str) -> str:
    """Replace lone surrogates, which no tokenizer takes."""
    return _SURROGATES.sub("\ufffd", text)


def sigmoid(x: float) -> float:
    """Bring a logit to a probability."""
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, x))))
