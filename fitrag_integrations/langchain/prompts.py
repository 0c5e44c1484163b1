"""Prompts over documents, and citations of what an answer refers to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.prompts import BasePromptTemplate, ChatPromptTemplate, PromptTemplate

from fitrag_integrations.errors import refuse_if
from fitrag_integrations.langchain.base.convert import to_passages
from fitrag_integrations.methods.citing import Cited, cite, restored
from fitrag_integrations.methods.prompts import prompt_named, render_passages, template_of
from fitrag_integrations.types import Context, Excerpt, Passage, Template
from fitrag_integrations.values.prompt import numbered

__all__ = ["as_template", "prompt"]

CONTEXT, QUESTION = ("context", "context_str"), ("question", "query_str", "input", "query")
"""What the two are called in the prompts people have."""


def prompt(name: str) -> ChatPromptTemplate:
    """Return a prompt as one human message.

    Its variables are {context}, {question} and, in some prompts, {draft}. Inserted text is never
    read as a template. ``numbered_documents`` writes documents as {context}::

        found = {"context": retriever | numbered_documents, "question": RunnablePassthrough()}
        chain = found | prompt("comprehensive") | llm

    Args:
        name: Name of the prompt; see ``prompt_named``.

    Raises:
        InputError: If the name is unknown.
    """
    return ChatPromptTemplate.from_messages([("human", prompt_named(name))])


@dataclass(frozen=True)
class Written:
    """Template that renders a context with a LangChain prompt, or with ours if nothing was kept."""

    prompt: BasePromptTemplate[Any]

    def __post_init__(self) -> None:
        names = self.prompt.input_variables
        others = set(names) - {*CONTEXT, *QUESTION, "draft"}
        allowed = "a prompt with {context} and {question}"
        refuse_if(others or not set(names) & set(CONTEXT), "template", names, allowed)

    def render(self, context: Context) -> str:
        """Return the filled prompt as one text, in which each of several messages has its role.

        A context without excerpts is rendered by `Context.prompt` instead.

        Args:
            context: Context.
        """
        if not context.excerpts:
            return context.prompt()
        shown = render_passages(context)
        values = dict.fromkeys(CONTEXT, shown) | dict.fromkeys(QUESTION, context.question)
        values["draft"] = context.draft or ""
        wanted = {name: values[name] for name in self.prompt.input_variables}
        made = self.prompt.invoke(wanted)
        messages = made.to_messages()
        return str(messages[0].text) if len(messages) == 1 else str(made.to_string())


def as_template(template: Any) -> Template | None:
    """Accept a LangChain prompt, a template of this package, its name, or a text with fields."""
    if isinstance(template, str) and "{" in template:
        return Written(PromptTemplate.from_template(template))
    is_theirs = isinstance(template, BasePromptTemplate)
    return Written(template) if is_theirs else template_of(template)


def numbered_documents(
    documents: Sequence[Document], *, sources: Sequence[Document] = (), best_last: bool = False
) -> str:
    """Return documents as the numbered lines of a prompt, one number for each source.

    Pieces of one source stand together in the order of its text, as in ``Context.prompt``. A line
    begins with the title in the document's metadata, or else with its id, unless that was generated
    (a UUID). `cite_documents` resolves these numbers if it is given the same documents and sources.
    Ids are not counted in the `max_tokens` of a drop-in, nor are sources where `title_keys` leaves
    them out.

    Args:
        documents: The documents to show, in the order of their numbers.
        sources: The documents that these were cut from: a table's header row, say, that several
            pieces have is then shown once.
        best_last: Whether the lines stand in reverse, under the same numbers, so that the first
            document is next to a question that follows.

    Returns:
        One text; "(No passage was found.)" where there are no documents.

    Raises:
        InputError: If an item is not a Document.
    """
    return numbered(_excerpts(documents, sources), best_last=best_last)


def cite_documents(
    documents: Sequence[Document],
    answer: str,
    *,
    sources: Sequence[Document] = (),
    by_source: bool = True,
) -> Cited:
    """Return the citations of an answer whose prompt numbered these documents.

    Args:
        documents: The documents of the prompt, in its order.
        answer: The answer, with numbers such as [1].
        sources: Documents that these were cut from: a citation then shows the whole source, if it
            has the document's text in the place that the metadata names.
        by_source: Whether all pieces of a source have one number, as `numbered_documents` writes
            them; False where your prompt numbers every document.

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
