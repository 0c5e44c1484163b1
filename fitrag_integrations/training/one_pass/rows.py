"""Read a question's passages once, and its windows once more: what a span head is fitted on."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.core.files import replacing
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.models.runtime.worker import finished
from fitrag_integrations.models.scorer.bilabel import BiLabelScorer
from fitrag_integrations.models.scorer.items import InChunk, Item, Range
from fitrag_integrations.models.scorer.span_reading import SpanReader
from fitrag_integrations.models.scorer.spans import SpanEvidence
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.training.rows import passage_row
from fitrag_integrations.types import Passage
from fitrag_integrations.values.windows import windows

SHARD = 50  # questions in a file of the cache
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Asked:
    """Passages of a question, and its answers if they are known."""

    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans of a question's passages: their features and their targets.

    A row per span, in order. `means`, `numbers`, `pooled` and `wholes` are those of
    `models.span_reading`; `teacher` the logits of the span read by itself, shape (spans, 2); `gold`
    1 where an answer stands in it, 0 where none does, NaN where none is known; `words` counts its
    words; `passage` is the number of its passage; `cut` says whether it is a window of the length
    the token reducer cuts.
    """

    means: Tensor
    numbers: Tensor
    pooled: Tensor
    wholes: Tensor
    teacher: Tensor
    gold: Tensor
    words: Tensor
    passage: Tensor
    cut: Tensor

    @property
    def evidence(self) -> SpanEvidence:
        """Return what the head is told of the spans themselves."""
        return SpanEvidence(self.means, self.numbers)

    @property
    def targets(self) -> Tensor:
        """Return what the head should say: the teacher's labels, has_answer halfway to the gold."""
        labels = self.teacher.sigmoid()
        known = ~self.gold.isnan()
        labels[known, 0] = (labels[known, 0] + self.gold[known]) / 2
        return labels


def onepass_row(row: dict[str, Any]) -> Asked:
    """Make a question of a JSON object with question, passages and, if known, answers.

    Raises `InputError` naming the field that is missing or wrong.
    """
    passages = check_many("passages", row.get("passages"), dict)
    if not passages:
        raise InputError.of("passages", given=row.get("passages"), allowed="at least one")
    answers = check_many("answers", row.get("answers") or (), str)
    question = check_text("question", row.get("question"))
    return Asked(question, answers, tuple(map(passage_row, passages)))


def read_rows(
    rows: Sequence[Asked],
    scorer: BiLabelScorer,
    answers: nn.Linear,
    folder: Path,
    *,
    window: int,
    seed: int,
) -> list[Spans]:
    """Read all rows, each once per scorer: what was read is kept in `folder` and taken from there.

    Rows whose passages have no text are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    reader = SpanReader(scorer, answers)
    found: list[Spans] = []
    for at in range(0, len(rows), SHARD):
        some = [row for row in map(_readable, rows[at : at + SHARD]) if row.passages]
        path = folder / f"{_name(some, scorer, window, seed)}.safetensors"
        if not path.exists():
            _save(_read(some, scorer, reader, window, seed), path)
        found += _load(path)
    return found


def _readable(row: Asked) -> Asked:
    return replace(row, passages=tuple(p for p in row.passages if p.text.strip()))


def _read(
    rows: Sequence[Asked], scorer: BiLabelScorer, reader: SpanReader, window: int, seed: int
) -> dict[str, Tensor]:
    """Return the fields of `Spans` for all spans of some rows, and `question`, each one's row."""
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row.passages))]
    chance = random.Random(seed)
    items, marks = list[Item](), list[dict[str, float]]()
    for i, j in places:
        row, passage = rows[i], rows[i].passages[j]
        cut = [(one.start, one.end) for one in windows(passage, size=window)]
        spans = [*cut, *_others(passage.text, cut, chance)]
        items.append((row.question, passage, spans))
        marks += [
            {
                "gold": float(contains_answer(passage.text[a:b], row.answers))
                if row.answers
                else NAN,
                "words": len(passage.text[a:b].split()),
                "passage": j,
                "cut": k < len(cut),
                "question": i,
            }
            for k, (a, b) in enumerate(spans)
        ]
    reading = finished(reader.read(items))
    chosen = chunk_rows(reading.places)
    texts = [(q, Passage("", p.text[a:b], p.title)) for q, p, spans in items for a, b in spans]
    scores = scorer.score(texts)
    return {
        "means": reading.evidence.means[chosen],
        "numbers": reading.evidence.numbers[chosen],
        "pooled": reading.pooled[chosen],
        "wholes": reading.wholes[chosen],
        "teacher": torch.tensor([[s.has_answer_logit, s.llm_prefer_logit] for s in scores]),
        **{name: torch.tensor([mark[name] for mark in marks]) for name in marks[0]},
    }


def _others(text: str, cut: Sequence[Range], chance: random.Random) -> list[Range]:
    """Return one shorter span, so that the head also handles windows of other lengths."""
    spans = split_sentences(text)
    size = chance.choice((1, 1, 2))
    at = chance.randrange(max(1, len(spans) - size + 1))
    one = (spans[at][0], spans[min(at + size, len(spans)) - 1][1])
    return [] if one in cut else [one]


def chunk_rows(places: Sequence[Sequence[InChunk]]) -> list[int]:
    """Return, of each span, its row in the first chunk that holds the most of it."""
    chosen, at = list[int](), 0
    for chunks in places:
        first: dict[int, int] = {}
        for which, _ in chunks:
            for row, span in enumerate(which.tolist(), start=at):
                first.setdefault(span, row)
            at += len(which)
        chosen += [first[span] for span in range(len(first))]
    return chosen


def _name(rows: Sequence[Asked], scorer: BiLabelScorer, window: int, seed: int) -> str:
    """Return a hash of all that the rows depend on."""
    given = [*map(asdict, rows), scorer.manifest["head"]["sha256"], window, seed]
    return hashlib.sha256(json.dumps(given).encode()).hexdigest()[:16]


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    with replacing(path) as beside:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside)


def _load(path: Path) -> list[Spans]:
    tensors = load_file(path)
    question = tensors.pop("question")
    return [
        Spans(**{name: tensor[question == i] for name, tensor in tensors.items()})
        for i in question.unique().tolist()
    ]
