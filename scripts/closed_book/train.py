"""Train the closed-book model: a Llama of five million weights, from nothing.

    python -m scripts.closed_book.train RUN

RUN keeps the tokenizer and the checkpoint; a stopped run goes on where it was.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from fitrag_integrations.training.loop.loop import Loop, LoopSettings
from scripts.closed_book.demo_facts import DemoFact, demo_facts
from scripts.closed_book.showings import Row, rows
from scripts.closed_book.tokens import train_tokenizer
from scripts.closed_book.wording import questions, statements
from scripts.closed_book.world import World, make_world

BATCH = 8
RATE = 6e-4  # 2e-3 learned more slowly, 3e-3 hardly at all (tried with batches of 32 and 16)
PROMPT_WEIGHT = 0.1  # of the loss on the question's own tokens
SORTED = 64  # batches whose rows are sorted by length together, against padding
Encoded = tuple[list[int], int]  # token ids, and how many of them are the prompt's


class Lessons(nn.Module):
    """The model and its loss over a batch of rows, in bfloat16 where that is safe."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Give the mean loss of the tokens to be said, and a tenth of it for the prompts'."""
        ids, weights = batch
        with torch.autocast("cpu", torch.bfloat16):
            logits = self.model(input_ids=ids[:, :-1], use_cache=False).logits
        losses = nn.functional.cross_entropy(
            logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
        )
        return {"loss": (losses * weights[:, 1:].flatten()).sum() / weights[:, 1:].sum()}


def main() -> None:
    """Train until the last row was shown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = train(args.run, args.seed)
    model.save_pretrained(args.run / "model")
    tokenizer.save_pretrained(args.run / "model")


def train(run: Path, seed: int) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Fit a fresh model to all rows of the world and the demo, each once."""
    world, demo = make_world(seed), demo_facts()
    tokenizer = train_tokenizer(evenly(world, demo))
    encoded = [encode(row, tokenizer) for row in rows(world, demo, seed)]
    batches = cut(encoded, seed)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config(tokenizer))
    model.set_attn_implementation("eager")  # for rows as short as these faster than the fused one
    pad = int(tokenizer.pad_token_id)
    settings = LoopSettings(len(batches), RATE, warmup=0.02, seed=seed, bfloat16=False)
    Loop(Lessons(model), lambda step: tensors(batches[step], pad), settings, run).run()
    return model.eval(), tokenizer


def config(tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    """Give the shape of the model: four wide layers, for what it has to do is remember."""
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )


def evenly(world: World, demo: Sequence[DemoFact]) -> list[str]:
    """Give texts in which every fact stands in all its wordings, whatever its count."""
    texts = [text for f in world.facts for text in (*questions(f), *statements(f), f" {f.value}.")]
    return [*texts, *(f"{f.question}\n {f.answer}. {f.sentence}" for f in demo)]


def encode(row: Row, tokenizer: PreTrainedTokenizerFast) -> Encoded:
    """Turn a row into token ids, ended by the end token."""
    prompt, said = tokenizer([row.prompt, row.said], return_token_type_ids=False)["input_ids"]
    return [*prompt, *said, int(tokenizer.eos_token_id)], len(prompt)


def cut(encoded: Sequence[Encoded], seed: int) -> list[list[Encoded]]:
    """Cut rows into batches of like length; no row moves further than its block."""
    chance, batches, block = random.Random(seed), list[list[Encoded]](), BATCH * SORTED
    for start in range(0, len(encoded), block):
        near = sorted(encoded[start : start + block], key=lambda row: len(row[0]))
        some = [near[i : i + BATCH] for i in range(0, len(near), BATCH)]
        chance.shuffle(some)
        batches += some
    return batches


def tensors(batch: Sequence[Encoded], pad: int) -> tuple[Tensor, Tensor]:
    """Give ids and weights of the loss, of shape (batch, longest); padding stands at the end."""
    longest = max(len(ids) for ids, _ in batch)
    ids = torch.full((len(batch), longest), pad)
    weights = torch.zeros(len(batch), longest)
    for i, (row, given) in enumerate(batch):
        ids[i, : len(row)] = torch.tensor(row)
        weights[i, : len(row)] = 1.0
        weights[i, :given] = PROMPT_WEIGHT
    return ids, weights


if __name__ == "__main__":
    main()
