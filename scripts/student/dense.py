"""Retrieve by cosine of MiniLM's mean vectors; the texts cut to 48 tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from model import ATTENTION, halved
from safetensors.torch import load_file, save_file

from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.runtime.sources import MINILM, weights_source
from fitrag_integrations.types import Passage

TOKENS = 48


@cache
def base() -> Any:
    """Load MiniLM once."""
    return load_base(MINILM, attention=ATTENTION)[0].encoder.eval()


def dense_search(
    pool: Sequence[Passage], cache: Path, *, depth: int
) -> Callable[[Sequence[str]], list[list[Passage]]]:
    """Encode the pool once, and give the function that ranks it for questions."""
    from tokenizers import Tokenizer

    model = base()
    tokenizer = Tokenizer.from_file(str(Path(weights_source(MINILM)) / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.no_padding()

    def encode(texts: Sequence[str]) -> Any:
        rows = [e.ids for e in tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        made = torch.zeros(len(rows), 384)
        for at in range(0, len(order), 32):
            some = [torch.tensor(rows[i]) for i in order[at : at + 32]]
            ids = torch.nn.utils.rnn.pad_sequence(some, batch_first=True)
            mask = (ids > 0).long()
            with torch.inference_mode(), halved():
                states = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
            mean = (states * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)
            made[order[at : at + 32]] = torch.nn.functional.normalize(mean, dim=1)
        return made

    if cache.exists():
        vectors = load_file(cache)["vectors"]
    else:
        vectors = encode([f"{p.title}. {p.text}" if p.title else p.text for p in pool])
        save_file({"vectors": vectors}, cache)

    def search(questions: Sequence[str]) -> list[list[Passage]]:
        found: list[list[Passage]] = []
        for at in range(0, len(questions), 256):
            best = (encode(questions[at : at + 256]) @ vectors.T).topk(depth).indices
            found += [[pool[i] for i in row] for row in best.tolist()]
        return found

    return search
