"""Read the question of an input, and condense a conversation into one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    convert_to_messages,
    get_buffer_string,
)
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel, Field

from fitrag_integrations.core.checks import check_text
from fitrag_integrations.core.show import error_line
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.langchain.base.convert import to_passages
from fitrag_integrations.langchain.base.fields import AnyRunnable, Brief, Kept, runnable_of
from fitrag_integrations.langchain.base.ports import Backend, internal, text_of
from fitrag_integrations.types import Passage

LEFT_OUT = "earlier messages were left out: pass condense= to make one question of a conversation"
PROMPT = (
    "Rewrite the last question of this conversation so that it can be understood without the rest. "
    "Replace pronouns by what they stand for, keep the language, and write the question only.\n\n"
    "{history}\n\nLast question: {question}\nRewritten question:"
)
KEYS = ("question", "input", "query")
"""Where the question of a dict is looked for, in this order, unless a key is named."""
HISTORIES = ("chat_history", "history")


class Condensing(Brief):
    """Fields of components that accept conversations."""

    condense: Kept[AnyRunnable | None] = None
    """Language model or chain that rewrites a conversation as one question; None uses the last
    message."""
    question_key: str | None = None
    """Key of the question in a dict; None tries "question", "input", "query", "messages"."""


class QuestionInput(BaseModel):
    """Input of a component that takes a question."""

    question: str = Field(description="The question, as the user asks it.")


class DocumentsInput(QuestionInput):
    """Input of a component that takes a question and documents."""

    documents: list[Document] = Field(description="The documents to work on, best first.")


def question_of(given: object, key: str | None = None) -> str:
    """Return the question of an input.

    The question is the text itself, the text of a message, the text of the user's last message in a
    conversation, or an entry of a dict, whose ``messages`` may be a conversation.

    Args:
        given: Input.
        key: Key of the question in a dict. Defaults to the usual ones.

    Raises:
        InputError: If there is no question; names the places that were searched.
    """
    return _read(given, key)[0]


def _read(given: Any, key: str | None, name: str = "question") -> tuple[str, Sequence[Any]]:
    """Return the question and what was said before it: messages, or a history beside it."""
    if isinstance(given, BaseMessage):
        given = str(given.text)
    if isinstance(given, str):
        return check_text(name, given, blank=False), ()
    keys = KEYS if key is None else (key,)
    if isinstance(given, Mapping):
        found = [one for one in (*keys, "messages") if one in given and (one in keys or not key)]
        if found:
            inner = given[found[0]]
            question, earlier = _read(inner, key, found[0])
            if isinstance(inner, str | BaseMessage):
                earlier = next((given[one] for one in HISTORIES if given.get(one)), ())
            return question, () if isinstance(earlier, str) else earlier
    elif name == "messages" or (isinstance(given, Sequence) and given):
        try:
            messages = convert_to_messages(given)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise InputError.of(
                "messages", given=given, allowed="messages of LangChain, or what it reads as such"
            ) from error
        for at, message in reversed(list(enumerate(messages))):
            if isinstance(message, HumanMessage):
                return question_of(message), messages[:at]
        raise InputError.of("messages", given=given, allowed="messages with one of the user")
    allowed = "a question, messages, or a dict with " + " or ".join(map(repr, keys))
    raise InputError.of("input", given=given, allowed=allowed)


def documents_of(given: Any, title_keys: Sequence[str] | None = None) -> list[Passage]:
    """Return the documents of ``{"documents", "question"}`` as passages.

    Args:
        given: Dict with documents.
        title_keys: Metadata keys of the title.
    """
    has_documents = isinstance(given, Mapping) and "documents" in given
    refuse_if(not has_documents, "input", given, "a dict with 'documents' and 'question'")
    return to_passages(given["documents"], title_keys)


def standalone(
    given: object, key: str | None, condense: AnyRunnable | None, config: RunnableConfig
) -> Flow[tuple[str, tuple[str, ...]]]:
    """Return the flow that ends in the standalone question of an input, and in notes.

    The earlier messages are those before the user's last one, or ``chat_history`` beside a
    question. If the model fails or writes nothing, the last question is used unchanged, with a
    note.

    Args:
        given: Input.
        key: Key of the question in a dict.
        condense: Model that writes the standalone question; None leaves earlier messages out, with
            a note.
        config: Config of the model's run.
    """
    question, history = _read(given, key)
    if not history:
        return question, ()
    if condense is None:
        return question, (LEFT_OUT,)
    model = Backend(runnable_of(condense), text_of, name="condense")
    prompt = PROMPT.format(
        history=get_buffer_string(convert_to_messages(list(history))), question=question
    )
    written, error = yield from attempt(model.ask(prompt, internal(config)))
    if error is not None:
        return question, (f"the conversation was not condensed ({error_line(error)})",)
    if not (text := str(written).strip()):
        return question, ("the conversation was not condensed: the model wrote nothing",)
    return text, ()
