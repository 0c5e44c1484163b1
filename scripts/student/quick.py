"""The student by torch, straight from a run: to choose, fit and measure by.

Products are rounded as the bundled engine rounds them. In bfloat16, where that is faster, it takes
half the graph's time, and is apart from it by rounding.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from export import unfitted
from model import ATTENTION, SHIPPED, halved, load, rounded, shipped_lines
from reference import Chunk, Student
from tokenizers import Tokenizer

from fitrag_integrations.models.runtime.sources import MINILM, weights_source

TOGETHER = 16


class Quick(Student):
    """Judge as the graph does; FOLDER holds weights as fit.py writes them, or is "shipped"."""

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)
        self.model = load(folder, attention=ATTENTION)[0]
        rounded(self.model.encoder)
        self.model.encoder.forward = halved()(self.model.encoder.forward)
        self.tokenizer = Tokenizer.from_file(str(Path(weights_source(MINILM)) / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        file = folder / "fitted.json"
        self.fitted = json.loads(file.read_text()) if file.exists() else unfitted()
        if folder == SHIPPED:
            self.fitted = shipped_lines()

    def run(self, chunks: Sequence[Chunk]) -> list[tuple[Any, Any]]:
        """Run chunks of like length together. Gives labels and token scores."""
        order = sorted(range(len(chunks)), key=lambda i: len(chunks[i].ids))
        made: list[Any] = [None] * len(chunks)
        for at in range(0, len(order), TOGETHER):
            some = order[at : at + TOGETHER]
            width = max(len(chunks[i].ids) for i in some)
            given = np.zeros((4, len(some), width), np.int64)
            for row, i in enumerate(some):
                chunk, size = chunks[i], len(chunks[i].ids)
                given[:, row, :size] = (
                    chunk.ids,
                    [1] * size,
                    chunk.types,
                    [bool(p) for p in chunk.places],
                )
            with torch.inference_mode():
                labels, tokens = self.model(*torch.from_numpy(given))
            for row, i in enumerate(some):
                size = len(chunks[i].ids)
                made[i] = (labels[row].numpy(), tokens[row, :size].numpy())
        return made


def student(folder: Path) -> Student:
    """Load a run where the folder is one, else a graph."""
    run = folder == SHIPPED or (folder / "student.safetensors").exists()
    return Quick(folder) if run else Student(folder)
