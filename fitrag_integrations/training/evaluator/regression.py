"""Train a retrieval evaluator as CRAG does (section 4.2, appendix B.3).

A checkpoint with one output, the paper's is T5-large, reads "question [SEP] passage" and is fitted
to +1 where the passage is right and to -1 where it is not, pair by pair, by the squared error. What
is saved is a checkpoint of transformers that loads like the paper's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from fitrag_integrations.errors import InputError
from fitrag_integrations.models.evaluator.sequence_classifier import (
    InputFormat,
    SequenceGrader,
    write_fields,
)
from fitrag_integrations.models.runtime.engine import Options
from fitrag_integrations.models.runtime.loading import CLASSIFIER, Checkpoint, Kind
from fitrag_integrations.models.runtime.sources import weights_source
from fitrag_integrations.training.evaluator.rows import Judged
from fitrag_integrations.training.loop.device import device_of, full_precision
from fitrag_integrations.training.loop.tuning import with_lora
from fitrag_integrations.types import Passage

LabelledPair: TypeAlias = tuple[str, Passage, int]


def labelled_pairs(rows: Sequence[Judged]) -> list[LabelledPair]:
    """Split judged questions into pairs, which are the paper's batches."""
    return [
        (row.question, passage, holds)
        for row in rows
        for passage, holds in zip(row.passages, row.holds, strict=True)
    ]


class RegressionModule(nn.Module):
    """A classifier of one output, and its squared error from +1 and -1.

    `trunk` and `head` are its parts; what trains of them is said by `tune`: full, lora or head.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, tune: str, rank: int, input_format: InputFormat
    ) -> None:
        super().__init__()
        options = Options(device="cpu", dtype="float32")
        self._grader = SequenceGrader(model, tokenizer, options, input_format=input_format)
        self._pad_id: int = tokenizer.pad_token_id or 0
        self._parts = [model]  # in a list: its parts are registered below, each once
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
        """The classifier whole."""
        return self._parts[0]

    def forward(self, batch: Sequence[LabelledPair]) -> dict[str, Tensor]:
        """Return the mean squared error of a batch."""
        wanted = torch.tensor([2.0 * holds - 1.0 for *_, holds in batch], device=device_of(self))
        return {"error": (self.outputs(batch) - wanted).square().mean()}

    def outputs(self, batch: Sequence[LabelledPair]) -> Tensor:
        """Return the output of each pair, of a long passage for its first chunk. Shape:
        (pairs,).
        """
        inputs = [self._grader._encoded(question, passage)[0].ids for question, passage, _ in batch]
        rows = [torch.tensor(ids) for ids in inputs]
        ids = pad_sequence(rows, batch_first=True, padding_value=self._pad_id)
        mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        (model,), device = self._parts, device_of(self)
        found: Tensor = model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
        return found.float().squeeze(-1)

    @torch.inference_mode()
    def grades(self, pairs: Sequence[LabelledPair], *, at_once: int = 32) -> list[float]:
        """Grade pairs in [-1, 1], as the saved evaluator does but for what follows 512 tokens."""
        self.eval()
        order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][1].text))
        found: dict[int, float] = {}
        for at in range(0, len(order), at_once):
            places = order[at : at + at_once]
            outputs = self.outputs([pairs[i] for i in places]).clamp(-1, 1).tolist()
            found |= dict(zip(places, outputs, strict=True))
        return [found[i] for i in range(len(pairs))]

    def save(self, out: Path, fields: dict[str, object]) -> None:
        """Save a checkpoint of transformers, adapters folded in, and `fields` beside it."""
        (model,) = self._parts
        trunk: Any = self.trunk
        if hasattr(trunk, "merge_and_unload"):
            setattr(model, model.base_model_prefix, trunk.merge_and_unload())
        out.mkdir(parents=True, exist_ok=True)
        self._grader.save(out)
        write_fields(out, {"input_format": self._grader.input_format, **fields})


def start_regression(
    base: str, *, tune: str, rank: int, input_format: InputFormat
) -> RegressionModule:
    """Load a base by name or folder, with a new head where it has none of one output.

    A decoder's head reads the last token before the padding, for which its end token serves where
    the tokenizer has no padding token.
    """
    checkpoint = Checkpoint(weights_source(base), f"base model {base!r}")
    kind: Kind = "AutoModelForSequenceClassification"
    model = checkpoint.model(kind, outputs=1, new=CLASSIFIER, dtype=torch.float32)
    tokenizer = checkpoint.tokenizer()
    if tokenizer.pad_token is None and tokenizer.eos_token is None:
        allowed = "a tokenizer with a pad_token or eos_token (in its tokenizer_config.json)"
        raise InputError.of("pad_token", given=base, allowed=allowed)
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
