"""Turn (question, passage) pairs into token ids, keeping each token's place in the passage.

A pair is `question [SEP] title. text`. A passage longer than the model's input is read in
overlapping chunks, each with the question and the title; nothing is cut off silently. Of a text
that asks among small talk, what `text.question` finds is the question.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.errors import InputError, ModelLoadError, raise_if, refuse_if
from fitrag_integrations.ports import Pair as Pair
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.text.question import asked_of
from fitrag_integrations.types import Passage

Place: TypeAlias = tuple[int, int] | None
Tokens: TypeAlias = NDArray[np.int32]
Rarity: TypeAlias = Sequence[float] | NDArray[np.float64]  # of each id; an array is read at no cost
QUESTION_TOKENS = 128  # of a question, or a quarter of the input; a longer one loses its middle
HEAD_TOKENS = 48  # of these, at its head: what is asked stands at the end more often
OVERLAP_TOKENS = 64
KEPT_TOKENS = (
    500_000  # of the passages met last, about 13 MB with their texts; as many of questions
)
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_BLANK = np.array([chr(code).isspace() for code in range(0x3002)])  # there are none beyond


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPair:
    """One model input as an array of shape (5, tokens): ids, types, segments, starts, ends.

    A segment is 0 for a separator, 1 for a token of the question, 2 for one of the passage or its
    title; types are what the model is given. `offsets[i]` is the (start, end) of token i in the
    passage's text, or None (-1 in the array) for tokens of the question, the title and separators.
    """

    tokens: Tokens

    @property
    def offsets(self) -> list[Place]:
        """Return each token's place."""
        places = zip(*self.tokens[3:].tolist(), strict=True)
        return [None if start < 0 else (start, end) for start, end in places]

    def __len__(self) -> int:
        return len(self.tokens[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncodedPair) and np.array_equal(self.tokens, other.tokens)


@dataclass(frozen=True, slots=True)
class Batch:
    """Model inputs padded to the longest. Shapes: (5, batch, tokens) and (batch,)."""

    pairs: Sequence[EncodedPair]
    tokens: Tokens
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, pairs: Sequence[EncodedPair], *, pad_id: int = 0) -> "Batch":
        """Pad; what is added has the id `pad_id`, the segment of a separator and no place."""
        lengths = np.array([len(pair) for pair in pairs], dtype=np.int64)
        tokens = np.empty((5, len(pairs), lengths.max(initial=0)), dtype=np.int32)
        tokens[:] = np.array([pad_id, 0, 0, -1, -1], dtype=np.int32)[:, None, None]
        for row, pair in enumerate(pairs):
            tokens[:, row, : len(pair)] = pair.tokens
        return cls(pairs, tokens, lengths)

    @property
    def placed(self) -> NDArray[np.bool_]:
        """Return which tokens are the passage's text. Shape: (batch, tokens)."""
        return cast(NDArray[np.bool_], self.tokens[3] >= 0)

    def side(self, segment: int, *, fill: int) -> Tokens:
        """Return the ids of one segment, moved to the left. Shape: (batch, most of them)."""
        return moved_left(self.tokens[0], self.tokens[2] == segment, fill=fill)


def moved_left(ids: Tokens, chosen: NDArray[np.bool_], *, fill: int) -> Tokens:
    """Move the chosen ids of each row to its left; after them comes `fill`, at least once."""
    rows, places = np.divmod(np.flatnonzero(chosen), chosen.shape[1])
    counts = np.bincount(rows, minlength=len(ids))
    ranks = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
    found = np.full((len(ids), counts.max(initial=0) + 1), fill, dtype=np.int32)
    found[rows, ranks] = ids[rows, places]
    return found


def checked_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Check that each pair is a question and a passage, both with text."""
    found: list[Pair] = []
    for i, pair in enumerate(pairs):
        given: Any = pair
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Passage)):
            raise InputError.of(f"pairs[{i}]", given=given, allowed="a (question, Passage) tuple")
        question, passage = given
        check_text(f"pairs[{i}].question", question, blank=False)
        refuse_if(
            not has_text(passage.text),
            f"pairs[{i}].passage.text",
            passage.text,
            "a passage with text",
        )
        found.append((question, passage))
    return found


class _Recent:
    """Keep the tokens of what was met last, `KEPT_TOKENS` at most."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Tokens] = {}
        self._left = KEPT_TOKENS

    def of(
        self,
        keys: Sequence[tuple[str, ...]],
        make: Callable[[list[tuple[str, ...]]], list[Tokens]],
    ) -> list[Tokens]:
        """Return the tokens of each key; `make` gives those of the keys that are not known."""
        kept, new = self._kept, dict.fromkeys(key for key in keys if key not in self._kept)
        found = {key: kept[key] for key in keys if key in kept}
        found |= zip(new, make(list(new)), strict=True) if new else ()
        for key in dict.fromkeys(keys):
            if kept.pop(key, None) is None:
                self._left -= found[key].shape[1]
            kept[key] = found[key]
        while self._left < 0:
            self._left += kept.pop(next(iter(kept))).shape[1]
        return [found[key] for key in keys]


class PairTokenizer:
    """Encode pairs with a fast Hugging Face tokenizer. Not thread-safe: one worker owns it."""

    def __init__(self, tokenizer: Any, *, max_length: int = 384) -> None:
        self._tokenizer = tokenizer
        self._fast = tokenizer.backend_tokenizer
        self._fast.no_truncation()  # some checkpoints ask for it
        self._fast.no_padding()
        self.max_length = max_length
        self.question_tokens = max(QUESTION_TOKENS, max_length // 4)
        self.pad_id: int = tokenizer.pad_token_id or 0
        self._questions, self._passages = _Recent(), _Recent()
        self._frame: list[Tokens] | None = None

    def encode(self, pairs: Sequence[Pair]) -> list[list[EncodedPair]]:
        """Encode each pair as one or more chunks, in text order; equal pairs are the same ones."""
        each = {(question, p.title, p.text): (question, p) for question, p in pairs}
        made = self._encode(list(each.values())) if each else []
        chunks = dict(zip(each, [_chunks(one, self.max_length) for one in made], strict=True))
        return [chunks[question, p.title, p.text] for question, p in pairs]

    def alone(self, keys: Sequence[tuple[str, ...]], length: int) -> list[list[EncodedPair]]:
        """Encode questions, (question,), and passages, (title, text), as inputs of their own.

        A long passage has chunks of `length` tokens, each with the title.
        """
        before, _, after = self._marks()
        asked, read = ([key for key in keys if len(key) == size] for size in (1, 2))
        known = dict(zip(asked, self._questions.of(asked, self._read_questions), strict=True))
        passages = zip(read, self._passages.of(read, self._read_passages), strict=True)
        known |= {key: np.concatenate([before, own, after], axis=1) for key, own in passages}
        for tokens in known.values():
            tokens[1] = self._kinds[0]
        return [_chunks(known[key], length) for key in keys]

    @property
    def vocabulary(self) -> int:
        """Count the token ids."""
        return len(self._tokenizer)

    def vocabularies(self, texts: Sequence[str]) -> Iterator[set[int]]:
        """Return the set of token ids of each text."""
        for at in range(0, len(texts), 256):
            yield from (set(one.ids) for one in self._read(texts[at : at + 256]))

    def encode_cut(self, pairs: Sequence[Pair]) -> list[EncodedPair]:
        """Encode each pair as its first chunk only (training, where rows are cropped before)."""
        return [chunks[0] for chunks in self.encode(pairs)]

    def _encode(self, pairs: Sequence[Pair]) -> list[Tokens]:
        """Combine questions and passages, each tokenized once, with the special tokens of the
        model.
        """
        asked = self._questions.of([(question,) for question, _ in pairs], self._read_questions)
        read = self._passages.of([(p.title, p.text) for _, p in pairs], self._read_passages)
        _, _, after = self._marks()
        return [
            np.concatenate([question, passage, after], axis=1)
            for question, passage in zip(asked, read, strict=True)
        ]

    def _read(self, texts: Sequence[str]) -> list[Any]:
        return cast(list[Any], self._fast.encode_batch(list(texts), add_special_tokens=False))

    def _read_questions(self, keys: list[tuple[str, ...]]) -> list[Tokens]:
        """Tokenize questions, with the marks that stand before and after them."""
        before, between, _ = self._marks()
        asked = self._read([self._question(question) for (question,) in keys])
        kind = self._kinds[0]
        return [
            np.concatenate([before, rows_of(one.ids, kind, 1), between], axis=1) for one in asked
        ]

    def _read_passages(self, keys: list[tuple[str, ...]]) -> list[Tokens]:
        """Tokenize passages, with their titles and the tokens' places."""
        texts = [(title_of(title), whole(text)) for title, text in keys]
        read = self._read([title + text for title, text in texts])
        kind = self._kinds[1]
        ids, offsets = [one.ids for one in read], [one.offsets for one in read]
        before = [len(title) for title, _ in texts]
        return placed_rows(ids, offsets, before, [text for _, text in texts], kind, 2)

    def _marks(self) -> list[Tokens]:
        """Return the tokens before a question, between it and a passage, and after that one."""
        if self._frame is None:
            pair = self._fast.encode("a", "a")
            sides: list[int | None] = pair.sequence_ids
            raise_if(
                not {0, 1} <= set(sides),
                ModelLoadError,
                "the tokenizer has no token for a letter, not even 'unknown'",
            )
            first, second = (len(sides) - sides[::-1].index(side) for side in (0, 1))
            cuts = [(0, sides.index(0)), (first, sides.index(1)), (second, len(sides))]
            self._kinds = [pair.type_ids[sides.index(side)] for side in (0, 1)]
            self._frame = [rows_of(pair.ids[a:b], pair.type_ids[a:b], 0) for a, b in cuts]
        return self._frame

    def _asked(self, pairs: Sequence[Pair]) -> list[str]:
        """Return what is read of each pair's question; of equal ones, once."""
        asked = {question: self._question(question) for question in {q for q, _ in pairs}}
        return [asked[question] for question, _ in pairs]

    def _question(self, question: str) -> str:
        """Return what is read of a question; of one that is too long, the beginning and the end."""
        question = asked_of(whole(question))
        if len(question) <= self.question_tokens:
            return question
        (encoded,) = self._read([question])
        offsets = encoded.offsets
        if len(offsets) <= self.question_tokens:
            return question
        head, tail = offsets[HEAD_TOKENS - 1][1], offsets[HEAD_TOKENS - self.question_tokens][0]
        return f"{question[:head]} {question[tail:]}"


def title_of(title: str) -> str:
    """Write a title as it stands before its passage."""
    return whole(f"{title}. ") if title else ""


def whole(text: str) -> str:
    """Replace lone surrogates, which no tokenizer takes, one for one."""
    return _SURROGATES.sub("\ufffd", text)


def rows_of(ids: Sequence[int], types: int | Sequence[int], segment: int) -> Tokens:
    """Write tokens of one segment, without places, as `EncodedPair` has them."""
    found = np.full((5, len(ids)), -1, dtype=np.int32)
    found[0], found[1], found[2] = ids, types, segment
    return found


def placed_rows(
    ids: Sequence[Sequence[int]],
    offsets: Sequence[Sequence[tuple[int, int]]],
    before: Sequence[int],
    texts: Sequence[str],
    kind: int,
    segment: int,
) -> list[Tokens]:
    """Write tokens as `EncodedPair` has them, each with its place in its text.

    `before` counts the characters that were tokenized before each text. The blanks that byte-level
    tokens begin with are left out. All texts are placed at once: one at a time costs as much as
    tokenizing them.
    """
    counts, sizes = np.array([*map(len, ids)]), np.array([*map(len, texts)])
    found = np.empty((5, total := counts.sum()), dtype=np.int32)
    found[0] = np.fromiter(chain.from_iterable(ids), np.int32, total)
    found[1], found[2] = kind, segment
    each = chain.from_iterable(chain.from_iterable(offsets))
    places = np.fromiter(each, np.int64, 2 * total).reshape(-1, 2).T
    first, size, moved = np.repeat(
        [sizes.cumsum() - sizes + np.arange(len(sizes)), sizes, before], counts, 1
    )
    codes = np.frombuffer("\0".join([*texts, ""]).encode("utf-32-le"), dtype=np.uint32)
    filled = np.arange(len(codes))
    filled[_BLANK[np.minimum(codes, len(_BLANK) - 1)]] = len(codes)
    onward = np.minimum.accumulate(filled[::-1])[::-1]  # the next that is no blank
    start, end = np.minimum(np.maximum(places - moved, 0), size)
    start = onward[first + start] - first
    found[3:] = np.where(start < end, (start, end), -1)
    # a copy each: a view would keep what was read with it
    return [part.copy() for part in np.split(found, counts.cumsum()[:-1], axis=1)]


def _chunks(tokens: Tokens, length: int) -> list[EncodedPair]:
    """Cut the passage's tokens; each chunk has what stands before and after them.

    Only a title too long to leave room for two overlaps is cut short.
    """
    count = tokens.shape[1]
    if count <= length:
        return [EncodedPair(tokens)]
    inside = np.flatnonzero(tokens[3] >= 0)
    if not len(inside):  # only a title, and a long one
        return [EncodedPair(tokens[:, [*range(length - 1), count - 1]])]
    after = np.arange(inside[-1] + 1, count)
    least = min(2 * OVERLAP_TOKENS, length // 2)  # of the passage, whatever else there is
    before = np.arange(max(0, min(inside[0], length - len(after) - least)))
    room = max(2, length - len(before) - len(after))
    places = (np.concatenate([before, inside[a:b], after]) for a, b in _cuts(len(inside), room))
    return [EncodedPair(tokens[:, chosen]) for chosen in places]


def _cuts(count: int, room: int) -> Iterator[tuple[int, int]]:
    at, overlap = 0, min(OVERLAP_TOKENS, room // 2)
    while at + room < count:
        yield at, at + room
        at += room - overlap
    yield at, count
