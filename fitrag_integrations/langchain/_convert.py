"""Turn Documents into Passages, and excerpts back into new Documents; inputs stay as they are.

A search tool's answer may also be text or ``{title, url, snippet}`` dicts under the names the
usual providers give them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from langchain_core.documents import Document

from fitrag_integrations._plain import plain
from fitrag_integrations.errors import InputError
from fitrag_integrations.types import Context, Excerpt, Passage

_URL = ("url", "link", "href", "source")
_SNIPPET = ("snippet", "content", "body", "text", "page_content")


def to_passage(document: Document) -> Passage:
    """Read a Document; without an id of its own the passage gets one made from the text."""
    metadata = document.metadata
    return Passage(
        document.id or _made_id(document.page_content),
        document.page_content,
        _text(metadata, ("title",)),
        _text(metadata, ("source",)),
        metadata,
    )


def to_passages(documents: Any) -> list[Passage]:
    """Read what a retriever gave, or raise ``InputError`` naming what is no Document."""
    if isinstance(documents, str | bytes | Mapping) or not isinstance(documents, Iterable):
        raise InputError.of("documents", given=documents, allowed="a sequence of Document")
    passages = []
    for i, document in enumerate(documents):
        if not isinstance(document, Document):
            raise InputError.of(f"documents[{i}]", given=document, allowed="a Document")
        passages.append(to_passage(document))
    return passages


def to_pages(found: Any) -> list[Passage]:
    """Read what a search gave for one query: Documents, Passages, dicts, text, or JSON of these."""
    if isinstance(found, str):
        found = _decoded(found)
    if isinstance(found, Mapping) and "results" in found:
        found = found["results"]
    items = [found] if isinstance(found, str | Mapping | Document | Passage) else found
    if not isinstance(items, Iterable):
        allowed = "Documents, or dicts with title, url and snippet"
        raise InputError.of("search results", given=found, allowed=allowed)
    return [_page(item) for item in items]


def to_documents(context: Context) -> list[Document]:
    """Write the excerpts of a context, in its order, with what the method decided."""
    names = ("action", "decision", "queries", "notes", "details")
    told = {name: getattr(context, name) for name in names}
    about = {"method": context.method, **{name: value for name, value in told.items() if value}}
    return [to_document(excerpt, about) for excerpt in context.excerpts]


def to_document(excerpt: Excerpt, about: Mapping[str, Any]) -> Document:
    """Write an excerpt: the source's id and metadata, with the scores and the place added.

    ``start_index`` counts from the start of whatever the source itself was cut from, where its
    metadata says so; ``fitrag["start"]`` and ``["end"]`` count in the source's own text.
    """
    passage = excerpt.passage
    metadata = {
        **passage.metadata,
        **_scores(excerpt),
        "start_index": _offset(passage.metadata) + excerpt.start,
        "source_id": passage.id,
        "fitrag": {**plain(about), "start": excerpt.start, "end": excerpt.end},
    }
    return Document(page_content=excerpt.text, id=_own_id(passage), metadata=metadata)


def passage_document(passage: Passage) -> Document:
    """Write a passage as an index gave it; title and source join the metadata."""
    named = {"title": passage.title, "source": passage.source}
    metadata = {name: value for name, value in named.items() if value} | dict(passage.metadata)
    return Document(page_content=passage.text, id=_own_id(passage), metadata=metadata)


def _scores(excerpt: Excerpt) -> dict[str, float]:
    """Give the scores there are, as plain floats; one nobody gave is left out."""
    labels = excerpt.labels
    scores = {
        "relevance_score": excerpt.score,
        "has_answer": None if labels is None else labels.has_answer,
        "llm_prefer": None if labels is None else labels.llm_prefer,
        "retrieval_score": _retrieval_score(excerpt.passage.metadata),
    }
    return {name: float(score) for name, score in scores.items() if score is not None}


def _retrieval_score(metadata: Mapping[str, Any]) -> float | None:
    """Find the score the base retriever gave, under the names in use."""
    names = ["retrieval_score", "score"]
    if "fitrag" not in metadata:  # or it would be the score of another of our own steps
        names.append("relevance_score")
    for name in names:
        score = metadata.get(name)
        if isinstance(score, Real) and not isinstance(score, bool) and math.isfinite(score):
            return float(score)
    return None


def _offset(metadata: Mapping[str, Any]) -> int:
    start = metadata.get("start_index")
    return start if isinstance(start, int) and not isinstance(start, bool) else 0


def _decoded(text: str) -> Any:
    """Read JSON, as many search tools write it; other text is one result, blank text is none."""
    with contextlib.suppress(ValueError):
        decoded = json.loads(text)
        if isinstance(decoded, list | dict):
            return decoded
    return [text] if text.strip() else []


def _page(item: Any) -> Passage:
    if isinstance(item, Passage):
        return item
    if isinstance(item, Document):
        return to_passage(item)
    if isinstance(item, str):
        return Passage(_made_id(item), item)
    if not isinstance(item, Mapping):
        allowed = "a Document, or a dict with title, url and snippet"
        raise InputError.of("search result", given=item, allowed=allowed)
    text, url = _text(item, _SNIPPET), _text(item, _URL)
    return Passage(url or _made_id(text), text, _text(item, ("title",)), url, dict(item))


def _text(values: Mapping[str, Any], names: Sequence[str]) -> str:
    """Give the first value under these names that is a text."""
    found = (values[name] for name in names if isinstance(values.get(name), str))
    return next(found, "")


def _made_id(text: str) -> str:
    return "text-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _own_id(passage: Passage) -> str | None:
    """Give the id the source came with, None where it came without."""
    return None if passage.id == _made_id(passage.text) else passage.id
