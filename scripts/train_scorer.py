"""Train the embedded bi-label scorer over the rows of `scripts/scorer_rows.py`.

    python scripts/train_scorer.py START ROWS OUT

The embedded reader says which passages it answers right from (llm_prefer); it quotes, so only
those that hold an answer are read. The scorer then goes on from an evaluator in the folder START,
and is calibrated on whole lists of other questions. Started again it goes on where it stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file
from sklearn.metrics import roc_auc_score
from span_scorer import Preferred, SpanPlan, calibrated, fit_span_scorer

from fitrag_integrations.evaluation.answers import contains_answer
from fitrag_integrations.evaluation.outcomes import calibration_error
from fitrag_integrations.models.reader import ExtractiveReader
from fitrag_integrations.models.runtime.folder import read_manifest, write_manifest, write_tensors
from fitrag_integrations.models.scorer.bilabel import BiLabelScorer
from fitrag_integrations.training.rows import Judged, judged_row, read_jsonl

LABELS = ("has_answer", "llm_prefer")


def main() -> None:
    """Label, fit, calibrate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("start", type=Path, help="the evaluator whose encoder and head it takes up")
    parser.add_argument("rows", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=SpanPlan.steps)
    args = parser.parse_args()
    torch.set_num_threads(1)
    plan = SpanPlan(base=str(args.start), steps=args.steps)
    fit_span_scorer(preferred(args.rows / "asked.jsonl"), args.out, plan)
    calibrate(preferred(args.rows / "held.jsonl"), args.out)


def preferred(path: Path) -> list[Preferred]:
    """Read judged questions, and ask the reader about the passages that hold an answer."""
    rows = [judged_row(row) for row in read_jsonl(path)]
    asked = [(n, i) for n, row in enumerate(rows) for i, holds in enumerate(row.holds) if holds]
    reader = ExtractiveReader.embedded(dtype="bfloat16")
    answers = reader.read([(rows[n].question, rows[n].passages[i]) for n, i in asked])
    reader.unload()
    right = {
        at
        for at, answer in zip(asked, answers, strict=True)
        if contains_answer(answer.text, rows[at[0]].answers)
    }
    return [Preferred(row, _prefers(row, n, right)) for n, row in enumerate(rows)]


def _prefers(row: Judged, n: int, right: set[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(int((n, i) in right) for i in range(len(row.passages)))


def calibrate(held: list[Preferred], out: Path) -> None:
    """Fit temperature and shift per label, keep them with the weights, and say what was reached."""
    scorer = BiLabelScorer.from_pretrained(out, dtype="bfloat16")
    pairs = [(row.judged.question, passage) for row in held for passage in row.judged.passages]
    scores = scorer.score(pairs)
    scorer.unload()
    gold = [
        [label for row in held for label in row.judged.holds],
        [label for row in held for label in row.prefers],
    ]
    logits = [[s.has_answer_logit for s in scores], [s.llm_prefer_logit for s in scores]]
    found = [calibrated(x, y) for x, y in zip(logits, gold, strict=True)]
    before = scorer.manifest.get("temperatures", (1.0, 1.0))
    for name, x, y, how in zip(LABELS, logits, gold, found, strict=True):
        chances = (torch.tensor(x) / how.temperature + how.shift).sigmoid().tolist()
        error = calibration_error(chances, y)
        print(f"{name}: AUC {roc_auc_score(y, x):.3f}, ECE {error:.3f} (fitted here), {how}")
    temperatures = [how.temperature * t for how, t in zip(found, before, strict=True)]
    _store(out, temperatures, [h.shift * t for h, t in zip(found, temperatures, strict=True)])


def _store(out: Path, temperatures: list[float], shifts: list[float]) -> None:
    fields = read_manifest(out, "model.json", kind="bilabel", needs=("head",))
    tensors = load_file(out / fields["head"]["file"])
    tensors["head.out.bias"] = tensors["head.out.bias"] + torch.tensor(shifts)
    fields["head"] |= write_tensors(out, fields["head"]["file"], tensors)
    fields["temperatures"] = temperatures
    write_manifest(out, "model.json", kind="bilabel", fields=fields)


if __name__ == "__main__":
    main()
