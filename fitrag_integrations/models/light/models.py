"""The embedded scorer, evaluator and reader without torch: the ports' calls, the same decisions.

They are what a method takes where it is given no model and there is no GPU. Whoever brings or
trains weights needs the extra `torch` and the classes of `fitrag_integrations.models`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from fitrag_integrations.core.extras import torch_needed
from fitrag_integrations.core.record import Row
from fitrag_integrations.models.encoder.items import (
    CALIBRATED,
    FURTHEST,
    Correction,
    Item,
    Range,
    best_logits,
    placed_spans,
    table_logit,
)
from fitrag_integrations.models.encoder.pairs import Batch, Pair
from fitrag_integrations.models.evidence.lexical import Clues
from fitrag_integrations.models.kinds import (
    Answer,
    Found,
    Judged,
    PairGrader,
    PairReader,
    SentenceScorer,
    answer_of,
    found_in,
)
from fitrag_integrations.models.light import heads
from fitrag_integrations.models.light.graphs import Floats, engine_of, precision
from fitrag_integrations.models.light.heads import Weights
from fitrag_integrations.models.runtime.batching import in_groups
from fitrag_integrations.models.runtime.folder import (
    both_positive,
    kind_in,
    label_count,
    positive,
    read_arrays,
    read_manifest,
    table_line,
)
from fitrag_integrations.models.runtime.saved import Bundled, Origin, SavedModel, embedded_folder
from fitrag_integrations.models.runtime.worker import Steps
from fitrag_integrations.types import BiLabelScore
from fitrag_integrations.values.thresholds import ActionThresholds


class LightModel(Bundled):
    """A head over an engine that models of the same precision share, both as they ship.

    Args:
        dtype: "int8" (default), whose products have eight bits, or "float32".
            `FITRAG_CPU_DTYPE=float32` makes that the default.
    """

    def __init__(self, dtype: str | None = None) -> None:
        folder = embedded_folder(self.kind)
        needs = ("encoder", "head")
        super().__init__(read_manifest(folder, "model.json", kind=self.kind, needs=needs))
        self._head = head_of(folder, self.manifest)
        self.dtype = precision(dtype)
        self._engine = engine_of((folder / self.manifest["encoder"]).resolve(), self.dtype, self)
        self._rarity = self._head.get("rarity", np.zeros(0, np.float32))
        self._clues = Clues.of(self._engine.tokenizer, self._rarity.astype(np.float64))

    @classmethod
    def embedded(cls, *, dtype: str | None = None, **options: Any) -> Self:
        """Load what ships; raise `MissingExtraError` for another option: those need PyTorch."""
        if options:
            raise torch_needed(ModuleNotFoundError(name="torch"), f"the option {min(options)!r}")
        return cls(dtype)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> Self:
        """Raise `MissingExtraError`: another model than the one that ships needs PyTorch."""
        raise torch_needed(ModuleNotFoundError(name="torch"), f"the {cls.kind} in {folder}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.dtype,)

    def _release(self) -> None:
        self._engine.leave(self)

    def _found(self, pairs: Sequence[Pair], forward: Any) -> Steps[list[list[Any]]]:
        """Give, per pair, the result of each of its chunks."""
        chunks = self._engine.tokenizer.encode(pairs)
        return in_groups(chunks, lambda flat: self._engine.run(flat, forward))

    def _best_span(self, states: Floats, batch: Batch) -> Floats:
        scores, _, _ = heads.best_spans(heads.linear(self._head, "span", states), batch)
        return scores.clip(-FURTHEST, FURTHEST)


class LightScorer(SentenceScorer, LightModel):
    """Bundled scorer without torch: scores passages and sentences as `BiLabelScorer.embedded()`.

    A passage gets both labels, a sentence as many as the manifest of the span head names.
    """

    kind = "bilabel"

    def __init__(self, dtype: str | None = None) -> None:
        super().__init__(dtype)
        self._temperatures = np.array(both_positive(self.manifest))
        self._tables = table_line(self.manifest)
        folder = embedded_folder("onepass")
        onepass = read_manifest(folder, "model.json", kind="onepass", needs=("head",))
        self._span_head = head_of(folder, onepass)
        self._span_temperatures = np.array(both_positive(onepass))
        self._span_labels = label_count(onepass["head"])
        self._correction = Correction()

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> Self:
        """Load a folder of `fitrag calibrate scores`; any other, and options, need PyTorch."""
        if options or kind_in(Path(folder)) != CALIBRATED:
            return super().from_pretrained(folder, **options)
        given = Correction.read(Path(folder))
        if given.source != "embedded":
            return super().from_pretrained(given.source)
        made = cls()
        made._correction = given.check(made.name)
        made._origin = Origin(str(folder), {})
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return super().__reduce__() if self._origin is None else SavedModel.__reduce__(self)

    @property
    def name(self) -> str:
        """The name of the scorer, equal to that of its PyTorch version, for what is fitted on its
        scores.
        """
        base = Path(str(self.manifest["base"])).name
        return self._correction.name(f"bilabel {base} {self.manifest['head']['sha256'][:8]}")

    def _score(self, pairs: Sequence[Pair]) -> Steps[list[BiLabelScore]]:
        found = yield from self._found(pairs, self._logits)
        return [self._whole(*each) for each in zip(pairs, found, strict=True)]

    def _logits(self, states: Floats, batch: Batch) -> Floats:
        clues = self._clues.numbers(batch.pairs)
        return heads.bilabel(self._head, states[:, 0], clues, self._best_span(states, batch))

    def _whole(self, pair: Pair, chunks: Sequence[Floats]) -> BiLabelScore:
        has, prefer = (np.max(chunks, axis=0) / self._temperatures).tolist()
        return self._correction.labels(table_logit(pair[1].text, has, self._tables), prefer)

    def _judge(self, items: Sequence[Item]) -> Steps[list[Judged]]:
        placed, chunks, wanted = placed_spans(self._engine.tokenizer, items)
        results = iter((yield from self._engine.run(chunks, partial(self._read, wanted))))
        judged = []
        for own, item in zip(placed, items, strict=True):
            wholes, logits = zip(*(next(results) for _ in own), strict=True)
            which = (each for each, _ in own)
            best = best_logits(len(item[2]), list(zip(which, logits, strict=True)))
            rows = (best / self._span_temperatures)[:, : self._span_labels].tolist()
            labels = [self._correction.labels(*row) for row in rows]
            judged.append((self._whole((item[0], item[1]), wholes), labels))
        return judged

    def _read(
        self, wanted: Mapping[int, list[Range]], states: Floats, batch: Batch
    ) -> list[tuple[Floats, Floats]]:
        """Return the logits of each chunk, and those of its own spans."""
        logits, ranges = self._logits(states, batch), [wanted[id(chunk)] for chunk in batch.pairs]
        wholes = (logits / self._temperatures).astype(np.float32)
        given = states, batch, heads.Spans(batch, ranges), self._rarity, wholes
        found = heads.span_logits(self._span_head, *given)
        ends = np.cumsum([len(each) for each in ranges])
        return list(zip(logits, np.split(found, ends[:-1]), strict=True))


class LightEvaluator(PairGrader, LightModel):
    """Grade pairs in [-1, 1], as `RetrievalEvaluator` does."""

    kind = "evaluator"

    def __init__(self, dtype: str | None = None) -> None:
        super().__init__(dtype)
        self.name = str(self.manifest["name"])
        self.thresholds = ActionThresholds.from_dict(self.manifest["thresholds"])

    def _grades(self, pairs: Sequence[Pair]) -> Steps[list[float]]:
        found = yield from self._found(pairs, self._logits)
        temperature = positive(self.manifest, "temperature")
        return [math.tanh(max(logits) / temperature / 2) for logits in found]

    def _logits(self, states: Floats, batch: Batch) -> list[float]:
        clues = self._clues.numbers(batch.pairs)
        span = self._best_span(states, batch)
        found: list[float] = heads.grade(self._head, states[:, 0], clues, span).tolist()
        return found


class LightReader(PairReader, LightModel):
    """Find the answer to a question in a passage, as `ExtractiveReader` does."""

    kind = "reader"

    def __init__(self, dtype: str | None = None) -> None:
        super().__init__(dtype)
        self.abstain_below: float | None = self.manifest["thresholds"]["abstain_below"]

    def _read(self, pairs: Sequence[Pair]) -> Steps[list[Answer]]:
        found = yield from self._found(pairs, self._spans)
        return [answer_of(pair[1], chunks) for pair, chunks in zip(pairs, found, strict=True)]

    def _spans(self, states: Floats, batch: Batch) -> list[Found]:
        best, first, last = heads.best_spans(heads.linear(self._head, "span", states), batch)
        select = heads.linear(self._head, "select", states[:, 0])[:, 0]
        if "units.weight" in self._head:
            found = best.clip(-FURTHEST, FURTHEST)
            select += heads.extra_logits(self._head, self._clues.numbers(batch.pairs), found)
        columns = zip(batch.pairs, select.tolist(), best.tolist(), first, last, strict=True)
        return [found_in(chunk, how, span, int(a), int(b)) for chunk, how, span, a, b in columns]


def head_of(folder: Path, manifest: Row) -> Weights:
    """Read the weights of a head, by the names they have in it."""
    arrays = read_arrays(folder, manifest["head"])
    return {name.removeprefix("head."): array for name, array in arrays.items()}
