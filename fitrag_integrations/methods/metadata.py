"""Metadata that the components of both frameworks add: decisions, and fields of excerpts."""

from __future__ import annotations

from dataclasses import replace

from fitrag_integrations.core.record import plain
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.passage import LEAD, origin_of

SUMMED = ("decision", "action", "queries", "notes", "details")
LIFTED = ("thresholds", "web_error")
"""Details so much asked for that they also stand beside the action."""
GRADING = ("crag", "refine")
"""Methods whose scores are an evaluator's grades, in [-1, 1]."""
MARKS = (
    "relevance_score",
    "raw_score",
    "has_answer",
    "llm_prefer",
    "retrieval_score",
    "source_id",
    "source_start",
    "source_end",
    LEAD,
    "fitrag",
)
"""The metadata keys a drop-in writes: flat and plain, as every vector store takes them."""
OWN = "fitrag_own"
"""The key of a piece that lists those which its document had before."""


def summary(context: Context) -> dict[str, object]:
    """Return the decisions of a method as plain values, without empty fields."""
    values = {name: plain(getattr(context, name)) for name in SUMMED}
    values |= {name: plain(context.details[name]) for name in LIFTED if name in context.details}
    return {"method": context.method, **{name: value for name, value in values.items() if value}}


def relevance_of(excerpt: Excerpt, method: str) -> float | None:
    """Return the relevance of an excerpt, in [0, 1]; None if it was not scored.

    Half of the weighted sum of the two labels, or a grade mapped from [-1, 1] to [0, 1]. Other
    ranking scores, such as reciprocal ranks, have no meaning for a single excerpt.
    """
    if excerpt.labels is not None:
        return excerpt.score
    return (excerpt.score + 1) / 2 if method in GRADING else None


def own_marks(passage: Passage) -> list[str]:
    """Return the names of fields that an input document already had in its metadata."""
    metadata = passage.metadata
    if "fitrag" in metadata or origin_of(passage) != (passage.id, 0):  # a piece, marked before
        return str(metadata.get(OWN, "")).split()
    return [name for name in MARKS[1:-1] if name in metadata and name != "retrieval_score"]


def mark_name(passage: Passage, name: str) -> str:
    """Return the key of a field; another key if the document already has a value under it."""
    return f"fitrag_{name}" if name in own_marks(passage) else name


def own_noted(context: Context) -> Context:
    """Add a note on the names that input documents already had."""
    own = {name for one in context.excerpts for name in own_marks(one.passage)}
    if not own:
        return context
    names, ours = ", ".join(sorted(own)), ", ".join(f"fitrag_{name}" for name in sorted(own))
    note = f"documents came with {names} of their own, which was kept: what was found is in {ours}"
    return replace(context, notes=(*context.notes, note))


def marks(excerpt: Excerpt, method: str) -> dict[str, object]:
    """Return the fields of an excerpt as flat plain values, without missing ones.

    A document's own value is never overwritten; ours is then under another name, `mark_name`.
    `raw_score` is the score that `method` ranked by. `source_start` and `source_end` count in the
    text of the source that `source_id` names; for a piece of a piece, it is the source of the
    first. `source_lead` are the spans shown before the piece, such as a table's header row.
    """
    labels = excerpt.labels
    source_id, begin = origin_of(excerpt.passage)
    relevance = relevance_of(excerpt, method)
    values = {
        "relevance_score": relevance,
        "raw_score": excerpt.score if relevance is not None or excerpt.score else None,
        "has_answer": None if labels is None else labels.has_answer,
        "llm_prefer": None if labels is None else labels.llm_prefer,
        "source_id": source_id,
        "source_start": begin + excerpt.start,
        "source_end": begin + excerpt.end,
        LEAD: " ".join(f"{begin + a}-{begin + b}" for a, b in excerpt.lead) or None,
        "fitrag": method,
    }
    own, shown = own_marks(excerpt.passage), dict[str, object]()
    for name, value in values.items():
        if value is not None:
            shown[f"fitrag_{name}" if name in own else name] = value
    if own:
        shown[OWN] = " ".join(own)
    return shown
