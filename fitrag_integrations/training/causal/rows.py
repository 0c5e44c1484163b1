"""Rows a gate learns from: a question, a draft, and whether the model knew the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.outcomes import calibration_error
from fitrag_integrations.training.splitting import split_by_hash


@dataclass(frozen=True, slots=True)
class KnownRow:
    """A question, the model's own draft of an answer, and whether the model knew it."""

    question: str
    draft: str
    known: bool
    llm: str = ""


def known_rows(rows: Iterable[Mapping[str, object]]) -> list[KnownRow]:
    """Read rows of question, draft and known; error rows are passed over.

    Raises `InputError` naming the first row that lacks something.
    """
    return [_known_row(i, row) for i, row in enumerate(rows) if "error" not in row]


def _known_row(at: int, row: Mapping[str, object]) -> KnownRow:
    known = row.get("known")
    if known not in (0, 1):
        raise InputError.of(f"rows[{at}].known", given=known, allowed="true or false")
    return KnownRow(
        check_text(f"rows[{at}].question", row.get("question"), blank=False),
        check_text(f"rows[{at}].draft", row.get("draft") or "").strip(),
        bool(known),
        check_text(f"rows[{at}].llm", row.get("llm") or ""),
    )


def split_rows(
    rows: Sequence[KnownRow], *, validation: float, seed: int
) -> tuple[list[KnownRow], list[KnownRow]]:
    """Split off a fraction of the questions for validation, with known and unknown ones on both
    sides.
    """
    parts = split_by_hash(rows, validation, seed)
    if any(len({row.known for row in part}) < 2 for part in parts):
        allowed = "known and unknown questions enough to train on some and hold some out"
        raise InputError.of("rows", given=len(rows), allowed=allowed)
    return parts


def judged_model(rows: Sequence[KnownRow], given: str, base: str) -> str:
    """Return the model whose knowledge the rows are about: the one passed, the rows', or the
    base.
    """
    named = sorted({row.llm for row in rows if row.llm})
    if not given and len(named) > 1:
        raise InputError.of("rows.llm", given=named, allowed="one model, or name the one meant")
    return given or (named[0] if named else base)


def figures_of(name: str, scores: Sequence[float], gold: Sequence[bool]) -> dict[str, float]:
    """Return AUC, accuracy at 0.5 and calibration error of a gate on held-out rows."""
    metrics = require_extra("sklearn.metrics", extra="train", feature="the AUC of a fitted gate")
    right = sum((score > 0.5) == known for score, known in zip(scores, gold, strict=True))
    labels = [int(known) for known in gold]
    figures = {
        f"{name} accuracy": right / len(gold),
        f"{name} ECE": calibration_error(scores, labels),
    }
    if 0 < sum(labels) < len(labels):
        figures[f"{name} AUC"] = float(metrics.roc_auc_score(labels, scores))
    return {key: round(value, 4) for key, value in figures.items()}
