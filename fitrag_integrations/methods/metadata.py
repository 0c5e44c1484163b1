"""What every adapter needs and no framework decides: ids, checks, summaries, search results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from fitrag_integrations import retrieval  # whose names load on first use, and torch with them
from fitrag_integrations.core.checks import can, check_many, check_text
from fitrag_integrations.core.record import Row, plain
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.methods.ik.decider import GateDecision
from fitrag_integrations.methods.ik.gates import check_fitted
from fitrag_integrations.ports import Method
from fitrag_integrations.types import Context, Excerpt, Passage, Template
from fitrag_integrations.values.passage import LEAD, origin_of, titled
from fitrag_integrations.values.prompt import NONE_FOUND, render_excerpts
from fitrag_integrations.values.search_results import first_text, made_id, pages_of


class EncoderVectors:
    """Vectors of texts as lists, by an `Encoder`, a checkpoint's name, or the bundled encoder.

    An encoder is any object with `encode(texts)`. Its `encode_query`, `encode_document` and their
    async versions are used where it has them.
    """

    def __init__(self, encoder: Any = None) -> None:
        if encoder is None or isinstance(encoder, str):
            encoder = retrieval.Encoder() if encoder is None else retrieval.Encoder(encoder)
        allowed = "an object with an 'encode' method, or the name of a checkpoint"
        refuse_if(not can(encoder, "encode"), "encoder", encoder, allowed)
        self.encoder = encoder

    @property
    def name(self) -> str:
        """The name of the encoder's checkpoint, or of its class."""
        own = getattr(self.encoder, "name", None)
        return own if isinstance(own, str) else type(self.encoder).__name__

    def of(self, texts: Sequence[str], *, role: str = "document") -> list[list[float]]:
        """Encode texts, in their order, with the prompt of a role ("query" or "document")."""
        encode = getattr(self.encoder, f"encode_{role}", self.encoder.encode)
        return _plain(encode(list(texts))) if texts else []

    async def aof(self, texts: Sequence[str], *, role: str = "document") -> list[list[float]]:
        """Async version of `of`."""
        own = hasattr(self.encoder, f"encode_{role}")
        aencode = getattr(self.encoder, f"aencode_{role}" if own else "aencode", None)
        if not callable(aencode) or not texts:
            return await asyncio.to_thread(self.of, texts, role=role)
        return _plain(await aencode(list(texts)))


def _plain(vectors: Any) -> list[list[float]]:
    return [[float(number) for number in vector] for vector in vectors]


def described(
    texts: Iterable[str],
    metadatas: Iterable[Row] | None,
    ids: Iterable[str] | None,
) -> list[tuple[str, dict[str, Any], str]]:
    """Pair each text with its metadata and its id, blank if there is none."""
    kept = check_many("texts", texts, str)
    metadata = [{} for _ in kept] if metadatas is None else [dict(each) for each in metadatas]
    named = [""] * len(kept) if ids is None else list(ids)
    if not len(kept) == len(metadata) == len(named):
        given = (len(kept), len(metadata), len(named))
        raise InputError.of("texts, metadatas, ids", given=given, allowed="equal lengths")
    return list(zip(kept, metadata, named, strict=True))


def searched(query: str, port: Port[str, list[Passage]]) -> Flow[Context]:
    """Return the flow to what an index has on a query."""
    (passages,) = yield from port.ask([check_text("query", query, blank=False)])
    return Context(query, tuple(map(Excerpt.whole, passages)), method="faiss")


__all__ = [
    "Named",
    "check_judged",
    "check_method",
    "first_text",
    "made_id",
    "mark_name",
    "marks",
    "name_of",
    "numbered",
    "own_noted",
    "pages_of",
    "relevance_of",
    "summary",
    "template_of",
]

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


def numbered(excerpts: Iterable[Excerpt]) -> str:
    """Return excerpts as numbered lines, each under its title, else its source, else its id.

    Where there are no excerpts, the text says so.
    """
    shown = [replace(one, passage=titled(one.passage)) for one in excerpts]
    return render_excerpts(shown) or NONE_FOUND


class Named:
    """Show an object in a ``repr`` as its name, or as that of its class."""

    def __init__(self, value: object) -> None:
        self.name = name_of(value)

    def __repr__(self) -> str:
        return self.name


def name_of(value: object) -> str:
    """Return a text itself, the name of a function, or of an object's class."""
    if isinstance(value, str):
        return value
    return str(getattr(value, "__qualname__", type(value).__name__))


def check_method(method: object) -> Method:
    """Require a method: an object, not its class."""
    if isinstance(method, type) or not callable(method):
        raise InputError.of("method", given=method, allowed="a method, such as FitRag()")
    return cast(Method, method)


def template_of(template: object) -> Template | None:
    """Accept a template or the name of one; None is the context's own choice."""
    if isinstance(template, str):
        from fitrag_integrations.methods.prompts import template_named  # of all methods

        return template_named(template)
    allowed = "an object with a 'render' method, or a template's name"
    refuse_if(template is not None and not can(template, "render"), "template", template, allowed)
    return cast("Template | None", template)


def summary(context: Context) -> dict[str, object]:
    """Return in plain values what a method decided; empty fields are left out."""
    values = {name: plain(getattr(context, name)) for name in SUMMED}
    values |= {name: plain(context.details[name]) for name in LIFTED if name in context.details}
    return {"method": context.method, **{name: value for name, value in values.items() if value}}


def relevance_of(excerpt: Excerpt, method: str) -> float | None:
    """Return how relevant an excerpt was found, in [0, 1]; None where nobody judged that.

    Half of the two labels' weighted sum, or a grade brought from [-1, 1] to [0, 1]. What else a
    method ranks by, such as reciprocal ranks, means nothing for one excerpt by itself.
    """
    if excerpt.labels is not None:
        return excerpt.score
    return (excerpt.score + 1) / 2 if method in GRADING else None


def own_marks(passage: Passage) -> list[str]:
    """Return the names of marks that a document came with as metadata of its own."""
    metadata = passage.metadata
    if "fitrag" in metadata or origin_of(passage) != (passage.id, 0):  # a piece, marked before
        return str(metadata.get(OWN, "")).split()
    return [name for name in MARKS[1:-1] if name in metadata and name != "retrieval_score"]


def mark_name(passage: Passage, name: str) -> str:
    """Return the key of a mark: another where the document has a value of its own there."""
    return f"fitrag_{name}" if name in own_marks(passage) else name


def own_noted(context: Context) -> Context:
    """Add a note on what documents came with under the names of marks."""
    own = {name for one in context.excerpts for name in own_marks(one.passage)}
    if not own:
        return context
    names, ours = ", ".join(sorted(own)), ", ".join(f"fitrag_{name}" for name in sorted(own))
    note = f"documents came with {names} of their own, which was kept: what was found is in {ours}"
    return replace(context, notes=(*context.notes, note))


def marks(excerpt: Excerpt, method: str) -> dict[str, object]:
    """Return what an excerpt is, in flat plain values; what there is not is left out.

    A document's own value is never overwritten: ours is then under another name, `mark_name`.
    `raw_score` is what `method` ranked by. `source_start` and `source_end` count in the text of the
    source that `source_id` names; of a piece of a piece, that is the one the first was cut from.
    `source_lead` are the spans shown before the piece, such as a table's header row.
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
    shown = {name: value for name, value in values.items() if value is not None}
    own = {OWN: " ".join(found)} if (found := own_marks(excerpt.passage)) else {}
    return {**{mark_name(excerpt.passage, name): value for name, value in shown.items()}, **own}


def check_judged(decider: GateDecision, answers: str | None) -> None:
    """Refuse a decider whose threshold was fitted for another model than the one that `answers`.

    Nothing is refused where that has no name, or where the caller gave a threshold.
    """
    if answers is not None and decider.threshold is None:
        check_fitted(decider.gate, answers, allow_other_model=decider.allow_other_model)
