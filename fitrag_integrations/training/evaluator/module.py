"""Train a retrieval evaluator (CRAG, section 4.2): does the passage hold the answer?

The paper fits one output to +1 and -1. Here a pair's logit is fitted by cross-entropy, and the
best of a question's passages to whether any holds the answer, since that is what the actions are
decided by. Two token scores learn where the answer begins and ends, or that there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.models.encoder.heads import BiLabelHead
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk, collate
from fitrag_integrations.models.evaluator.head import EvaluatorHead, grade, span_scores
from fitrag_integrations.models.evidence.clues import Clues
from fitrag_integrations.training.evaluator.rows import Judged
from fitrag_integrations.training.loop.device import device_of, full_precision
from fitrag_integrations.training.losses import Span, list_loss, span_or_nowhere_loss

MICRO = 16


class EvaluatorModule(nn.Module):
    """A trunk and an evaluator's head, and their losses over judged questions."""

    def __init__(
        self,
        trunk: Trunk,
        head: EvaluatorHead | BiLabelHead,  # whichever `graded` runs
        tokenizer: PairTokenizer,
        *,
        clues: Clues,
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.head: Any = head
        self.tokenizer, self.clues = tokenizer, clues

    def forward(self, rows: Sequence[Judged]) -> dict[str, Tensor]:
        """Return the losses of pairs, questions, lists and spans."""
        encoded = self.encoded(rows)
        logits, spans = self.logits(encoded)
        holds = torch.tensor([float(h) for row in rows for h in row.holds], device=logits.device)
        parts = losses(logits, holds, [len(row.passages) for row in rows])
        return parts | {"span": 0.3 * span_or_nowhere_loss(spans, [*gold_spans(rows, encoded)])}

    def encoded(self, rows: Sequence[Judged]) -> list[EncodedPair]:
        """Encode all pairs of some rows, each as its first chunk."""
        pairs = [(row.question, passage) for row in rows for passage in row.passages]
        return self.tokenizer.encode_cut(pairs)

    def logits(self, encoded: Sequence[EncodedPair]) -> tuple[Tensor, list[Tensor]]:
        """Return each pair's logit, shape (pairs,), and its token scores, shape (tokens, 2)
        each.
        """
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
        device = device_of(self.trunk)
        logits: dict[int, Tensor] = {}
        spans: dict[int, Tensor] = {}
        for at in range(0, len(order), MICRO):
            chosen = order[at : at + MICRO]
            batch = [encoded[i] for i in chosen]
            ids, mask, types = collate(batch, pad_id=self.tokenizer.pad_id, device=device)
            states = self.trunk(ids, mask, types)
            with full_precision(device):
                scores = self.head.span(states)
                best = span_scores(scores, Batch.of(batch))
                found = self.graded(self.trunk.pool(states, mask), batch, best)
            logits |= dict(zip(chosen, found, strict=True))
            spans |= {i: scores[row, : len(encoded[i])] for row, i in enumerate(chosen)}
        every = range(len(encoded))
        return torch.stack([logits[i] for i in every]), [spans[i] for i in every]

    @torch.inference_mode()
    def grades(self, rows: Sequence[Judged]) -> list[float]:
        """Grade the pairs of some rows in [-1, 1], as the saved evaluator does."""
        self.eval()
        parts = [self.logits(self.encoded(rows[at : at + 8]))[0] for at in range(0, len(rows), 8)]
        return [grade(logit) for part in parts for logit in part.tolist()]

    def graded(self, pooled: Tensor, batch: Sequence[EncodedPair], best: Tensor) -> Tensor:
        """Run the head on a batch whose best spans score `best`."""
        found: Tensor = self.head(pooled, self.clues.features(batch).to(pooled.device), best)
        return found


def losses(logits: Tensor, holds: Tensor, sizes: Sequence[int]) -> dict[str, Tensor]:
    """Return cross-entropy per pair, per question (its best passage), and of the ranking in a
    list.

    Shapes: logits and holds (pairs,), grouped by question into lists of `sizes`. A list without a
    passage that holds the answer, or of such only, has nothing to rank.
    """
    lists = [*zip(logits.split(list(sizes)), holds.split(list(sizes)), strict=True)]
    best = torch.stack([chunk.max() for chunk, _ in lists])
    any_holds = torch.stack([gold.max() for _, gold in lists])
    return {
        "pair": F.binary_cross_entropy_with_logits(logits, holds),
        "question": 0.5 * F.binary_cross_entropy_with_logits(best, any_holds),
        "rank": 0.3 * list_loss(logits, holds, sizes),
    }


def gold_spans(
    rows: Sequence[Judged], encoded: Sequence[EncodedPair]
) -> Iterator[list[Span] | None]:
    """Find the first and last token of every answer; none at all, or None where it is not known."""
    pairs = [(row, i) for row in rows for i in range(len(row.passages))]
    for (row, i), pair in zip(pairs, encoded, strict=True):
        if not row.holds[i]:
            yield []
            continue
        yield [*_spans(row.passages[i].text, row.answers, pair)] or None


def _spans(text: str, answers: Sequence[str], pair: EncodedPair) -> Iterator[Span]:
    for answer in answers:
        for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE):
            inside = [
                i
                for i, place in enumerate(pair.offsets)
                if place and place[0] < match.end() and place[1] > match.start()
            ]
            if inside:
                yield inside[0], inside[-1]
