"""Time how long the host looks for stop texts in a step of generation, by what was written.

    python benchmarks/stop_texts.py [--rows 256] [--lengths 16 64 256]

A row's new token is decoded with the few before it, so a step costs the same whatever was
written. Beside it, `whole` decodes all of a row's ids at each step, as this package did until
2026-11-23: its cost grows with the text. The tokenizer is the bundled language model's, the texts
are this repository's documentation, and no model runs. Shown is the median processor time of the
steps after each length.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from fitrag_integrations.models.causal.decoding import _Listener
from fitrag_integrations.models.runtime.loading import Checkpoint
from fitrag_integrations.models.runtime.saved import embedded_folder

STOP = ("Question:",)
STEPS = 8


def main() -> None:
    """Print a line for each length."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256])
    args = parser.parse_args()
    tokenizer: Any = Checkpoint(str(embedded_folder("closed_book")), "tokenizer").tokenizer()
    pages = Path(__file__).parents[1].glob("docs/**/*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    ids = tokenizer(text, verbose=False)["input_ids"]
    longest = max(args.lengths) + STEPS
    starts = [n * len(ids) // args.rows for n in range(args.rows)]
    rows = torch.tensor([(ids + ids)[at : at + longest] for at in starts])
    listener = _Listener(tokenizer, args.rows, STOP, None)
    took: dict[int, float] = {}
    for step in range(1, longest + 1):
        began = time.process_time()
        listener(rows[:, :step], None)
        took[step] = 1000 * (time.process_time() - began)
    print(f"{args.rows} rows; milliseconds of the processor a step")
    for length in args.lengths:
        whole = []
        for step in range(length, length + STEPS):
            began = time.process_time()
            texts = tokenizer.batch_decode(rows[:, :step].tolist(), skip_special_tokens=True)
            [any(stop in text for stop in STOP) for text in texts]
            whole.append(1000 * (time.process_time() - began))
        now = statistics.median(took[step] for step in range(length, length + STEPS))
        print(f"after {length:3} tokens: {now:6.1f}, whole {statistics.median(whole):6.1f}")


if __name__ == "__main__":
    main()
