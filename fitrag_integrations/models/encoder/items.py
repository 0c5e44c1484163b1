"""Scores of logits; spans of passages to be judged: their checks, and their tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import ThresholdMismatchError, raise_if, refuse_if
from fitrag_integrations.models.encoder.pairs import EncodedPair, Pair, PairTokenizer, checked_pairs
from fitrag_integrations.models.runtime.folder import (
    SMALLEST,
    read_manifest,
    reading,
    write_manifest,
)
from fitrag_integrations.text.blocks import is_table
from fitrag_integrations.text.records import records_of
from fitrag_integrations.text.spans import Span
from fitrag_integrations.types import BiLabelScore, Passage
from fitrag_integrations.values.score import sigmoid

Places: TypeAlias = NDArray[np.int64]
FURTHEST = 20.0  # where the score of a best span is cut off
ANSWER_TOKENS = 24
NOTHING = -20.0  # where a score or a logarithm is cut off, and what a span without tokens has
CALIBRATED = "calibrated"  # the kind of a folder with a correction and the scorer's name
Line: TypeAlias = tuple[float, float, float]
PLAIN: Line = (1.0, 0.0, 0.0)
MOST = 1e6  # of a line's numbers on each side of zero
TABLE, RECORDS, PROSE = "table", "records", "prose"
InChunk: TypeAlias = tuple[Places, list[Span]]  # which spans, and the tokens of each
Item: TypeAlias = tuple[str, Passage, Sequence[Span]]  # spans are [start, end) in the text


@dataclass(frozen=True, slots=True)
class Lines:
    """Corrections of logits by the kind of text: slope x logit + weight x cosine + shift.

    The cosine of question and text is that of the untouched base (`sentences.Nearness`). Kinds are
    those of `kind_of`.

    Args:
        passages: Slope, weight and shift for a passage's logits, by kind.
        sentences: The same for a sentence, by the kind of its passage.
        best: Slope and shift that turn the largest logit of a list's passages into the logit of
            "some passage answers"; None if they were not fitted.
    """

    passages: Mapping[str, Line] = field(default_factory=dict)
    sentences: Mapping[str, Line] = field(default_factory=dict)
    best: Line | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, manifest: Row) -> Lines:
        """Read the lines of a scorer's manifest, those of its tables if it has no others."""
        slope, shift = manifest.get("tables", (1.0, 0.0))
        given = manifest.get("similarity") or {"passages": {TABLE: (slope, 0.0, shift)}}
        best = manifest.get("answerable")
        return cls(
            *(
                {kind: _line(line) for kind, line in given.get(name, {}).items()}
                for name in ("passages", "sentences")
            ),
            best=best and _line((best[0], 0.0, best[1])),
        )

    @property
    def compare(self) -> bool:
        """Whether any of them reads the cosine."""
        return any(one[1] for one in (*self.passages.values(), *self.sentences.values()))

    def passage(
        self, text: str, has_answer: float, llm_prefer: float | None, cosine: float = 0.0
    ) -> tuple[float, float | None]:
        """Return both logits of a passage; a line without a cosine is of `has_answer` alone."""
        slope, weight, shift = self.passages.get(kind_of(text), PLAIN)
        moved = weight * cosine + shift
        if llm_prefer is not None and weight:
            llm_prefer = slope * llm_prefer + moved
        return slope * has_answer + moved, llm_prefer

    def grades(
        self, pairs: Sequence[Pair], logits: Sequence[float], near: Sequence[NDArray[Any]]
    ) -> list[float]:
        """Return an evaluator's grades of its logits."""
        found = zip(pairs, logits, near, strict=True)
        summed = (self.passage(p.text, logit, None, float(n[0]))[0] for (_, p), logit, n in found)
        return [grade(logit) for logit in summed]

    def answerable(self, logits: Sequence[float]) -> float | None:
        """Return the probability that some passage of a list answers, from all their logits.

        None without passages, or without a fitted `best`.
        """
        return (
            None
            if self.best is None or not logits
            else sigmoid(self.best[0] * max(logits) + self.best[-1])
        )

    def spans(self, text: str, logits: NDArray[Any], cosines: NDArray[Any]) -> NDArray[Any]:
        """Return the logits of a passage's spans. Shapes: (spans,)."""
        slope, weight, shift = self.sentences.get(kind_of(text), PLAIN)
        return slope * logits + weight * cosines + shift


def grade(logit: float) -> float:
    """Map a logit to a grade in [-1, 1]: twice its probability, less one."""
    return math.tanh(logit / 2)


def kind_of(text: str) -> str:
    """Return the kind of a text: a table for at least half, records, or prose."""
    return TABLE if is_table(text) else RECORDS if records_of(text) else PROSE


def _line(given: Sequence[float]) -> Line:
    slope, weight, shift = (check_number("line", one, low=-MOST, high=MOST) for one in given)
    return check_number("slope", slope, low=SMALLEST), weight, shift


def of_logits(has_answer: float, llm_prefer: float | None = None) -> BiLabelScore:
    """Return the score of two logits, or of one."""
    return BiLabelScore(
        sigmoid(has_answer),
        None if llm_prefer is None else sigmoid(llm_prefer),
        has_answer,
        llm_prefer,
    )


@dataclass(frozen=True, slots=True)
class Correction:
    """Correction of a scorer's `has_answer`: its logit becomes `slope * logit + shift`.

    Applies to passages and to their sentences. `fitrag calibrate scores` fits one.

    Args:
        slope: Factor of the logit, above 0.
        shift: Added to it.
        model: Name of the scorer it was fitted for; it is refused for any other.
        source: Folder of that scorer, "embedded" for the bundled one.
    """

    slope: float = 1.0
    shift: float = 0.0
    model: str = ""
    source: str = "embedded"

    @classmethod
    def read(cls, folder: Path) -> Correction:
        """Read the folder that `save` wrote; raise `ModelLoadError` for a damaged one."""
        given = read_manifest(
            folder, "model.json", kind=CALIBRATED, needs=("slope", "shift", "model", "source")
        )
        with reading(folder):
            return cls(
                check_number("slope", given["slope"], low=SMALLEST),
                check_number("shift", given["shift"]),
                str(given["model"]),
                str(given["source"]),
            )

    def save(self, folder: Path, **fields: object) -> None:
        """Write a folder that `BiLabelScorer.from_pretrained` loads, with further fields."""
        write_manifest(folder, "model.json", kind=CALIBRATED, fields={**asdict(self), **fields})

    def labels(self, has_answer: float, llm_prefer: float | None = None) -> BiLabelScore:
        """Return the score of two logits, or of one, corrected."""
        return of_logits(self.slope * has_answer + self.shift, llm_prefer)

    def name(self, scorer: str) -> str:
        """Return the name of a scorer with this correction; its own if none was fitted."""
        return f"{scorer} calibrated {self.slope:.4g} {self.shift:.4g}" if self.model else scorer

    def check(self, scorer: str) -> Correction:
        """Return this; raise `ThresholdMismatchError` if it was fitted for another scorer."""
        raise_if(
            self.model != scorer,
            ThresholdMismatchError,
            f"the scores' calibration was fitted for {self.model!r}, given {scorer!r}: fit it "
            "again with `fitrag calibrate scores`",
        )
        return self


def token_ranges(chunk: EncodedPair, spans: Sequence[Span] | Places) -> list[Span]:
    """Return the tokens [first, end) that touch each span of characters; empty where none does."""
    places = np.flatnonzero(chunk.tokens[3] >= 0)
    if not len(places):
        return [(0, 0)] * len(spans)
    starts, ends = chunk.tokens[3:, places]
    wanted = np.array(spans, dtype=np.int64).reshape(-1, 2)
    low = np.searchsorted(ends, wanted[:, 0], "right")
    high = np.searchsorted(starts, wanted[:, 1], "left")
    bounds = places[np.minimum(low, len(places) - 1)], places[high - 1] + 1
    found = np.where(low < high, bounds, 0)
    return [(first, end) for first, end in found.T.tolist()]


def chunk_spans(chunks: Sequence[EncodedPair], spans: Sequence[Span]) -> list[InChunk]:
    """Find for each chunk of a passage the spans that are judged in it, with their tokens.

    A span is judged in the chunks that hold the most of its tokens, and one without tokens in the
    first. So a passage costs as much as its chunks, however many spans it has.
    """
    bounds = np.array(spans, dtype=np.int64).reshape(-1, 2)
    most = np.zeros(len(bounds), dtype=np.int64)
    touched = []
    for chunk in chunks:
        placed = chunk.tokens[3:, chunk.tokens[3] >= 0]
        begin, end = (placed[0].min(), placed[1].max()) if placed.size else (0, 0)
        which = np.flatnonzero((bounds[:, 0] < end) & (bounds[:, 1] > begin))
        ranges = np.array(token_ranges(chunk, bounds[which])).reshape(-1, 2)
        counts = ranges[:, 1] - ranges[:, 0]
        most[which] = np.maximum(most[which], counts)
        touched.append((which, ranges, counts))
    found = []
    for n, (which, ranges, counts) in enumerate(touched):
        kept = (counts == most[which]) & (counts > 0)
        nowhere = np.flatnonzero(most == 0) if n == 0 else which[:0]
        own = np.concatenate([ranges[kept], np.zeros((len(nowhere), 2), dtype=np.int64)])
        found.append((np.concatenate([which[kept], nowhere]), [(a, b) for a, b in own.tolist()]))
    return found


def placed_spans(
    tokenizer: PairTokenizer, items: Sequence[Item]
) -> tuple[list[list[InChunk]], list[EncodedPair], dict[int, list[Span]]]:
    """Encode items, and find the spans that each chunk is to judge.

    Returns for each item the spans of each of its chunks, then all chunks, and their token ranges
    by the chunk's id.
    """
    groups = tokenizer.encode([(question, passage) for question, passage, _ in items])
    placed = [chunk_spans(group, item[2]) for group, item in zip(groups, items, strict=True)]
    # equal passages may have other spans: each is read for its own
    chunks = [EncodedPair(chunk.tokens) for group in groups for chunk in group]
    ranges = (each for group in placed for _, each in group)
    return placed, chunks, {id(c): each for c, each in zip(chunks, ranges, strict=True)}


def checked_items(items: Sequence[Item]) -> list[Item]:
    """Check that each item is a question, a passage with text, and spans inside it."""
    for i, item in enumerate(items):
        refuse_if(
            not (isinstance(item, tuple) and len(item) == 3),
            f"items[{i}]",
            item,
            "a (question, Passage, spans) tuple",
        )
    pairs = checked_pairs([(question, passage) for question, passage, _ in items])
    found: list[Item] = []
    for i, ((question, passage), (_, _, spans)) in enumerate(zip(pairs, items, strict=True)):
        checked = []
        for j, span in enumerate(spans):
            name = f"items[{i}].spans[{j}]"
            refuse_if(
                not (isinstance(span, tuple) and len(span) == 2), name, span, "a (start, end) tuple"
            )
            end = check_whole(f"{name}.end", span[1], low=1, high=len(passage.text))
            checked.append((check_whole(f"{name}.start", span[0], low=0, high=end - 1), end))
        found.append((question, passage, checked))
    return found
