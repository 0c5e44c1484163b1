"""Fit SlimPLM's necessity judge (section 3.2) and query rewriter (section 3.3) as adapters."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.gate.slimplm import (
    JUDGES,
    REWRITERS,
    NecessityJudge,
    QueryRewriter,
    template_of,
)
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.models.runtime.worker import finished
from fitrag_integrations.training.calibration import figures_of, fit_temperature
from fitrag_integrations.training.causal.adapter import (
    AdapterPlan,
    CausalModule,
    Example,
    Lesson,
    base_from,
    fit_words,
    mean_loss,
    own_engine,
    written,
)
from fitrag_integrations.training.collecting import gold_answers, matching_ratio
from fitrag_integrations.training.options import CausalBase, DraftTokens, JudgedModel, Template
from fitrag_integrations.training.rows import (
    KnownRow,
    judged_model,
    known_rows,
    split_by_hash,
    split_rows,
)
from fitrag_integrations.training.trainer import only_run
from fitrag_integrations.values.slimplm import Lead, Leads, render


@dataclass(frozen=True, slots=True)
class NecessityPlan(AdapterPlan):
    """Settings for training a necessity judge; see `fitrag train necessity --help`.

    A row without a label counts as known if its draft contains more than the fraction `theta` of
    its gold answers.
    """

    base: CausalBase
    template: Template = "paper"
    model: JudgedModel = ""
    theta: Annotated[
        float, Option("Fraction of the answers that a draft must exceed.", min=0, max=1)
    ] = 0.5
    draft_tokens: DraftTokens = 512


@only_run
def fit_necessity(
    rows: Iterable[Mapping[str, object]], out: Path, plan: NecessityPlan
) -> dict[str, float]:
    """Train a necessity judge, calibrate it on held-out questions and save it.

    Args:
        rows: Rows of question and draft, with known or answers.
        out: Folder to write; a stopped run in it continues.
        plan: Training settings.

    Returns:
        Accuracy, AUC and calibration error on the held-out questions.

    Raises:
        InputError: For an invalid row.
    """
    template = template_of(plan.template, JUDGES)

    def labeled(row: Mapping[str, object]) -> Mapping[str, object]:
        """Label a row by its answers where it has no label."""
        if "error" in row or row.get("known") is not None:
            return row
        ratio = matching_ratio(str(row.get("draft") or ""), gold_answers(row))
        return {**row, "known": ratio > plan.theta}

    given = known_rows(map(labeled, rows))
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

        def example(row: KnownRow) -> Example:
            (text,) = template.texts(engine, [(row.question, row.draft)], plan.draft_tokens)
            return written(engine, text, template.verdicts[0 if row.known else 1], raw=template.raw)

        lesson = Lesson.of([*map(example, train)], [*map(example, held)])
        name = fit_words(engine, lesson, out / "run", plan)
        manifest["weights"] = causal_adapters.save(engine.model, out, name, base=base)
        judge = NecessityJudge(engine, manifest=manifest, adapter=name)
        gaps = torch.tensor(finished(judge.gaps([(row.question, row.draft) for row in held])))
        known = [row.known for row in held]
        temperature = fit_temperature(gaps, torch.tensor(known).float())
        judge.manifest["temperature"] = temperature
        write_manifest(out, "model.json", kind=NecessityJudge.kind, fields=judge.manifest)
        return figures_of("judge", (gaps / temperature).sigmoid().tolist(), known, "known")
    finally:
        engine.release()


def balanced(rows: Sequence[KnownRow], *, seed: int) -> list[KnownRow]:
    """Sample as many unknown rows as there are known ones, in order.

    Args:
        rows: Rows; the known ones all stay.
        seed: Seed of the sample.
    """
    unknown = [i for i, row in enumerate(rows) if not row.known]
    kept = set(random.Random(seed).sample(unknown, min(len(unknown), len(rows) - len(unknown))))
    return [row for i, row in enumerate(rows) if row.known or i in kept]


@dataclass(frozen=True, slots=True)
class RewriterPlan(AdapterPlan):
    """Settings for training a rewriter; see `fitrag train rewriter --help`."""

    base: CausalBase
    template: Template = "paper"
    draft_tokens: Annotated[int, Option("Maximum tokens of the answer.", min=1)] = 512
    max_new_tokens: Annotated[int, Option("Maximum tokens of the rewriting.", min=1)] = 512


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """Question, heuristic answer, and the claims and queries that a rewriter should write."""

    question: str
    draft: str
    leads: Leads


@only_run
def fit_rewriter(
    rows: Iterable[Mapping[str, object]], out: Path, plan: RewriterPlan
) -> dict[str, float]:
    """Train a query rewriter and save it.

    Args:
        rows: Rows of question, draft, questions and claims, from `fitrag label claims`.
        out: Folder to write; a stopped run in it continues.
        plan: Training settings.

    Returns:
        Loss on the held-out rows, in nats per token.

    Raises:
        InputError: For an invalid row.
    """
    template = template_of(plan.template, REWRITERS)
    train, held = split_by_hash(claim_rows(rows), plan.validation, plan.seed)
    engine = own_engine(plan.base, plan.device, four_bit=plan.four_bit, device_map=plan.device_map)
    try:
        base = base_from(out, plan.base)

        def example(row: ClaimRow) -> Example:
            (text,) = template.texts(engine, [(row.question, row.draft)], plan.draft_tokens)
            return written(engine, text, render(row.leads, plan.template), raw=template.raw)

        taught, kept = [*map(example, train)], [*map(example, held)]
        name = fit_words(engine, Lesson.of(taught, kept), out / "run", plan)
        fields = {
            "base": base,
            "template": plan.template,
            "draft_tokens": plan.draft_tokens,
            "max_new_tokens": plan.max_new_tokens,
            "weights": causal_adapters.save(engine.model, out, name, base=base),
            "trained": {**asdict(plan), "base": Path(plan.base).name, "rows": len(train)},
        }
        write_manifest(out, "model.json", kind=QueryRewriter.kind, fields=fields)
        engine.use(name)
        with torch.inference_mode():
            loss = mean_loss(CausalModule(engine), kept, plan.batch)
        return {"rewriter loss": round(loss, 4)}
    finally:
        engine.release()


def claim_rows(rows: Iterable[Mapping[str, object]]) -> list[ClaimRow]:
    """Read rows of `fitrag label claims`, or of SlimPLM's published annotations.

    Args:
        rows: Rows; those with an error are skipped.

    Raises:
        InputError: If a field is missing; names the first such row.
    """
    found = []
    for at, row in enumerate(rows):
        if "error" in row:
            continue
        draft, claims = _first(row, "draft", "proxy_answer"), _first(row, "claims") or ()
        questions = _first(row, "questions", "question_queries") or ()
        leads = Leads(
            tuple(_lead(f"rows[{at}].questions", one) for one in questions),
            tuple(_lead(f"rows[{at}].claims", one) for one in claims),
        )
        refuse_if(
            not leads.questions and not leads.claims,
            f"rows[{at}].claims",
            row.get("claims"),
            "at least one claim or question",
        )
        question = check_text(f"rows[{at}].question", row.get("question"), blank=False)
        draft = check_text(f"rows[{at}].draft", draft, blank=False).strip()
        found.append(ClaimRow(question, draft, leads))
    return found


def _lead(field: str, given: Any) -> Lead:
    refuse_if(not isinstance(given, Mapping), field, given, "objects with text and query")
    text = check_text(f"{field}.text", _first(given, "text", "claim", "question"), blank=False)
    query = check_text(f"{field}.query", _first(given, "query", "searchWord") or "")
    return Lead(text.strip(), query.strip(), _first(given, "search", "needSearch"))


def _first(row: Mapping[str, object], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)
