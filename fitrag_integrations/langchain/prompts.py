"""The prompts of this package as LangChain's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from langchain_core.prompts import BasePromptTemplate, ChatPromptTemplate, PromptTemplate

from fitrag_integrations.errors import refuse_if
from fitrag_integrations.methods.prompts import prompt_named, render_passages, template_of
from fitrag_integrations.types import Context, Template

__all__ = ["as_template", "prompt"]

CONTEXT, QUESTION = ("context", "context_str"), ("question", "query_str", "input", "query")
"""What the two are called in the prompts people have."""


def prompt(name: str) -> ChatPromptTemplate:
    """Return the prompt of that ``name`` as one human message.

    Its variables are {context}, {question} and, where it has one, {draft}; see ``prompt_named`` for
    the names. What fills them is never read as a template. Raises ``InputError`` for an unknown
    name. ``numbered_documents`` writes documents as {context}::

        found = {"context": retriever | numbered_documents, "question": RunnablePassthrough()}
        chain = found | prompt("comprehensive") | llm
    """
    return ChatPromptTemplate.from_messages([("human", prompt_named(name))])


@dataclass(frozen=True)
class Written:
    """Write a context with a prompt of LangChain's, or with ours where nothing is to refer to."""

    prompt: BasePromptTemplate[Any]

    def __post_init__(self) -> None:
        names = self.prompt.input_variables
        others = set(names) - {*CONTEXT, *QUESTION, "draft"}
        allowed = "a prompt with {context} and {question}"
        refuse_if(others or not set(names) & set(CONTEXT), "template", names, allowed)

    def render(self, context: Context) -> str:
        """Fill in what the prompt asks for; messages become one text, as a chat model shows it."""
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
    """Accept a prompt of LangChain's, a template of ours, the name of one, or a text to fill."""
    if isinstance(template, str) and "{" in template:
        return Written(PromptTemplate.from_template(template))
    is_theirs = isinstance(template, BasePromptTemplate)
    return Written(template) if is_theirs else template_of(template)
