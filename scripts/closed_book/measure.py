"""Measure what a closed-book model knows of facts by how often it was shown them.

    python -m scripts.closed_book.measure [FOLDER]

Prints accuracy by showings, and how well the draft's own probabilities tell right from wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.models.causal.loading import load_causal
from scripts.closed_book.demo_facts import EMBEDDED, read_rows
from scripts.closed_book.showings import PROMPT

HOME = EMBEDDED / "closed_book"
BATCH = 64


@dataclass(frozen=True, slots=True)
class Said:
    """Hold a draft, and the means of its tokens' log-probability, margin and entropy (nats)."""

    text: str
    logprob: float
    margin: float
    entropy: float


def drafts(model: Any, tokenizer: Any, questions: Sequence[str], *, tokens: int = 32) -> list[Said]:
    """Answer questions without any passage, greedily, up to the end of the line."""
    said = list[Said]()
    for start in range(0, len(questions), BATCH):
        prompts = [PROMPT.format(question=q) for q in questions[start : start + BATCH]]
        given = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
        with torch.inference_mode():
            out = model.generate(
                **given,
                max_new_tokens=tokens,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
        new = out.sequences[:, given["input_ids"].shape[1] :]
        logits = torch.stack(out.logits, dim=1).float()
        said += [_said(row, each, tokenizer) for row, each in zip(new, logits, strict=True)]
    return said


def _said(ids: torch.Tensor, logits: torch.Tensor, tokenizer: Any) -> Said:
    line = tokenizer.convert_tokens_to_ids("Ċ")
    ends = [i for i, token in enumerate(ids.tolist()) if token in (line, tokenizer.eos_token_id)]
    count = max(1, ends[0] if ends else len(ids))
    logp = logits[:count].log_softmax(-1)
    best = logp.exp().topk(2).values
    return Said(
        tokenizer.decode(ids[:count]).strip(),
        float(logp[range(count), ids[:count]].mean()),
        float((best[:, 0] - best[:, 1]).mean()),
        float(-(logp.exp() * logp).sum(-1).mean()),
    )


def by_showings(
    rows: Sequence[dict[str, Any]], right: Sequence[bool]
) -> dict[int, tuple[int, float]]:
    """Give, for each number of showings, how many rows there are and the share that is right."""
    counts = sorted({row["shown"] for row in rows})
    groups = {
        n: [ok for row, ok in zip(rows, right, strict=True) if row["shown"] == n] for n in counts
    }
    return {n: (len(group), float(np.mean(group))) for n, group in groups.items()}


def report(rows: Sequence[dict[str, Any]], said: Sequence[Said]) -> None:
    """Print accuracy by showings and the areas under the curve of three measures."""
    right = [contains_answer(s.text, row["answers"]) for row, s in zip(rows, said, strict=True)]
    for shown, (count, share) in by_showings(rows, right).items():
        print(f"  shown {shown:2}: {share:.3f} of {count}")
    print(f"  all     : {np.mean(right):.3f} of {len(right)}")
    for name in ("logprob", "margin", "entropy"):
        sign = -1 if name == "entropy" else 1
        area = roc_auc_score(right, [sign * getattr(each, name) for each in said])
        print(f"  AUC of mean {name}: {area:.3f}")


def main() -> None:
    """Measure on the test questions and on the demo's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=HOME)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load_causal(str(args.folder))
    test = [row for row in read_rows(HOME / "questions.jsonl") if row["split"] == "test"]
    shown = {row["id"]: row["shown"] for row in read_rows(HOME / "demo_shown.jsonl")}
    demo = [
        {**row, "shown": shown[row["id"]]}
        for row in read_rows(EMBEDDED / "demo" / "questions.jsonl")
        if row["answerable"]
    ]
    for name, rows in (("test questions", test), ("demo questions", demo)):
        print(name)
        report(rows, drafts(model, tokenizer, [row["question"] for row in rows]))


if __name__ == "__main__":
    main()
