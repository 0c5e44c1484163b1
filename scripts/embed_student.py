"""Put a trained student into the package: one trunk, and the heads of all four parts over it.

    python scripts/embed_student.py RUN ROWS [--into EMBEDDED]

RUN holds `student.safetensors`, `fitted.json` and `graph/` of scripts/student, ROWS its
`held.jsonl` and `lists.jsonl`. Torch and the models without it load the same layers and heads, so
that all decisions on a pair come of one pass. What the package then says of held-out pairs is
compared with the student's own graph; more than rounding apart, the script fails and nothing of it
may ship. RUN/judged.jsonl gets the lists that `make embedded-fitted` fits thresholds on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent / "student"))
from embed_bundled import write_layers  # noqa: E402
from model import CLUES, SPAN_SCALE, Student, load  # noqa: E402
from reference import Student as Reference  # noqa: E402
from reference import sigmoid  # noqa: E402

from fitrag_integrations.models import (  # noqa: E402
    ExtractiveReader,
    OnePassScorer,
    RetrievalEvaluator,
)
from fitrag_integrations.models.bundled import (  # noqa: E402
    BundledEvaluator,
    BundledReader,
    BundledScorer,
)
from fitrag_integrations.models.runtime.folder import (  # noqa: E402
    read_manifest,
    write_manifest,
    write_tensors,
)
from fitrag_integrations.models.runtime.sources import MINILM  # noqa: E402
from fitrag_integrations.text.sentences import split_sentences  # noqa: E402
from fitrag_integrations.training.rows import read_jsonl, write_jsonl  # noqa: E402
from fitrag_integrations.types import Passage  # noqa: E402

HOME = Path(__file__).resolve().parent.parent / "fitrag_integrations" / "embedded"
LABELS = {"has_answer": 0, "llm_prefer": 1, "grade": 2, "answered": 3}
SAID = ("has_answer", "llm_prefer", "grade", "trust", "sentence")
SAME = 0.98  # of the answers
NEAR = 0.03  # the embeddings of what runs without torch have eight bits


def main() -> None:
    """Write all parts, then compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--into", type=Path, default=HOME)
    args = parser.parse_args()
    student = load(args.run)[0].requires_grad_(False)
    fitted = json.loads((args.run / "fitted.json").read_text())
    trained = json.loads((args.run / "student.json").read_text())
    told = {"recipe": "scripts/student", **{k: trained[k] for k in ("step", "seed", "kept")}}
    write_trunk(student, args.into / "trunk")
    for name, (tensors, head, fields) in parts(student, fitted).items():
        write_part(args.into / name, name, tensors, head, {**fields, "trained": told})
    write_jsonl(args.run / "judged.jsonl", judged(args.rows / "lists.jsonl"))
    if args.into == HOME:
        compare(args.run, args.rows)


def judged(lists: Path) -> Iterator[dict[str, Any]]:
    """Give the lists as `fitrag calibrate` reads them, half of them with an answer.

    Those with a passage nobody knows go. More of ours are without one than of most retrievers'.
    """
    found: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for row in read_jsonl(lists):
        if all(one["has"] in (0, 1) for one in row["passages"]):
            passages = [
                {"title": one["title"], "text": one["text"], "has_answer": int(one["has"])}
                for one in row["passages"]
            ]
            given = {"question": row["question"], "answers": row["answers"], "passages": passages}
            found[any(one["has_answer"] for one in passages)].append(given)
    for both in zip(found[True], found[False], strict=False):
        yield from both


def write_trunk(student: Student, folder: Path) -> None:
    """Write the layers in whole numbers; the embeddings stay the base's, rounded to eight bits."""
    layers = {
        name.removeprefix("encoder."): tensor.numpy()
        for name, tensor in student.state_dict().items()
        if name.startswith("encoder.encoder.")
    }
    write_layers(folder, layers, pooling="first")


def write_part(
    folder: Path, kind: str, tensors: dict[str, Tensor], head: dict[str, Any], fields: Any
) -> None:
    """Write head and manifest; an encoder of the part's own goes."""
    shutil.rmtree(folder / "encoder", ignore_errors=True)
    entry = {**head, **write_tensors(folder, "head.safetensors", tensors)}
    if kind == "onepass":
        scorer = read_manifest(folder.parent / "bilabel", "model.json", kind="bilabel")
        own = {"scorer": "../bilabel", "scorer_head": scorer["head"]["sha256"]}
    else:
        own = {"base": MINILM, "encoder": "../trunk"}
    write_manifest(folder, "model.json", kind=kind, fields={**own, **fields, "head": entry})


def parts(student: Student, fitted: dict[str, Any]) -> dict[str, Any]:
    """Give each part's tensors, the sizes of its head, and what was fitted."""
    rarity = student.clues.rarity.to(torch.float16)
    span = {"span.weight": student.tokens.weight[:2], "span.bias": student.tokens.bias[:2]}
    lines = {name: Line(student, fitted["labels"], name) for name in LABELS}
    return {
        "bilabel": _bilabel(student, [lines["has_answer"], lines["llm_prefer"]], span, rarity),
        "evaluator": _evaluator(student, lines["grade"], span, rarity, fitted["best_grade"]),
        "reader": _reader(student, list(lines.values()), span, rarity, fitted),
        "onepass": _onepass(student, fitted["sentence"]),
    }


class Line:
    """One label's calibrated logit: a line over the pair's vector and over the units."""

    def __init__(self, student: Student, slopes: dict[str, list[float]], name: str) -> None:
        slope, shift = slopes[name]
        at = LABELS[name]
        self.out = slope * student.labels.weight[at]
        self.bias = slope * student.labels.bias[at] + shift
        self.mixed = slope * student.mixed.weight[at]


def _units(student: Student, name: str) -> dict[str, Tensor]:
    """Give the units over clues and the best answer's score, whose scale they take in."""
    weight = student.units.weight.clone()
    weight[:, -1] *= SPAN_SCALE
    return {f"{name}.weight": weight, f"{name}.bias": student.units.bias}


def _bilabel(student: Student, both: list[Line], span: Any, rarity: Tensor) -> Any:
    tensors = {
        **span,
        **_units(student, "units"),
        "shift": torch.zeros(CLUES + 1),
        "scale": torch.ones(CLUES + 1),
        "out.weight": torch.stack([line.out for line in both]),
        "out.bias": torch.stack([line.bias for line in both]),
        "mixed.weight": torch.stack([line.mixed for line in both]),
    }
    sizes = {"hidden": 0, "units": len(student.units.bias), "spans": True, "clues": True}
    return _named(tensors, rarity), sizes, {"temperatures": [1.0, 1.0]}


def _evaluator(student: Student, line: Line, span: Any, rarity: Tensor, cuts: Any) -> Any:
    units = _units(student, "hidden")
    units["hidden.weight"][:, -1] *= 5  # the head takes a fifth of the answer's score
    tensors = {
        **span,
        **units,
        "shift": torch.zeros(CLUES),
        "scale": torch.ones(CLUES),
        "out.weight": line.out[None],
        "out.bias": line.bias[None],
        "mixed.weight": line.mixed[None],
        "mixed.bias": torch.zeros(1),
    }
    name = "fitrag-minilm-7"
    limits = {**cuts, "strip": -0.88, "model": name, "sentences": 1}
    sizes = {"hidden": len(student.units.bias)}
    return _named(tensors, rarity), sizes, {"name": name, "thresholds": limits}


def _reader(
    student: Student, lines: list[Line], span: Any, rarity: Tensor, fitted: dict[str, Any]
) -> Any:
    *weights, of_span, bias = fitted["answered"]
    line = torch.zeros(1, CLUES + 1)
    line[0, -1] = of_span / 2
    tensors = {
        **span,
        **_units(student, "units"),
        "select.weight": sum(w * each.out for w, each in zip(weights, lines, strict=True))[None],
        "select.bias": sum(w * each.bias for w, each in zip(weights, lines, strict=True))[None]
        + bias,
        "mixed.weight": sum(w * each.mixed for w, each in zip(weights, lines, strict=True))[None],
        "line.weight": line,
        "rarity": rarity,
    }
    limits = {"abstain_below": fitted["abstain_below"]}
    return tensors, {"units": len(student.units.bias)}, {"thresholds": limits}


def _onepass(student: Student, sentence: list[float]) -> Any:
    tensors = {
        "answers.weight": student.tokens.weight,
        "answers.bias": student.tokens.bias,
        "line.weight": torch.tensor([sentence[:-1]]),
        "line.bias": torch.tensor(sentence[-1:]),
    }
    return tensors, {}, {}


def _named(tensors: dict[str, Tensor], rarity: Tensor) -> dict[str, Tensor]:
    return {f"head.{name}": tensor for name, tensor in tensors.items()} | {"rarity": rarity}


def compare(run: Path, rows: Path) -> None:
    """Compare all that the package says, with torch and without, with the student's own graph."""
    items = [json.loads(line) for line in (rows / "held.jsonl").open()][:20]
    triples = [(i["question"], p["title"], p["text"]) for i in items for p in i["passages"]][:100]
    pairs = [(q, Passage(str(at), x, t)) for at, (q, t, x) in enumerate(triples)]
    spans = [split_sentences(x) for _, _, x in triples]
    student = Reference(run / "graph")
    student.fitted = json.loads((run / "fitted.json").read_text())
    judged = student.judge(triples, split_sentences)
    wanted = [
        [sigmoid(one.has_answer), sigmoid(one.llm_prefer), one.grade, one.score] for one in judged
    ]
    sentences = [sigmoid(x) for one in judged for _, x in one.sentences]
    exact = {"device": "cpu", "dtype": "float32"}
    kinds: dict[str, Any] = {
        "torch": [
            k.embedded(**exact) for k in (OnePassScorer, RetrievalEvaluator, ExtractiveReader)
        ],
        "without torch": [k("float32") for k in (BundledScorer, BundledEvaluator, BundledReader)],
    }
    for name, (scorer, evaluator, reader) in kinds.items():
        read = scorer.score_sentences([(*p, s) for p, s in zip(pairs, spans, strict=True)])
        grades, answers = evaluator.evaluate(pairs), reader.read(pairs)
        found = [
            [whole.has_answer, whole.llm_prefer, grade, answer.score]
            for (whole, _), grade, answer in zip(read, grades, answers, strict=True)
        ]
        apart = np.abs(np.array(found) - np.array(wanted)).max(0)
        kept = [s.has_answer for _, several in read for s in several]
        apart = [*apart, np.abs(np.array(kept) - np.array(sentences)).max()]
        same = np.mean([a.text == j.answer for a, j in zip(answers, judged, strict=True)])
        told = ", ".join(f"{n} {x:.4f}" for n, x in zip(SAID, apart, strict=True))
        print(f"{name}: {len(pairs)} pairs, apart by at most: {told}; answers equal {same:.3f}")
        if max(apart) > NEAR or same < SAME:
            raise SystemExit(f"{name}: more than {NEAR} apart, or below {SAME}: it may not ship")


if __name__ == "__main__":
    main()
