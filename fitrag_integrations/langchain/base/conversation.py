"""Condense a conversation into one question, or note that earlier messages were left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    convert_to_messages,
    get_buffer_string,
)
from langchain_core.runnables import RunnableConfig

from fitrag_integrations.core.show import error_line
from fitrag_integrations.flow import Flow
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.langchain.base.fields import AnyRunnable, Brief, Kept, runnable_of
from fitrag_integrations.langchain.base.ports import Backend, internal, text_of
from fitrag_integrations.langchain.base.runnable import KEYS, question_of

LEFT_OUT = "earlier messages were left out: pass condense= to make one question of a conversation"
PROMPT = (
    "Rewrite the last question of this conversation so that it can be understood without the rest. "
    "Replace pronouns by what they stand for, keep the language, and write the question only.\n\n"
    "{history}\n\nLast question: {question}\nRewritten question:"
)
HISTORIES = ("chat_history", "history")


class Condensing(Brief):
    """Fields of components that accept conversations."""

    condense: Kept[AnyRunnable | None] = None
    """Language model or chain that rewrites a conversation as one question; None uses the last
    message."""
    question_key: str | None = None
    """Key of the question in a dict; None tries "question", "input", "query", "messages"."""


def standalone(
    given: object, key: str | None, condense: AnyRunnable | None, config: RunnableConfig
) -> Flow[tuple[str, tuple[str, ...]]]:
    """Return the flow that ends in the standalone question of an input, and in notes.

    The earlier messages are those before the user's last one, or ``chat_history`` beside a
    question. If the model fails or writes nothing, the last question is used unchanged, with a
    note.
    """
    question, history = question_of(given, key), _earlier(given, key)
    if not history:
        return question, ()
    if condense is None:
        return question, (LEFT_OUT,)
    model = Backend(runnable_of(condense), text_of, name="condense")
    prompt = PROMPT.format(history=get_buffer_string(history), question=question)
    written, error = yield from attempt(model.ask(prompt, internal(config)))
    if error is not None:
        return question, (f"the conversation was not condensed ({error_line(error)})",)
    if not (text := str(written).strip()):
        return question, ("the conversation was not condensed: the model wrote nothing",)
    return text, ()


def _earlier(given: Any, key: str | None) -> list[BaseMessage]:
    """Return the messages before the one whose text is the question."""
    messages = given
    if isinstance(given, Mapping):
        names = KEYS if key is None else (key,)
        named = next((given[name] for name in names if name in given), None)
        if named is None:
            messages = given.get("messages") if key is None else None
        elif isinstance(named, str | BaseMessage):
            history = next((given[name] for name in HISTORIES if given.get(name)), ())
            return [] if isinstance(history, str) else convert_to_messages(list(history))
        else:
            messages = named
    if isinstance(messages, str | BaseMessage) or not isinstance(messages, Sequence):
        return []
    read = convert_to_messages(messages)
    last = max(at for at, message in enumerate(read) if isinstance(message, HumanMessage))
    return read[:last]
