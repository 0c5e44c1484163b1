"""Fit SlimPLM's query rewriter (section 3.3): an adapter that writes claims and queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch

from fitrag_integrations.core.checks import check_number, check_text
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.models.causal import adapters as causal_adapters
from fitrag_integrations.models.causal.engine import CausalEngine
from fitrag_integrations.models.causal.words import common_prefix
from fitrag_integrations.models.gate.gate import cut_drafts
from fitrag_integrations.models.gate.rewriter import QueryRewriter, rewrite_template, rewrite_text
from fitrag_integrations.models.runtime.folder import write_manifest
from fitrag_integrations.training.causal.adapter import (
    AdapterPlan,
    CausalModule,
    Example,
    base_from,
    fit_adapter,
    own_engine,
)
from fitrag_integrations.training.options import (
    Alpha,
    BatchRows,
    CausalBase,
    Device,
    Dropout,
    EpochsOver,
    Rank,
    Rate,
    Seed,
    Template,
    Validation,
)
from fitrag_integrations.training.splitting import split_by_hash
from fitrag_integrations.values.slimplm import Lead, Leads, render


@dataclass(frozen=True, slots=True)
class RewriterPlan:
    """Say how a rewriter is trained; see `fitrag train rewriter --help`."""

    base: CausalBase
    template: Template = "paper"
    draft_tokens: Annotated[int, Option("Tokens of the answer read.", min=1)] = 512
    max_new_tokens: Annotated[int, Option("Longest rewriting.", min=1)] = 512
    epochs: EpochsOver = 1.0
    rate: Rate = 1e-4
    batch: BatchRows = 16
    rank: Rank = 16
    alpha: Alpha = 32
    dropout: Dropout = 0.05
    validation: Validation = 0.1
    seed: Seed = 13
    device: Device = None


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """Hold a question, a heuristic answer, and what a rewriter should make of them."""

    question: str
    draft: str
    leads: Leads


def fit_rewriter(
    rows: Iterable[Mapping[str, Any]], out: Path, plan: RewriterPlan
) -> dict[str, float]:
    """Train on rows of question, draft, questions and claims; save to `out`.

    Gives the loss on the rows held out, in nats per token. A stopped run goes on from its last
    checkpoint. Raises `InputError` for a row that lacks something.
    """
    rewrite_template(plan.template)
    check_number("validation", plan.validation, low=0.0, high=1.0)
    train, held = split_by_hash(claim_rows(rows), plan.validation, plan.seed)
    engine = own_engine(plan.base, plan.device)
    try:
        base = base_from(out, plan.base)
        taught, kept = ([_example(engine, row, plan) for row in part] for part in (train, held))
        sizes = [len(example.ids) + len(example.targets) for example in taught]
        how = _how(plan)
        name = fit_adapter(engine, lambda i, _: taught[i], kept, sizes, out / "run", how)
        fields = {
            "base": base,
            "template": plan.template,
            "draft_tokens": plan.draft_tokens,
            "max_new_tokens": plan.max_new_tokens,
            "weights": causal_adapters.save(engine.model, out, name, base=base),
            "trained": {**asdict(plan), "base": Path(plan.base).name, "rows": len(train)},
        }
        write_manifest(out, "model.json", kind=QueryRewriter.kind, fields=fields)
        return {"rewriter loss": round(_loss(engine, name, kept, plan.batch), 4)}
    finally:
        engine.release()


def claim_rows(rows: Iterable[Mapping[str, Any]]) -> list[ClaimRow]:
    """Read rows of `fitrag label claims`, or of SlimPLM's published annotations.

    Error rows are passed over. Raises `InputError` naming the first row that lacks something.
    """
    return [_claim_row(at, row) for at, row in enumerate(rows) if "error" not in row]


def _claim_row(at: int, row: Mapping[str, Any]) -> ClaimRow:
    draft = _first(row, "draft", "proxy_answer")
    questions = _first(row, "questions", "question_queries")
    leads = Leads(
        tuple(_lead(f"rows[{at}].questions", one) for one in questions or ()),
        tuple(_lead(f"rows[{at}].claims", one) for one in row.get("claims") or ()),
    )
    if not leads.questions and not leads.claims:
        given, allowed = row.get("claims"), "at least one claim or question"
        raise InputError.of(f"rows[{at}].claims", given=given, allowed=allowed)
    return ClaimRow(
        check_text(f"rows[{at}].question", row.get("question"), blank=False),
        check_text(f"rows[{at}].draft", draft, blank=False).strip(),
        leads,
    )


def _lead(field: str, given: Any) -> Lead:
    if not isinstance(given, Mapping):
        raise InputError.of(field, given=given, allowed="objects with text and query")
    text = check_text(f"{field}.text", _first(given, "text", "claim", "question"), blank=False)
    query = check_text(f"{field}.query", _first(given, "query", "searchWord") or "")
    return Lead(text.strip(), query.strip(), _first(given, "search", "needSearch"))


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _how(plan: RewriterPlan) -> AdapterPlan:
    return AdapterPlan(
        epochs=plan.epochs,
        batch=plan.batch,
        rate=plan.rate,
        rank=plan.rank,
        alpha=plan.alpha,
        dropout=plan.dropout,
        seed=plan.seed,
    )


def _example(engine: CausalEngine, row: ClaimRow, plan: RewriterPlan) -> Example:
    """Encode the prompt and what is to be written, cut where the prompt ends."""
    template = rewrite_template(plan.template)
    (pair,) = cut_drafts(engine, [(row.question, row.draft)], plan.draft_tokens)
    text = rewrite_text(engine, template, *pair)
    target = render(row.leads, template.grammar)
    prompt, whole = engine.encode([text, text + target], raw=template.raw)
    at = common_prefix(prompt, whole)
    return Example(whole[:at], [*whole[at:], *engine.eos_ids[:1]])


@torch.inference_mode()
def _loss(engine: CausalEngine, name: str, held: Sequence[Example], batch: int) -> float:
    module = CausalModule(engine)
    with engine.using(name):
        parts = [held[at : at + batch] for at in range(0, len(held), batch)]
        total = sum(float(module(part)["word"]) * len(part) for part in parts)
    return total / len(held)
