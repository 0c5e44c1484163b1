"""The small networks on top of a trunk, and their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from fitrag_integrations.errors import ModelLoadError, raise_if
from fitrag_integrations.models.encoder.items import ANSWER_TOKENS, FURTHEST
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair, Rarity
from fitrag_integrations.models.runtime.folder import read_tensors, write_tensors

Read: TypeAlias = tuple[Tensor, Tensor]  # vector of a chunk, and its tokens' scores, (tokens, 2)


class ReaderHead(nn.Module):
    """Head with the scores of an answer's first and last token, and of its passage.

    DPR's reader (Karpukhin et al., 2020, section 6.1): two token scores and one passage score.
    With `units`, the passage score also has a layer of so many units and a line over `features`,
    the last of which is the best answer's score.
    """

    def __init__(self, width: int, *, features: int = 0, units: int = 0) -> None:
        super().__init__()
        self.span = nn.Linear(width, 2)
        self.select = nn.Linear(width, 1)
        self.units = nn.Linear(features, units) if units else None
        self.mixed = nn.Linear(units, 1, bias=False) if units else None
        self.line = nn.Linear(features, 1, bias=False) if units else None

    def forward(self, states: Tensor, pooled: Tensor) -> tuple[Tensor, Tensor]:
        """Return span logits and select logits, of the passage's vector alone.

        Shapes: (batch, tokens, 2), columns are start and end; and (batch,).
        """
        return self.span(states), self.select(pooled).squeeze(-1)

    def extra_logits(self, features: Tensor) -> Tensor:
        """Return what the features add to the select logits. Shapes: (batch, features);
        (batch,).
        """
        if self.units is None or self.mixed is None or self.line is None:
            return torch.zeros(len(features), device=features.device)
        added: Tensor = self.line(features) + self.mixed(torch.tanh(self.units(features)))
        return added.squeeze(-1)


class Standardized(nn.Module):
    """Network whose features are standardized by the mean and deviation of training rows."""

    shift: Tensor
    scale: Tensor
    least = 1e-3  # deviation that is divided by

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    def standardize(self, features: Tensor) -> None:
        """Store the mean and deviation of features, if there are any. Shape: (rows, features)."""
        if features.numel():
            self.shift.copy_(features.mean(0))
            self.scale.copy_(1 / features.std(0).clamp(min=self.least))

    def alike(self, features: Tensor) -> Tensor:
        """Return features as the network reads them. Shape: (rows, features)."""
        return (features - self.shift) * self.scale


class BiLabelHead(Standardized):
    """Head with the logits of `has_answer` and `llm_prefer` (FIT-RAG, section 4.2.1).

    Two outputs over the pooled pair. `features` more inputs per pair (such as lexical overlap) and
    one hidden layer of `hidden` units are added where they are above 0. With `units`, the features
    have a layer of so many units to themselves, added to a line over the pooled pair. They are
    brought to mean 0 and deviation 1 by numbers that `standardize` takes from the training rows.
    With `spans` there are two token scores besides, as a reader has them; whoever runs the head
    gives the best span's as the last feature.
    """

    least = 1e-6

    def __init__(
        self,
        width: int,
        *,
        features: int = 0,
        hidden: int = 0,
        units: int = 0,
        spans: bool = False,
    ) -> None:
        super().__init__(features)
        self.span = nn.Linear(width, 2) if spans else None
        inside = width if units else width + features
        self.units = nn.Linear(features, units) if units else None
        self.mixed = nn.Linear(units, 2, bias=False) if units else None
        self.hidden = nn.Linear(inside, hidden) if hidden else None
        self.out = nn.Linear(hidden or inside, 2)

    def forward(self, pooled: Tensor, features: Tensor) -> Tensor:
        """Return logits. Shape: (batch, 2); columns are has_answer, llm_prefer."""
        alike = self.alike(features)
        both = pooled if self.units is not None else torch.cat([pooled, alike], dim=-1)
        if self.hidden is not None:
            both = torch.tanh(self.hidden(both))
        logits: Tensor = self.out(both)
        if self.units is not None and self.mixed is not None:
            logits = logits + self.mixed(torch.tanh(self.units(alike)))
        return logits


def best_spans(
    span_logits: Tensor, allowed: Tensor, *, max_tokens: int = ANSWER_TOKENS
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the best span of at most `max_tokens` tokens inside the allowed tokens of each row.

    Shapes: span_logits (batch, tokens, 2), allowed (batch, tokens) bool. Gives the score (start
    logit + end logit), first and last token of each row, shape (batch,). A row that allows no
    token scores -inf.
    """
    scores, ends = _scores(span_logits, allowed, max_tokens)
    best, first = scores.max(1)
    places = first.unsqueeze(1) + torch.arange(max_tokens, device=ends.device)
    return best, first, first + ends.gather(1, places).argmax(1)


def _scores(span_logits: Tensor, allowed: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the best score of a span from each token on, and the ends', padded for spans."""
    start, end = span_logits.masked_fill(~allowed.unsqueeze(2), -torch.inf).unbind(2)
    ends = F.pad(end, (0, most - 1), value=-torch.inf)
    return start + F.max_pool1d(ends.unsqueeze(1), most, stride=1).squeeze(1), ends


def read_head(
    folder: Path, entry: dict[str, Any], vocabulary: int
) -> tuple[dict[str, Tensor], Rarity | None]:
    """Return the tensors of a head by name, and the rarity of each token, if it uses that.

    Args:
        folder: Folder of the model.
        entry: Entry of the head in the manifest.
        vocabulary: Number of tokens that there are.
    """
    tensors = {
        name.removeprefix("head."): tensor for name, tensor in read_tensors(folder, entry).items()
    }
    rarity = tensors.pop("rarity", None)
    if rarity is None:
        return tensors, None
    raise_if(
        rarity.dim() != 1 or len(rarity) < vocabulary,
        ModelLoadError,
        f"{folder / entry['file']}: rarity has the shape {list(rarity.shape)}; it must have a "
        f"number for each of the {vocabulary} tokens",
    )
    return tensors, rarity.double().numpy()


def gathered(read: Sequence[Read], chunks: Sequence[EncodedPair]) -> tuple[Tensor, Tensor]:
    """Collect the vectors of all chunks and the scores of their best spans, on the CPU.

    Shapes: (chunks, width), (chunks,).
    """
    vectors, marked = zip(*read, strict=True)
    scores = pad_sequence(list(marked), batch_first=True)
    one = torch.cat([torch.stack(vectors), scores.flatten(1)], dim=1).cpu()  # one copy, one wait
    pooled, scores = one[:, : len(vectors[0])], one[:, len(vectors[0]) :].view(scores.shape)
    marks = bool(scores.shape[1])
    return pooled, span_scores(scores, Batch.of(chunks)) if marks else pooled.new_zeros(len(pooled))


def span_scores(logits: Tensor, batch: Batch) -> Tensor:
    """Return the best span's start and end score, summed; a chunk without text has the lowest.

    Shapes: (batch, tokens, 2); gives (batch,).
    """
    allowed = torch.from_numpy(batch.placed).to(logits.device)
    return _scores(logits, allowed, ANSWER_TOKENS)[0].amax(1).clamp(min=-FURTHEST)


def write_head(folder: Path, head: nn.Module, rarity: Rarity | None) -> dict[str, str]:
    """Save a head, and the rarity of tokens if it uses it; return the entry that names the file."""
    tensors = {f"head.{name}": tensor for name, tensor in head.state_dict().items()}
    if rarity is not None:
        tensors["rarity"] = torch.as_tensor(rarity, dtype=torch.float16)
    return write_tensors(folder, "head.safetensors", tensors)
