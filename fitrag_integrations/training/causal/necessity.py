"""Fit SlimPLM's necessity judge (section 3.2): an adapter that writes Known (True) or (False).

A draft is good enough where more than half of the gold answers stand in it. Unknowns are sampled
down to the number of knowns, in what is trained on and in what is held out.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.core.option import Option
from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.causal.engine import CausalEngine
from fitrag_integrations.models.gate.gate import cut_drafts
from fitrag_integrations.models.gate.slimplm import JUDGES, NecessityJudge, template_of
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.models.runtime.worker import finished
from fitrag_integrations.training.calibration import fit_temperatures
from fitrag_integrations.training.causal.adapter import (
    AdapterPlan,
    Example,
    Lesson,
    base_from,
    fit_adapter,
    own_engine,
    written,
)
from fitrag_integrations.training.causal.rows import (
    KnownRow,
    figures_of,
    judged_model,
    known_rows,
    split_rows,
)
from fitrag_integrations.training.labels.teachers import Gold, gold_answers, matching_ratio
from fitrag_integrations.training.options import CausalBase, DraftTokens, JudgedModel, Template

THETA = 0.5


@dataclass(frozen=True, slots=True)
class NecessityPlan(AdapterPlan):
    """Settings for training a judge; see `fitrag train necessity --help`.

    `theta` is the share of gold answers a draft must exceed to count as known, for rows that carry
    answers and no label.
    """

    base: CausalBase
    template: Template = "paper"
    model: JudgedModel = ""
    theta: Annotated[float, Option("Share of answers a draft must exceed.")] = THETA
    draft_tokens: DraftTokens = 512


def is_known(draft: str, answers: Gold, theta: float = THETA) -> bool:
    """Check whether strictly more than a share `theta` of the gold answers stand in a draft."""
    return matching_ratio(draft, answers) > theta


def fit_necessity(
    rows: Iterable[Mapping[str, object]], out: Path, plan: NecessityPlan
) -> dict[str, float]:
    """Train on rows of question, draft and known or answers; save to `out`, give held-out figures.

    A stopped run goes on from its last checkpoint. Raises `InputError` for a row that lacks
    something.
    """
    check_number("theta", plan.theta, low=0.0, high=1.0)
    template_of(plan.template, JUDGES)
    given = known_rows(_labelled(row, plan.theta) for row in rows)
    train, held = split_rows(given, validation=plan.validation, seed=plan.seed)
    train, held = (balanced(part, seed=plan.seed) for part in (train, held))
    engine = own_engine(plan.base, plan.device, four_bit=plan.four_bit, device_map=plan.device_map)
    try:
        base = base_from(out, plan.base)
        manifest = {
            "base": base,
            "template": plan.template,
            "model": judged_model(given, plan.model, ""),
            "draft_tokens": plan.draft_tokens,
            "threshold": None,
            "trained": {**asdict(plan), "base": Path(plan.base).name, "rows": len(given)},
        }
        taught, kept = ([_example(engine, row, plan) for row in part] for part in (train, held))
        name = fit_adapter(engine, Lesson.of(taught, kept), out / "run", plan)
        manifest["weights"] = causal_adapters.save(engine.model, out, name, base=base)
        judge = NecessityJudge(engine, manifest=manifest, adapter=name)
        return _calibrated(judge, held, out)
    finally:
        engine.release()


def balanced(rows: Sequence[KnownRow], *, seed: int) -> list[KnownRow]:
    """Sample the unknowns down to the number of knowns, the order kept."""
    unknown = [i for i, row in enumerate(rows) if not row.known]
    count = min(len(unknown), len(rows) - len(unknown))
    kept = set(random.Random(seed).sample(unknown, count))
    return [row for i, row in enumerate(rows) if row.known or i in kept]


def _labelled(row: Mapping[str, object], theta: float) -> Mapping[str, object]:
    """Label a row by its answers where it has no label."""
    if "error" in row or row.get("known") is not None:
        return row
    known = is_known(str(row.get("draft") or ""), gold_answers(row, nested=True), theta)
    return {**row, "known": known}


def _example(engine: CausalEngine, row: KnownRow, plan: NecessityPlan) -> Example:
    """Encode the prompt and its verdict."""
    template = template_of(plan.template, JUDGES)
    (pair,) = cut_drafts(engine, [(row.question, row.draft)], plan.draft_tokens)
    verdict = template.verdicts[0 if row.known else 1]
    return written(engine, template.text(engine, *pair), verdict, raw=template.raw)


def _calibrated(judge: NecessityJudge, held: Sequence[KnownRow], out: Path) -> dict[str, float]:
    gaps = torch.tensor([finished(judge.gaps([(row.question, row.draft) for row in held]))] * 2).T
    labels = torch.tensor([[float(row.known)] * 2 for row in held])
    temperature, _ = fit_temperatures(gaps, labels)
    judge.manifest["temperature"] = temperature
    write_manifest(out, "model.json", kind=NecessityJudge.kind, fields=judge.manifest)
    scores = (gaps[:, 0] / temperature).sigmoid().tolist()
    return figures_of("judge", scores, [row.known for row in held])
