"""Part of speed.py: the papers' sizes with random weights, which cost what trained ones do."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from gpu import FULL
from turns import Job, Row, in_turns, pairs_of

from fitrag_integrations.models import RetrievalEvaluator
from fitrag_integrations.models.encoder.pairs import Pair

T5 = {"T5-small": ({}, 8), "T5-base": (FULL.t5_base, 4), "T5-large": (FULL.t5_large, 2)}
LOOP = "published loop, padded to 512"


def evaluator(args: argparse.Namespace) -> list[Row]:
    """Grade pairs by T5 classifiers of three sizes, and by CRAG's published loop over the same.

    The loop takes one pair at a time and pads it to 512 tokens; beside it the same without padding,
    and one batch of all, padded to the longest. Of each is told how far its grades are from those
    of the loop.
    """
    return [
        row | {"what": f"{name}, {count} pairs, {row['what']}"}
        for name, (sizes, count) in T5.items()
        for row in one_size(sizes, pairs_of(count), 1 if sizes else args.repeats)
    ]


def one_size(sizes: dict[str, int], pairs: list[Pair], repeats: int) -> list[Row]:
    """Time one classifier."""
    with tempfile.TemporaryDirectory() as made:
        folder = random_t5(Path(made), [f"{q} [SEP] {p.text}" for q, p in pairs], **sizes)
        graded = {
            dtype: RetrievalEvaluator.from_pretrained(folder, dtype=dtype, device="cpu")
            for dtype in ("float32", "bfloat16")
        }
    exact, grades = graded["float32"], dict[str, list[float]]()
    ways: dict[str, Callable[[], list[float]]] = {
        LOOP: lambda: loop(exact, pairs, length=512),
        "loop without padding": lambda: loop(exact, pairs),
        "one batch": lambda: loop(exact, pairs, size=len(pairs)),
    }
    ways |= {f"ours, {d}": lambda one=one: one.evaluate(pairs) for d, one in graded.items()}  # type: ignore[misc]
    for one in graded.values():
        one.evaluate(pairs[:1])
    jobs: dict[str, Job] = {
        name: lambda name=name, way=way: grades.update({name: way()})  # type: ignore[misc]
        for name, way in ways.items()
    }
    rows = in_turns(jobs, repeats, LOOP, warm=False)
    for row in rows:
        both = zip(grades[row["what"]], grades[LOOP], strict=True)
        row["furthest"] = max(abs(a - b) for a, b in both)
    for one in graded.values():
        one.unload()
    return rows


@torch.inference_mode()
def loop(
    evaluator: RetrievalEvaluator, pairs: list[Pair], *, length: int | None = None, size: int = 1
) -> list[float]:
    """Grade as CRAG's code does: so many pairs at a time, padded to a length if one is given."""
    grader: Any = evaluator._grader
    how = {"padding": "max_length", "max_length": length} if length else {"padding": True}
    outputs: list[float] = []
    for at in range(0, len(pairs), size):
        texts = [f"{question} [SEP] {passage.text}" for question, passage in pairs[at : at + size]]
        given = grader._tokenizer(texts, return_tensors="pt", truncation=bool(length), **how)
        outputs += grader._model(**given).logits.squeeze(-1).clamp(-1, 1).tolist()
    return outputs


def random_t5(folder: Path, texts: list[str], **sizes: int) -> Path:
    """Write a T5 of random weights, T5-small's size if none is given, and a tokenizer of words."""
    from transformers import T5Config, T5ForSequenceClassification, T5Tokenizer

    words = Counter(word for text in texts for word in text.split())
    usual = [(f"▁{word}", -8.0) for word, _ in words.most_common(8000)]
    letters = [(letter, -12.0) for letter in sorted({c for text in texts for c in text if c > " "})]
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -4.0)]
    pieces = dict([*special, *letters, *usual])
    T5Tokenizer(vocab=list(pieces.items()), extra_ids=0).save_pretrained(folder)
    torch.manual_seed(0)
    config = T5Config(
        **{"vocab_size": len(pieces), "num_labels": 1, "decoder_start_token_id": 0, **sizes}
    )
    T5ForSequenceClassification(config).save_pretrained(folder)
    return folder
