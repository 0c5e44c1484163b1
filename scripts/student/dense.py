"""Retrieve by cosine of MiniLM's mean vectors, run by onnxruntime; the texts cut to 64 tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fitrag_integrations.models.runtime.sources import MINILM, weights_source
from fitrag_integrations.types import Passage

TOKENS = 64


def dense_search(
    graph: Path, pool: Sequence[Passage], cache: Path, *, depth: int
) -> Callable[[Sequence[str]], list[list[Passage]]]:
    """Encode the pool once, and give the function that ranks it for questions."""
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(Path(weights_source(MINILM)) / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.no_padding()

    def encode(texts: Sequence[str]) -> Any:
        rows = [e.ids for e in tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        made = np.zeros((len(rows), 384), np.float32)
        for at in range(0, len(order), 32):
            some = order[at : at + 32]
            width = max(len(rows[i]) for i in some)
            ids = np.array([rows[i] + [0] * (width - len(rows[i])) for i in some])
            mask = np.array([[1] * len(rows[i]) + [0] * (width - len(rows[i])) for i in some])
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": 0 * ids}
            (states,) = session.run(None, given)
            mean = (states * mask[..., None]).sum(1) / mask.sum(1)[:, None]
            made[some] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return made

    if cache.exists():
        vectors = np.load(cache)
    else:
        vectors = encode([f"{p.title}. {p.text}" if p.title else p.text for p in pool])
        np.save(cache, vectors)

    def search(questions: Sequence[str]) -> list[list[Passage]]:
        found = (np.argsort(-(vectors @ asked))[:depth] for asked in encode(questions))
        return [[pool[i] for i in best] for best in found]

    return search
