"""Number documents for a prompt, and find what an answer cites of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from langchain_core.documents import Document

from fitrag_integrations.langchain.base.convert import to_passages
from fitrag_integrations.methods.answering import Cited
from fitrag_integrations.methods.citing import cite, restored
from fitrag_integrations.types import Excerpt, Passage
from fitrag_integrations.values.prompt import numbered


def numbered_documents(documents: Sequence[Document], *, sources: Sequence[Document] = ()) -> str:
    """Return documents as the numbered lines of a prompt, one number for each.

    A line begins with the document's title, else its source, else its id unless that was generated
    (a UUID). Pieces of one source share a number where `sources` holds it; the numbers are those
    `cite_documents` resolves when it is given the same. Sources and ids are not counted in the
    `max_tokens` of a drop-in.

    Args:
        documents: The documents to show, in the order of their numbers.
        sources: The documents that these were cut from.

    Returns:
        One text; "(No passage was found.)" where there are no documents.

    Raises:
        InputError: If something is no Document.
    """
    return numbered(_excerpts(documents, sources))


def cite_documents(
    documents: Sequence[Document],
    answer: str,
    *,
    sources: Sequence[Document] = (),
    by_source: bool = False,
) -> Cited:
    """Find what an answer cites of the documents that its prompt numbered.

    Args:
        documents: The documents of the prompt, in its order.
        answer: The answer, with numbers such as [1].
        sources: Documents that these were cut from: a citation then shows the whole source, if it
            has the document's text in the place that the metadata names.
        by_source: Whether all pieces of a source have one number, also without `sources`.

    Raises:
        InputError: For anything that is not a Document.
    """
    return cite(_excerpts(documents, sources), answer, by_source=by_source)


def _excerpts(documents: Sequence[Document], sources: Sequence[Document]) -> list[Excerpt]:
    known = to_passages(sources)
    named = {passage.id: passage for passage in known}
    named |= {passage.source: passage for passage in known if passage.source not in named}
    return [restored(passage, named, _places(passage)) for passage in to_passages(documents)]


def _places(passage: Passage) -> Iterator[tuple[str, int]]:
    """Return where a document may begin in which text, besides where this package cut it."""
    start = passage.metadata.get("start_index")
    if passage.source and isinstance(start, int):
        yield passage.source, start
