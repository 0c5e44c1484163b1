"""Turn (question, passage) pairs into token ids, keeping each token's place in the passage.

A pair is `question [SEP] title. text`. A passage longer than the model's input is read in
overlapping chunks, each with the question and the title; nothing is cut off silently.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.types import Passage

Pair = tuple[str, Passage]
QUESTION_TOKENS = 128
OVERLAP_TOKENS = 64


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """Hold one model input.

    All lists are of the same length. `segments[i]` is 0 for a separator, 1 for a token of the
    question, 2 for one of the passage or its title; `types` is what the model is given.
    `offsets[i]` is the (start, end) of token i in the passage's text, or None for tokens of the
    question, the title and the separators.
    """

    ids: list[int]
    types: list[int]
    segments: list[int]
    offsets: list[tuple[int, int] | None]

    def __len__(self) -> int:
        return len(self.ids)


class PairTokenizer:
    """Encode pairs with a fast Hugging Face tokenizer. Not thread-safe: one worker owns it."""

    def __init__(self, tokenizer: Any, *, max_length: int = 384) -> None:
        self._tokenizer = tokenizer
        self.max_length = max_length
        self.pad_id: int = tokenizer.pad_token_id or 0

    def encode(self, pairs: Sequence[Pair]) -> list[list[EncodedPair]]:
        """Encode each pair as one or more chunks, in text order."""
        whole = self._encode([(self._question(q), _title(p), p.text, 0) for q, p in pairs])
        return [
            [one] if len(one) <= self.max_length else self._chunks(pair, one)
            for pair, one in zip(pairs, whole, strict=True)
        ]

    @property
    def vocabulary(self) -> int:
        """Count the token ids."""
        return len(self._tokenizer)

    def vocabularies(self, texts: Sequence[str]) -> Iterator[set[int]]:
        """Give the set of token ids of each text."""
        for at in range(0, len(texts), 256):
            encoded = self._tokenizer(
                list(texts[at : at + 256]), add_special_tokens=False, verbose=False
            )
            yield from map(set, encoded["input_ids"])

    def encode_cut(self, pairs: Sequence[Pair]) -> list[EncodedPair]:
        """Encode each pair as its first chunk only (training, where rows are cropped before)."""
        return [chunks[0] for chunks in self.encode(pairs)]

    def _chunks(self, pair: Pair, whole: EncodedPair) -> list[EncodedPair]:
        question, passage = self._question(pair[0]), pair[1]
        inside = [span for span in whole.offsets if span is not None]
        if not inside:  # only a title, and a long one
            return [_clip(whole, self.max_length)]
        overhead = len(whole) - len(inside)
        room = max(self.max_length - overhead, OVERLAP_TOKENS * 2)
        parts = [
            (question, _title(passage), passage.text[start:end], start)
            for start, end in _cuts(inside, room)
        ]
        return [_clip(encoded, self.max_length) for encoded in self._encode(parts)]

    def _encode(self, parts: Sequence[tuple[str, str, str, int]]) -> list[EncodedPair]:
        if not parts:
            return []
        encoded = self._tokenizer(
            [question for question, *_ in parts],
            [title + text for _, title, text, _ in parts],
            add_special_tokens=True,
            truncation=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            return_token_type_ids=True,
            verbose=False,
        )
        types = encoded.get("token_type_ids")
        return [
            EncodedPair(
                ids=encoded["input_ids"][i],
                types=types[i] if types else [0] * len(encoded["input_ids"][i]),
                segments=[0 if s is None else s + 1 for s in encoded.sequence_ids(i)],
                offsets=_offsets(encoded, i, len(title), shift),
            )
            for i, (_, title, _, shift) in enumerate(parts)
        ]

    def _question(self, question: str) -> str:
        if len(question) <= QUESTION_TOKENS:
            return question
        offsets = self._tokenizer(
            question, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )["offset_mapping"]
        return question[: offsets[min(QUESTION_TOKENS, len(offsets)) - 1][1]]


def _title(passage: Passage) -> str:
    return f"{passage.title}. " if passage.title else ""


def _offsets(encoded: Any, i: int, prefix: int, shift: int) -> list[tuple[int, int] | None]:
    move = shift - prefix
    return [
        (start + move, end + move) if s == 1 and start >= prefix and end > start else None
        for (start, end), s in zip(
            encoded["offset_mapping"][i], encoded.sequence_ids(i), strict=True
        )
    ]


def _cuts(spans: Sequence[tuple[int, int]], room: int) -> Iterator[tuple[int, int]]:
    at = 0
    while True:
        piece = spans[at : at + room]
        yield piece[0][0], piece[-1][1]
        if at + room >= len(spans):
            return
        at += room - OVERLAP_TOKENS


def _clip(encoded: EncodedPair, length: int) -> EncodedPair:
    """Cut what re-tokenizing a chunk adds; it lies in the next chunk's overlap."""
    if len(encoded) <= length:
        return encoded
    keep = length - 1
    return EncodedPair(
        encoded.ids[:keep] + encoded.ids[-1:],
        encoded.types[:keep] + encoded.types[-1:],
        encoded.segments[:keep] + encoded.segments[-1:],
        encoded.offsets[:keep] + encoded.offsets[-1:],
    )
