"""Convert Documents to Passages and excerpts to new Documents; inputs are never changed.

Metadata added to a document is flat and plain, because vector stores accept nothing else. The
decisions of a run are not added to the documents; `Documents` has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from numbers import Real
from typing import Literal, TypeAlias

from langchain_core.documents import Document

from fitrag_integrations.core.checks import check_many, check_text
from fitrag_integrations.core.record import check_mapping
from fitrag_integrations.flow import Traced
from fitrag_integrations.methods.metadata import mark_name, marks, relevance_of, retitled, title_in
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.passage import (
    LEAD,
    derived_id,
    first_text,
    made_id,
    origin_of,
    pages_of,
)
from fitrag_integrations.values.prompt import numbered

WHOLE = ("rerank",)
"""Methods that give back the documents they were given, in another order."""
Ids: TypeAlias = Literal["pieces", "source"]


class Documents(list[Document]):
    """List of the documents that a component kept, with the run that found them.

    As text it is the numbered lines of `numbered_documents`, so that ``{"context": retriever} |
    prompt`` sends texts and titles without metadata. A slice or a copy is a plain list.

    Args:
        documents: The documents.
        traced: The run.
    """

    traced: Traced[Context]

    def __init__(self, documents: Iterable[Document], traced: Traced[Context]) -> None:
        super().__init__(documents)
        self.traced = traced

    def __str__(self) -> str:
        return numbered([Excerpt.whole(passage) for passage in to_passages(self)])

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (list(self), self.traced)

    @property
    def context(self) -> Context:
        """Return what the method found and decided: action, decision, queries, notes, details."""
        return self.traced.value

    def explain(self, *, dropped: bool = False) -> str:
        """Return a few lines: what was kept, what was left out, and the steps.

        Args:
            dropped: List everything that was dropped, with the reason.
        """
        return self.traced.explain(dropped=dropped)

    def _repr_html_(self) -> str:
        """Show the run over what it kept; every text is escaped."""
        return self.traced._repr_html_()


def to_passage(document: Document, title_keys: Iterable[str] | None = None) -> Passage:
    """Convert a Document to a passage.

    A text or metadata of None, as a store of nullable columns writes it, counts as empty. A
    document without an id gets one made from its text.

    Args:
        document: Document.
        title_keys: Metadata keys of the title, as in `title_in`.
    """
    text, metadata = (getattr(document, name, None) for name in ("page_content", "metadata"))
    text = "" if text is None else check_text("Document.page_content", text)
    metadata = {} if metadata is None else check_mapping("Document.metadata", metadata)
    return Passage(
        document.id or made_id(text),
        text,
        title_in(metadata, title_keys),
        first_text(metadata, ("source",)),
        metadata,
    )


def to_passages(documents: object, title_keys: Iterable[str] | None = None) -> list[Passage]:
    """Convert the result of a retriever.

    Args:
        documents: Documents.
        title_keys: Metadata keys of the title.

    Raises:
        InputError: If an item is not a Document.
    """
    given = check_many("documents", documents, Document)
    return [retitled(to_passage(one), title_keys) for one in given]


def to_pages(found: object) -> list[Passage]:
    """Read a search result for one query: Documents, Passages, dicts, text, or JSON of these."""
    return pages_of(found, (Document,), partial(to_passage, title_keys=("title",)))


def to_documents(context: Context, ids: Ids = "pieces") -> list[Document]:
    """Convert the excerpts of a context to documents, in the order of the context.

    Args:
        context: Context.
        ids: As in `to_document`.
    """
    return [
        to_document(excerpt, context.method, ids, context.answerable)
        for excerpt in context.excerpts
    ]


def to_document(
    excerpt: Excerpt, method: str, ids: Ids = "pieces", answerable: float | None = None
) -> Document:
    """Convert an excerpt to a document: the source's metadata, with scores and place added.

    ``start_index`` is, as in LangChain's splitters, the start of the text in the source of the
    document. For a piece with a lead, it is the start of the lead.

    Args:
        excerpt: Excerpt.
        method: Name of the method that returned it.
        ids: "pieces" for an id of each piece, equal for equal pieces of equal documents; a document
            that was only reranked keeps its id. "source" for the source's id, for evaluators that
            match by id.
        answerable: Score of the whole list, if there is one.
    """
    passage = excerpt.passage
    metadata = dict(passage.metadata)
    offset = metadata.get("start_index") if LEAD not in metadata else None  # no slice of a text
    if not isinstance(offset, int) or isinstance(offset, bool):
        offset = 0
    ours = "fitrag" in metadata  # whose relevance is that of an earlier step
    for name in ("retrieval_score", "score", *(() if ours else ("relevance_score",))):
        score = metadata.get(name)
        if isinstance(score, Real) and not isinstance(score, bool) and math.isfinite(score):
            metadata["retrieval_score"] = float(score)
            break
    if ours and relevance_of(excerpt, method) is not None:
        for earlier in ("has_answer", "llm_prefer", "answerable"):  # of the whole, by another step
            metadata.pop(mark_name(passage, earlier), None)
    metadata.pop(mark_name(passage, LEAD), None)
    metadata |= marks(excerpt, method, answerable)
    metadata["start_index"] = offset + excerpt.spans[0][0]
    own: str | None = derived_id(passage.id, passage.text, offset, excerpt.start, excerpt.end)
    if ids == "source":
        own = origin_of(passage)[0]
    elif method in WHOLE and excerpt.text == passage.text:
        own = _own_id(passage)
    return Document(page_content=excerpt.text, id=own, metadata=metadata)


def passage_document(passage: Passage) -> Document:
    """Convert an index's passage to a document; title and source join the metadata."""
    derived = passage.title == title_in(passage.metadata)
    named = {"title": "" if derived else passage.title, "source": passage.source}
    metadata = {name: value for name, value in named.items() if value} | dict(passage.metadata)
    return Document(page_content=passage.text, id=_own_id(passage), metadata=metadata)


def _own_id(passage: Passage) -> str | None:
    """Return the id the source came with, None where it came without."""
    return None if passage.id == made_id(passage.text) else passage.id
