"""Turn (question, passage) pairs into token ids, keeping each token's place in the passage.

A pair is `question [SEP] title. text`. A passage longer than the model's input is read in
overlapping chunks, each with the question and the title; nothing is cut off silently. Of a text
that asks among small talk, what `text.asked` finds is the question.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fitrag_integrations.text.asked import asked_of
from fitrag_integrations.types import Passage

Pair = tuple[str, Passage]
QUESTION_TOKENS = 128  # of a question; a longer one loses its middle
HEAD_TOKENS = 48  # of these, at its head: what is asked stands at the end more often
OVERLAP_TOKENS = 64
_SURROGATES = re.compile(r"[\ud800-\udfff]")


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
        found = self._encode([(self._question(q), _title(p), whole(p.text)) for q, p in pairs])
        return [
            [one] if len(one) <= self.max_length else _chunks(one, self.max_length) for one in found
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

    def _encode(self, parts: Sequence[tuple[str, str, str]]) -> list[EncodedPair]:
        if not parts:
            return []
        encoded = self._tokenizer(
            [question for question, _, _ in parts],
            [title + text for _, title, text in parts],
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
                offsets=_offsets(encoded, i, title, text),
            )
            for i, (_, title, text) in enumerate(parts)
        ]

    def _question(self, question: str) -> str:
        """Take what asks; of what is still too long, the head and the tail."""
        question = asked_of(whole(question))
        if len(question) <= QUESTION_TOKENS:
            return question
        offsets = self._tokenizer(
            question, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )["offset_mapping"]
        if len(offsets) <= QUESTION_TOKENS:
            return question
        head, tail = offsets[HEAD_TOKENS - 1][1], offsets[HEAD_TOKENS - QUESTION_TOKENS][0]
        return f"{question[:head]} {question[tail:]}"


def _title(passage: Passage) -> str:
    return whole(f"{passage.title}. ") if passage.title else ""


def whole(text: str) -> str:
    """Replace lone surrogates, which no tokenizer takes, one for one."""
    return _SURROGATES.sub("\ufffd", text)


def _offsets(encoded: Any, i: int, title: str, text: str) -> list[tuple[int, int] | None]:
    spans = zip(encoded["offset_mapping"][i], encoded.sequence_ids(i), strict=True)
    move = len(title)
    return [_place(text, start - move, end - move) if s == 1 else None for (start, end), s in spans]


def _place(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Leave out the title, and the blanks that byte-level tokens begin with."""
    start = max(start, 0)
    piece = text[start : max(end, 0)]
    start += len(piece) - len(piece.lstrip())
    return (start, end) if start < end else None


def _chunks(whole: EncodedPair, length: int) -> list[EncodedPair]:
    """Cut the passage's tokens; each chunk has what stands before and after them.

    Only a title too long to leave room for two overlaps is cut short.
    """
    inside = [i for i, span in enumerate(whole.offsets) if span is not None]
    if not inside:  # only a title, and a long one
        return [_take(whole, [*range(length - 1), len(whole) - 1])]
    after = range(inside[-1] + 1, len(whole))
    least = min(2 * OVERLAP_TOKENS, length // 2)  # of the passage, whatever else there is
    before = range(max(0, min(inside[0], length - len(after) - least)))
    room = max(2, length - len(before) - len(after))
    return [_take(whole, [*before, *inside[a:b], *after]) for a, b in _cuts(len(inside), room)]


def _cuts(count: int, room: int) -> Iterator[tuple[int, int]]:
    at, overlap = 0, min(OVERLAP_TOKENS, room // 2)
    while at + room < count:
        yield at, at + room
        at += room - overlap
    yield at, count


def _take(whole: EncodedPair, places: Sequence[int]) -> EncodedPair:
    return EncodedPair(
        [whole.ids[i] for i in places],
        [whole.types[i] for i in places],
        [whole.segments[i] for i in places],
        [whole.offsets[i] for i in places],
    )
