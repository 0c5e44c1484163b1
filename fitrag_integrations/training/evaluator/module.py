"""The retrieval evaluator in training (CRAG, section 4.2): does the passage hold the answer?

The paper fits one output of a sequence classifier to +1 and -1, pair by pair, by the squared error
(`RegressionModule`, appendix B.3); its checkpoint loads as the paper's does. `EvaluatorModule`
fits a pair's logit by cross-entropy, and the best of a question's passages to whether any holds
the answer, since the actions depend on that. Two token scores learn where the answer begins and
ends, or that there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fitrag_integrations.core.progress import chunks
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.encoder.heads import BiLabelHead, span_scores
from fitrag_integrations.models.encoder.items import grade
from fitrag_integrations.models.encoder.lexical import Clues
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, PairTokenizer
from fitrag_integrations.models.encoder.trunk import Trunk
from fitrag_integrations.models.evaluator.head import EvaluatorHead
from fitrag_integrations.models.evaluator.sequence_classifier import (
    KIND,
    InputFormat,
    SequenceGrader,
)
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.models.runtime.loading import CLASSIFIER, Checkpoint, Kind
from fitrag_integrations.models.runtime.sources import weights_source
from fitrag_integrations.text.spans import Span
from fitrag_integrations.training.encoder import trunk_passes, with_lora
from fitrag_integrations.training.losses import list_loss, span_or_nowhere_loss
from fitrag_integrations.training.losses.spans import span_between
from fitrag_integrations.training.rows import Judged
from fitrag_integrations.training.trainer import device_of, full_precision
from fitrag_integrations.types import Passage


class EvaluatorModule(nn.Module):
    """Trunk and evaluator head, with their losses over judged questions.

    Args:
        trunk: Encoder.
        head: Head that `graded` runs.
        tokenizer: Tokenizer of pairs.
        clues: Computes the lexical features of a pair.
    """

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
        """Compute the losses of pairs, questions, lists and spans.

        Args:
            rows: Judged questions.

        Returns:
            The results of `losses`, and "span", 0.3 times the loss of the answer's place. Shape: ()
            each.
        """
        encoded = self.encoded(rows)
        logits, spans = self.logits(encoded)
        holds = torch.tensor([float(h) for row in rows for h in row.holds], device=logits.device)
        parts = losses(logits, holds, [len(row.passages) for row in rows])
        return parts | {"span": 0.3 * span_or_nowhere_loss(spans, [*gold_spans(rows, encoded)])}

    def encoded(self, rows: Sequence[Judged]) -> list[EncodedPair]:
        """Encode all pairs of some rows, each as its first chunk."""
        return self.tokenizer.encode_cut([pair for row in rows for pair in row.pairs])

    def logits(self, encoded: Sequence[EncodedPair]) -> tuple[Tensor, list[Tensor]]:
        """Compute the logit of each pair and its span scores, in batches of similar length.

        Args:
            encoded: Encoded pairs.

        Returns:
            Logits, shape (pairs,), and for each pair the scores of its tokens as the first and the
            last of the answer, shape (tokens, 2).
        """

        def run(batch: Batch, states: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
            with full_precision(states.device):
                scores = self.head.span(states)
                best = span_scores(scores, batch)
                logits = self.graded(self.trunk.pool(states, mask), batch.pairs, best)
            each = zip(batch.pairs, logits, scores, strict=True)
            return [(logit, score[: len(pair)]) for pair, logit, score in each]

        found = trunk_passes(self.trunk, encoded, run, pad_id=self.tokenizer.pad_id)
        return torch.stack([logit for logit, _ in found]), [score for _, score in found]

    @torch.inference_mode()
    def grades(self, rows: Sequence[Judged]) -> list[float]:
        """Grade the pairs of some rows in [-1, 1], as the saved evaluator does."""
        self.eval()
        parts = [self.logits(self.encoded(some))[0] for some in chunks(rows, 8)]
        return [grade(logit) for part in parts for logit in part.tolist()]

    def graded(self, pooled: Tensor, batch: Sequence[EncodedPair], best: Tensor) -> Tensor:
        """Run the head on a batch whose best spans score `best`.

        Args:
            pooled: Vectors of the pairs. Shape: (pairs, width).
            batch: The pairs.
            best: Scores of their best spans. Shape: (pairs,).
        """
        found: Tensor = self.head(pooled, self.clues.features(batch).to(pooled.device), best)
        return found


def losses(logits: Tensor, holds: Tensor, sizes: Sequence[int]) -> dict[str, Tensor]:
    """Compute the weighted losses of pairs, questions and lists.

    Args:
        logits: Logits, grouped by question. Shape: (pairs,).
        holds: Whether each passage contains the answer, 0 or 1. Shape: (pairs,).
        sizes: Number of pairs of each question.

    Returns:
        Losses, shape () each: "pair", the cross-entropy per pair; "question", 0.5 times that of
        each question's highest logit; "rank", 0.3 times the listwise loss of the questions with
        both kinds of passages.
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
    """Yield the tokens of the answers in each passage.

    Args:
        rows: Judged questions.
        encoded: Their encoded pairs, in the same order.

    Yields:
        The first and last token of each occurrence. None if the passage contains the answer but
        its place is unknown; empty if it does not contain it.
    """
    pairs = [(row, i) for row in rows for i in range(len(row.passages))]
    for (row, i), pair in zip(pairs, encoded, strict=True):
        if not row.holds[i]:
            yield []
            continue
        found = [
            span_between(pair.offsets, *match.span())
            for answer in row.answers
            for match in re.finditer(
                rf"(?<!\w){re.escape(answer)}(?!\w)", row.passages[i].text, re.IGNORECASE
            )
        ]
        yield [span for span in found if span] or None


LabelledPair: TypeAlias = tuple[str, Passage, int]


def labelled_pairs(rows: Sequence[Judged]) -> list[LabelledPair]:
    """Split judged questions into single pairs, the unit of the paper's batches."""
    return [
        (*pair, holds) for row in rows for pair, holds in zip(row.pairs, row.holds, strict=True)
    ]


class RegressionModule(nn.Module):
    """Classifier with one output, and its squared error from +1 and -1.

    Its parts are `trunk` and `head`.

    Args:
        model: Classifier.
        tokenizer: Tokenizer of the classifier.
        tune: Weights to train: full, lora or head.
        rank: Rank of the LoRA adapter.
        input_format: "plain" for the text, "titled" for title and text.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, tune: str, rank: int, input_format: InputFormat
    ) -> None:
        super().__init__()
        options = Options(device="cpu", dtype="float32")
        self._grader = SequenceGrader(model, tokenizer, options, input_format=input_format)
        model.requires_grad_(True)
        if tune == "lora":
            setattr(model, model.base_model_prefix, with_lora(model.base_model, rank=rank))
        elif tune == "head":
            model.base_model.requires_grad_(False)
        self.trunk: nn.Module = model.base_model
        self.head = nn.ModuleDict(
            {name: part for name, part in model.named_children() if part is not self.trunk}
        )
        for part in self.head.values():
            part.forward = _in_full_precision(part)

    @property
    def model(self) -> Any:
        """Return the whole classifier."""
        return self._grader._model

    def forward(self, batch: Sequence[LabelledPair]) -> dict[str, Tensor]:
        """Compute the mean squared error of a batch.

        Args:
            batch: Labeled pairs.
        """
        wanted = torch.tensor([2.0 * holds - 1.0 for *_, holds in batch], device=device_of(self))
        return {"error": (self.outputs(batch) - wanted).square().mean()}

    def outputs(self, batch: Sequence[LabelledPair]) -> Tensor:
        """Return the output of each pair, from its first chunk. Shape: (pairs,)."""
        inputs = [self._grader._encoded(question, passage)[0] for question, passage, _ in batch]
        return self._grader.logits(inputs, device_of(self))

    @torch.inference_mode()
    def grades(self, pairs: Sequence[LabelledPair], *, at_once: int = 32) -> list[float]:
        """Grade pairs in [-1, 1] by their first chunk.

        Args:
            pairs: Labeled pairs.
            at_once: Pairs per batch.
        """
        self.eval()
        order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1].text))
        found: dict[int, float] = {}
        for places in chunks(order, at_once):
            outputs = self.outputs([pairs[i] for i in places]).clamp(-1, 1).tolist()
            found |= dict(zip(places, outputs, strict=True))
        return [found[i] for i in range(len(pairs))]

    def save(self, out: Path, fields: dict[str, object]) -> None:
        """Save a transformers checkpoint with its adapters merged.

        Args:
            out: Folder to write.
            fields: Entries of its `model.json`.
        """
        trunk: Any = self.trunk
        if hasattr(trunk, "merge_and_unload"):
            setattr(self.model, self.model.base_model_prefix, trunk.merge_and_unload())
        out.mkdir(parents=True, exist_ok=True)
        self._grader.save(out)
        write_manifest(
            out,
            "model.json",
            kind=KIND,
            fields={"input_format": self._grader.input_format, **fields},
        )


def start_regression(
    base: str, *, tune: str, rank: int, input_format: InputFormat
) -> RegressionModule:
    """Load a base model, with a new head unless it has one with a single output.

    A decoder's head reads the last token before the padding, for which its end token serves if the
    tokenizer has no padding token.

    Args:
        base: Hub name or folder.
        tune: Weights to train: full, lora or head.
        rank: Rank of the LoRA adapter.
        input_format: "plain" for the text, "titled" for title and text.

    Raises:
        InputError: If the tokenizer of a base has neither a padding nor an end token.
    """
    checkpoint = Checkpoint(weights_source(base), f"base model {base!r}")
    kind: Kind = "AutoModelForSequenceClassification"
    model = checkpoint.model(kind, outputs=1, new=CLASSIFIER, dtype=torch.float32)
    tokenizer = checkpoint.tokenizer()
    refuse_if(
        tokenizer.pad_token is None and tokenizer.eos_token is None,
        "pad_token",
        base,
        "a tokenizer with a pad_token or eos_token (in its tokenizer_config.json)",
    )
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return RegressionModule(model, tokenizer, tune=tune, rank=rank, input_format=input_format)


def _in_full_precision(part: nn.Module) -> Callable[..., Any]:
    """Wrap a head's pass: its output is cut near -1, where bfloat16 has steps of .004."""
    forward = part.forward

    @wraps(forward)
    def run(states: Tensor, *more: Any) -> Any:
        with full_precision(states.device):
            return forward(states, *more)

    return run
