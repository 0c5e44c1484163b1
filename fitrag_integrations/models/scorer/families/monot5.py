"""monoT5 (Nogueira et al., 2020): a T5 that answers "true" or "false".

The score is the logit of "true" less that of "false" at the first step of the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fitrag_integrations.errors import ModelLoadError
from fitrag_integrations.models.encoder.pairs import (
    Pair,
    PairTokenizer,
    Tokens,
    places_of,
    rows_of,
    title_of,
    whole,
)
from fitrag_integrations.models.scorer.families.family import Family, Folder, Loaded, OutputRows

T5_LIKE = ("t5", "mt5", "umt5")


def _load(folder: Folder) -> Loaded:
    yes, no = (folder.token(word) for word in ("true", "false"))
    if yes == no:
        raise ModelLoadError(f"{folder.checkpoint.what}: true and false are one token, {yes}")
    trunk = TrueOrFalse(folder.checkpoint.model("AutoModelForSeq2SeqLM"), yes=yes, no=no)
    return trunk, QueryDocument(folder.tokenizer, max_length=folder.length())


class TrueOrFalse(nn.Module):
    """A T5 whose output layer is reduced to two rows."""

    def __init__(self, encoder: Any, *, yes: int, no: int) -> None:
        super().__init__()
        self.encoder = encoder
        encoder.lm_head = OutputRows(encoder.lm_head, [yes, no])
        self.start: int = encoder.config.decoder_start_token_id

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return the logit of "true" less that of "false". Shape: (batch,)."""
        first = torch.full((len(ids), 1), self.start, device=ids.device)
        given = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": first}
        logits: Tensor = self.encoder(**given, use_cache=False).logits[:, 0]
        return logits[:, 0] - logits[:, 1]


class QueryDocument(PairTokenizer):
    """Tokenizer of pairs as monoT5 reads them: `Query: ... Document: title. text Relevant:`."""

    def _encode(self, pairs: Sequence[Pair]) -> list[Tokens]:
        made = []
        for question, passage in pairs:
            text = whole(passage.text)
            before = f"Query: {self._question(question)} Document: {title_of(passage.title)}"
            encoded = self._fast.encode(f"{before}{text} Relevant:")
            found = rows_of(encoded.ids, 0, 1, places_of(encoded.offsets, len(before), text))
            found[2, found[3] >= 0] = 2
            made.append(found)
        return made


FAMILY = Family(
    "monot5",
    scales=("tokens",),
    fits=lambda folder: (
        folder.config.model_type in T5_LIKE
        and "Classification" not in " ".join(folder.config.architectures or [])
    ),
    load=_load,
)
