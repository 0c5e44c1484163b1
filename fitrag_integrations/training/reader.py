"""Train the extractive reader: spans in the right passage, and the choice of that passage.

The loss is DPR's (Karpukhin et al., 2020, section 6.1): the log-likelihood of the answer's first
and last token in the positive passage, and of the positive passage among the question's negatives.
A pointwise term on the same passage score makes it mean the same across questions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.encoder.encoders import MAX_LENGTH, load_base, save_encoder
from fitrag_integrations.models.encoder.heads import ReaderHead
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.runtime.folder import write_manifest, write_tensors
from fitrag_integrations.models.runtime.sources import MINILM
from fitrag_integrations.training.encoder import trunk_passes, tune
from fitrag_integrations.training.losses import span_loss
from fitrag_integrations.training.losses.spans import span_between
from fitrag_integrations.training.options import Bfloat16, EncoderBase, Rate, Seed, Steps
from fitrag_integrations.training.rows import ReadingRow
from fitrag_integrations.training.trainer import (
    ModuleTrainer,
    Running,
    Settings,
    epochs,
    fit_module,
    full_precision,
    only_run,
    training_device,
)
from fitrag_integrations.types import Passage

Group = tuple[ReadingRow, tuple[Passage, ...]]
_WORD = re.compile(r"\S+")


class ReaderModule(nn.Module):
    """Trunk and reader head, with their loss over groups of passages.

    Args:
        trunk: Encoder.
        head: Reader head.
        tokenizer: Tokenizer of pairs.
    """

    def __init__(self, trunk: Trunk, head: ReaderHead, tokenizer: PairTokenizer) -> None:
        super().__init__()
        self.trunk, self.head = trunk, head
        self._tokenizer = tokenizer

    def forward(self, groups: Sequence[Group]) -> dict[str, Tensor]:
        """Compute the span, selection and pointwise losses.

        Args:
            groups: Rows with their passages, the positive first.

        Returns:
            Losses, shape () each: "span", of the answer's place in the positive passage; "select",
            of the positive among its group; "point", 0.5 times the cross-entropy per passage.
        """
        pairs = [(row.question, p) for row, passages in groups for p in passages]
        encoded = self._tokenizer.encode_cut(pairs)
        spans, selects = self.logits(encoded)
        sizes = [len(passages) for _, passages in groups]
        firsts = [sum(sizes[:i]) for i in range(len(sizes))]
        gold = [self._gold(row, encoded[i]) for (row, _), i in zip(groups, firsts, strict=True)]
        span = [span_loss(spans[i], g) for i, g in zip(firsts, gold, strict=True) if g]
        select = [
            -torch.stack(selects[i : i + n]).log_softmax(0)[0]
            for i, n in zip(firsts, sizes, strict=True)
        ]
        labels = torch.zeros(len(pairs), device=selects[0].device)
        labels[firsts] = 1.0
        point = F.binary_cross_entropy_with_logits(torch.stack(selects), labels)
        zero = selects[0].sum() * 0
        return {
            "span": torch.stack(span).mean() if span else zero,
            "select": torch.stack(select).mean(),
            "point": 0.5 * point,
        }

    def logits(self, encoded: Sequence[EncodedPair]) -> tuple[list[Tensor], list[Tensor]]:
        """Compute the span and selection logits, in batches of similar length.

        Args:
            encoded: Encoded pairs.

        Returns:
            The span logits of each pair, shape (tokens, 2), and its selection logit, shape (), both
            in the order of `encoded`.
        """

        def run(batch: Batch, states: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
            with full_precision(states.device):
                spans, selects = self.head(states, self.trunk.pool(states, mask))
            each = zip(batch.pairs, spans, selects, strict=True)
            return [(span[: len(pair)].float(), select.float()) for pair, span, select in each]

        found = trunk_passes(self.trunk, encoded, run, pad_id=self._tokenizer.pad_id)
        return [span for span, _ in found], [select for _, select in found]

    @staticmethod
    def _gold(row: ReadingRow, encoded: EncodedPair) -> list[tuple[int, int]]:
        """Find the (first, last) tokens of the answer: at its given place, else everywhere."""
        places = [row.answer_start] if row.answer_start is not None else _places(row)
        answer = row.answers[0]
        found = (span_between(encoded.offsets, at, at + len(answer)) for at in places)
        return [span for span in found if span]


def _places(row: ReadingRow) -> list[int]:
    answer = re.escape(row.answers[0])
    return [m.start() for m in re.finditer(rf"(?<!\w){answer}(?!\w)", row.passage.text)]


def crop(row: ReadingRow, words: int, chance: random.Random) -> ReadingRow:
    """Crop a passage to a stretch of words around its answer, and negatives to their beginning.

    Args:
        row: Row to crop.
        words: Maximum number of words.
        chance: Random generator, for the start of the stretch.
    """
    negatives = tuple(_head(p, words) for p in row.negatives)
    spans = [m.span() for m in _WORD.finditer(row.passage.text)]
    if len(spans) <= words:
        return replace(row, negatives=negatives)
    start = next(iter(_places(row)), 0) if row.answer_start is None else row.answer_start
    at = next((i for i, (_, e) in enumerate(spans) if e > start), 0)
    last = max((i for i, (s, _) in enumerate(spans) if s < start + len(row.answers[0])), default=at)
    low = max(0, min(last + 1 - words, len(spans) - words))
    first = chance.randint(low, max(low, min(at, len(spans) - words)))
    begin, end = spans[first][0], spans[min(first + words, len(spans)) - 1][1]
    passage = replace(row.passage, text=row.passage.text[begin:end])
    place = None if row.answer_start is None else row.answer_start - begin
    return replace(row, passage=passage, answer_start=place, negatives=negatives)


def _head(passage: Passage, words: int) -> Passage:
    spans = [m.end() for m in _WORD.finditer(passage.text)]
    return (
        passage if len(spans) <= words else replace(passage, text=passage.text[: spans[words - 1]])
    )


def group(row: ReadingRow, count: int, chance: random.Random) -> Group:
    """Return a row's passage and a sample of its negatives, with or without titles.

    A title could reveal a negative if only some passages have one. All titles are therefore removed
    if the positive has none, and otherwise with a probability of 0.15.

    Args:
        row: Row with negatives.
        count: Maximum number of negatives.
        chance: Random generator.
    """
    passages = (row.passage, *chance.sample(row.negatives, min(count, len(row.negatives))))
    if not row.passage.title or chance.random() < 0.15:
        passages = tuple(replace(p, title="") for p in passages)
    return row, passages


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """Settings for training a reader."""

    base: EncoderBase = MINILM
    steps: Steps = 2000
    questions: Annotated[int, Option("Questions per batch.")] = 16
    negatives: Annotated[int, Option("Negative passages per question.")] = 2
    words: Annotated[int, Option("Maximum words of a passage; longer ones are cropped.")] = 130
    rate: Rate = 2e-4
    seed: Seed = 13
    bfloat16: Bfloat16 = True


@only_run
def fit_reader(
    rows: Sequence[ReadingRow],
    out: Path,
    plan: ReaderPlan,
    running: Running = Running(),  # noqa: B008 (it is frozen)
) -> None:
    """Train all layers but the embeddings, and save reader and encoder.

    Args:
        rows: Reading rows, from `reading_row`.
        out: Folder to write; a stopped run in it continues.
        plan: Training settings.
        running: Device, logging and checkpoint settings.
    """
    refuse_if(not rows, "rows", rows, "at least one reading row")
    torch.manual_seed(plan.seed)
    trunk, tokenizer = load_base(plan.base, attention="eager")  # the fastest backward on a CPU
    tune(trunk, "full")
    head = ReaderHead(trunk.width)
    module = ReaderModule(trunk, head, PairTokenizer(tokenizer, max_length=MAX_LENGTH))
    module.to(training_device(running.device))
    lengths = [min(plan.words, len(row.passage.text.split())) for row in rows]
    chosen = epochs(lengths, plan.questions, seed=plan.seed)

    def batch(step: int) -> list[Group]:
        chance = random.Random(f"{plan.seed}-{step}")
        cropped = (crop(rows[i], plan.words, chance) for i in chosen(step))
        return [group(row, plan.negatives, chance) for row in cropped]

    settings = Settings(
        plan.steps,
        plan.rate,
        seed=plan.seed,
        bfloat16=plan.bfloat16,
        save_seconds=running.save_seconds,
        log_every=running.log_every,
    )
    fit_module(ModuleTrainer(module, batch, settings, out / "run"))
    save_encoder(trunk, out / "encoder", base=plan.base)
    entry = write_tensors(out, "head.safetensors", head.state_dict())
    fields = {"base": plan.base, "encoder": "encoder", "head": entry, "trained": asdict(plan)}
    write_manifest(out, "model.json", kind="reader", fields=fields)
