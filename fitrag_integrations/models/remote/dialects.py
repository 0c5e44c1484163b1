"""How each rerank server wants to be asked, and how it answers; data and pure functions.

Only fields of the dialect itself are sent: some servers refuse a foreign one (Cohere, 422).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import shortened
from fitrag_integrations.errors import PortError


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Describe one kind of server.

    `path` is where it listens, `query` and `documents` the fields asked with, `most` how many
    documents one request may hold, `found` the field of the list that comes back (None where the
    list is all of it), `score` the field of a number in it, which is a logit where `raw`. `always`
    is sent with every request: truncation, where the server would refuse a long text. `needs_model`
    says that a model has to be named, `takes_model` that it may be.
    """

    path: str
    most: int
    score: str
    raw: bool
    query: str = "query"
    documents: str = "documents"
    found: str | None = "results"
    needs_model: bool = False
    takes_model: bool = True
    always: Mapping[str, object] = field(default_factory=dict)


DIALECTS: Mapping[str, Dialect] = {
    "tei": Dialect(
        path="/rerank",
        documents="texts",
        most=32,  # its default; more is answered with 422
        found=None,
        score="score",
        raw=True,
        takes_model=False,
        always={"raw_scores": True, "truncate": True, "truncation_direction": "Right"},
    ),
    "cohere": Dialect(
        path="/v2/rerank", most=1000, score="relevance_score", raw=False, needs_model=True
    ),
    "jina": Dialect(
        path="/v1/rerank",
        most=1000,
        score="relevance_score",
        raw=False,
        needs_model=True,
        always={"return_documents": False},
    ),
    "voyage": Dialect(
        path="/v1/rerank",
        most=1000,
        found="data",
        score="relevance_score",
        raw=False,
        needs_model=True,
        always={"return_documents": False, "truncation": True},
    ),
    "vllm-score": Dialect(
        path="/v1/score",  # guarded by the server's key, which /score is not
        query="text_1",
        documents="text_2",
        most=512,
        found="data",
        score="score",
        raw=False,
        needs_model=True,
        always={"truncate_prompt_tokens": -1},
    ),
    "llamacpp": Dialect(path="/v1/rerank", most=256, score="relevance_score", raw=True),
    "infinity": Dialect(
        path="/rerank",
        most=2048,
        score="relevance_score",
        raw=True,
        always={"raw_scores": True, "return_documents": False},
    ),
}


def request(
    dialect: Dialect, model: str, query: str, documents: Sequence[str]
) -> dict[str, object]:
    """Write the body that asks for the scores of documents to one query."""
    named = {"model": model} if model and dialect.takes_model else {}
    asked = {dialect.query: query, dialect.documents: list(documents)}
    return {**named, **asked, **dialect.always}


def results(dialect: Dialect, reply: object, count: int) -> list[Row]:
    """Put what came back in the order of the documents asked about, by its `index`.

    Raises `PortError` unless each of the `count` documents is there exactly once.
    """
    rows = reply if dialect.found is None else _field(reply, dialect.found)
    if not isinstance(rows, list):
        raise PortError(f"the reply's list of scores is {type(rows).__name__}, not a list")
    ordered: list[Row | None] = [None] * count
    for row in rows:
        at = _field(row, "index")
        if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at < count:
            raise PortError(f"the reply has index {at!r}, asked were 0 to {count - 1}")
        if ordered[at] is not None:
            raise PortError(f"the reply has index {at} twice")
        ordered[at] = row
    there = [row for row in ordered if row is not None]
    if len(there) < count:
        raise PortError(f"the reply has {len(there)} scores for {count} documents")
    return there


def number(dialect: Dialect, row: Row) -> float:
    """Read a score. Raises `PortError` unless it is finite, and in [0, 1] where it is no logit."""
    value = _finite(_field(row, dialect.score))
    if not dialect.raw and not 0.0 <= value <= 1.0:
        raise PortError(
            f"the reply has the score {value!r} where a probability was expected: "
            "give raw=True if the server answers with logits"
        )
    return value


def spans(row: Row, text: str) -> list[tuple[int, int, float]]:
    """Read the stretches a Cohere reranker found relevant, [start, end) in code points.

    Raises `PortError` for a stretch outside the text.
    """
    found = []
    told = row.get("relevant_spans") or ()
    if not isinstance(told, list | tuple):
        raise PortError(f"the reply's list of spans is {type(told).__name__}, not a list")
    for span in told:
        start, end, score = (_field(span, name) for name in ("start", "end", "score"))
        whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (start, end))
        if not whole or not 0 <= start < end <= len(text):
            raise PortError(f"the reply has the span {shortened(span)} in a text of {len(text)}")
        found.append((start, end, _finite(score)))
    return sorted(found)


def _finite(value: Any) -> float:
    """Read a number. Raises `PortError` for another value, and for what no float holds."""
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise PortError(f"the reply has the score {shortened(value)}, which is no finite number")
    return number


def _field(row: object, name: str) -> Any:
    if not isinstance(row, Mapping) or name not in row:
        raise PortError(f"the reply has no {name!r} where one was expected")
    return row[name]
