"""Labelled questions as tensors: the one place where a training row of the scorer becomes some."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fitrag_integrations.models.encoder.pairs import EncodedPair, PairTokenizer
from fitrag_integrations.training.bilabel.plan import BilabelPlan
from fitrag_integrations.training.rows import Labelled
from fitrag_integrations.training.splitting import refuse_shared, split

AT_ONCE = 8  # questions whose pairs are encoded together where nothing is learnt from them


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded pairs of some questions, their labels, and the number of pairs per question.

    Labels have the shape (pairs, 2); columns are has_answer, llm_prefer; NaN is not known.
    """

    pairs: list[EncodedPair]
    labels: Tensor
    sizes: list[int]


class Lists:
    """Iterator over batches of questions; the pairs of a batch are encoded when it is requested."""

    def __init__(self, rows: Sequence[Labelled], tokenizer: PairTokenizer) -> None:
        self.rows, self._tokenizer = rows, tokenizer
        self.sizes = [len(row.passages) for row in rows]
        self._starts = [0, *torch.tensor(self.sizes, dtype=torch.long).cumsum(0).tolist()]
        has = [float(label) for row in rows for label in row.has_answer]
        prefer = [_number(label) for row in rows for label in row.llm_prefer]
        self.labels = torch.tensor([has, prefer]).T.contiguous()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[int]:
        """The characters of each question's longest passage."""
        return [max(len(passage.text) for passage in row.passages) for row in self.rows]

    @property
    def texts(self) -> set[str]:
        """Return what stands in the passages."""
        return {f"{p.title} {p.text}" for row in self.rows for p in row.passages}

    def encoded(self, places: Iterable[int]) -> Batch:
        """Encode the questions at some places, each pair as its first chunk."""
        chosen = list(places)
        rows = [self.rows[i] for i in chosen]
        pairs = [(row.question, passage) for row in rows for passage in row.passages]
        labels = [self.labels[slice(*self.pairs_of(i, i + 1))] for i in chosen]
        sizes = [self.sizes[i] for i in chosen]
        return Batch(self._tokenizer.encode_cut(pairs), torch.cat(labels), sizes)

    def batches(self, within: range | None = None) -> Iterator[Batch]:
        """Encode all questions in their order, or those `within`."""
        places = range(len(self)) if within is None else within
        return (self.encoded(places[at : at + AT_ONCE]) for at in range(0, len(places), AT_ONCE))

    def pairs_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the first and one past the last pair of the questions from `first` to `last`."""
        return self._starts[first], self._starts[last]

    def apart(self) -> Lists:
        """Split the lists, so that each pair is a list of its own."""
        single = [
            replace(row, passages=(p,), has_answer=(has,), llm_prefer=(prefer,), reader_scores=())
            for row in self.rows
            for p, has, prefer in zip(row.passages, row.has_answer, row.llm_prefer, strict=True)
        ]
        return Lists(single, self._tokenizer)


@dataclass(frozen=True, slots=True)
class Data:
    """Questions to train on, to learn w on (empty if it is fixed), and held out."""

    train: Lists
    weighed: Lists
    held: Lists

    @classmethod
    def of(
        cls,
        rows: Sequence[Labelled],
        held: Sequence[Labelled],
        plan: BilabelPlan,
        tokenizer: PairTokenizer,
    ) -> Data:
        """Split the rows; those that w is learnt on are of the training questions.

        Raises `InputError` naming questions on both sides.
        """
        train, held = (list(rows), list(held)) if held else split(rows, plan.share, plan.seed)
        refuse_shared(train, held)
        train, weighed = (
            split(train, plan.share, plan.seed) if plan.imbalance.learns else (train, [])
        )
        fitted = Lists(train, tokenizer)
        apart = fitted if plan.batch is None else fitted.apart()
        return cls(apart, Lists(weighed, tokenizer), Lists(held, tokenizer))


def _number(label: int | None) -> float:
    return math.nan if label is None else float(label)
