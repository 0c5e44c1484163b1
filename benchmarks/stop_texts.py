"""Time what a step of generation costs the host, by the length of what was written.

    python benchmarks/stop_texts.py listener [--rows 256] [--lengths 16 64 256]
    python benchmarks/stop_texts.py step [--kinds llama qwen2]

`listener` times looking for stop texts alone. A row's new token is decoded with the few before it,
so a step costs the same whatever was written. Beside it, `whole` decodes all of a row's ids at each
step, as this package did until 2026-11-23: its cost grows with the text. No model runs; the texts
are this repository's documentation.

`step` times whole steps of `LocalGenerator.generate` with stop texts: a model of 2 layers and width
64 with random weights, its sampling, and the search for stop texts. PYTHONPATH chooses the version
of the package: 5df6d49 is the last one that decoded all ids and measured the certainty of each
token whether or not it was read.

The tokenizer is the bundled language model's. Shown is the median processor time of the eight steps
up to each length.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from fitrag_integrations.models import LocalGenerator
from fitrag_integrations.models.runtime.loading import Checkpoint
from fitrag_integrations.models.runtime.saved import embedded_folder

KINDS = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
STOP = ("Question:",)
STEPS = 8


def main() -> None:
    """Print a line for each length."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=("listener", "step"))
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    longest = max(args.lengths)
    tokenizer: Any = Checkpoint(str(embedded_folder("closed_book")), "tokenizer").tokenizer()
    print(f"{args.rows} rows; milliseconds of the processor a step")
    if args.what == "listener":
        now, whole = listened(tokenizer, args.rows, args.lengths, longest)
        for length in args.lengths:
            print(
                f"at {length:3} tokens: {median_at(now, length):6.1f}, whole {whole[length]:6.1f}"
            )
    else:
        for kind in args.kinds:
            took = generated(tokenizer, kind, args.rows, longest)
            shown = ", ".join(f"{n} tokens {median_at(took, n):6.1f}" for n in args.lengths)
            print(f"{kind}, at {shown}", flush=True)


def median_at(took: Sequence[float], length: int) -> float:
    """Return the median time of the steps up to a length."""
    return statistics.median(took[length - STEPS : length])


def listened(
    tokenizer: Any, count: int, lengths: Sequence[int], longest: int
) -> tuple[list[float], dict[int, float]]:
    """Time the search for stop texts at each step, and decoding all ids after each length."""
    from fitrag_integrations.models.causal.decoding import _Listener

    pages = Path(__file__).parents[1].glob("docs/**/*.md")
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    ids = tokenizer(text, verbose=False)["input_ids"]
    starts = [n * len(ids) // count for n in range(count)]
    rows = torch.tensor([(ids + ids)[at : at + longest] for at in starts])
    listener, took = _Listener(tokenizer, count, STOP, None), list[float]()
    whole: dict[int, float] = {}
    for step in range(1, longest + 1):
        began = time.process_time()
        listener(rows[:, :step], None)
        took.append(1000 * (time.process_time() - began))
    for length in lengths:
        times = []
        for step in range(length - STEPS + 1, length + 1):
            began = time.process_time()
            texts = tokenizer.batch_decode(rows[:, :step].tolist(), skip_special_tokens=True)
            [any(stop in text for stop in STOP) for text in texts]
            times.append(1000 * (time.process_time() - began))
        whole[length] = statistics.median(times)
    return took, whole


def generated(tokenizer: Any, kind: str, count: int, longest: int) -> list[float]:
    """Time each step of a model with random weights, from one forward pass to the next."""
    made = getattr(importlib.import_module("transformers"), KINDS[kind])
    config = made.config_class(
        vocab_size=len(tokenizer) + 1,  # the tokenizer of Qwen adds a token of its own
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        initializer_range=0.3,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
    )
    torch.manual_seed(13)
    with tempfile.TemporaryDirectory() as folder:
        made(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        writer = LocalGenerator.from_pretrained(
            folder, device="cpu", batch_tokens=10**6, max_new_tokens=longest + 1, stop=STOP
        )
    times: list[float] = []
    model: Any = writer._engine.model
    model.register_forward_pre_hook(lambda *_: times.append(1000 * time.process_time()))
    vocabulary = [word for word in tokenizer.get_vocab() if word.isalpha()]
    prompts = [" ".join(vocabulary[n % len(vocabulary) :][:8]) for n in range(count)]
    writer.generate(prompts)
    writer.unload()
    return [second - first for first, second in zip(times, times[1:], strict=False)]


if __name__ == "__main__":
    main()
