"""The prompts of this package as LlamaIndex's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llama_index.core.prompts import BasePromptTemplate, PromptTemplate

from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.prompts import prompt_named, render_passages, template_of
from fitrag_integrations.types import Context, Template

__all__ = ["as_template", "prompt"]

NAMES = {"context_str": "context", "query_str": "question"}
"""What LlamaIndex's own components call the two."""


def prompt(name: str) -> PromptTemplate:
    """Return the prompt of that ``name``, for instance as the ``text_qa_template`` of a
    synthesizer.

    It is filled with ``context_str`` and ``query_str``, as LlamaIndex does, or with ``context`` and
    ``question``, and, where it has one, with ``draft``; see ``prompt_named`` for the names. What
    fills it is never read as a template. Raises ``InputError`` for an unknown name.
    """
    return PromptTemplate(prompt_named(name), template_var_mappings=dict(NAMES))


@dataclass(frozen=True)
class Written:
    """Write a context with a prompt of LlamaIndex's, or with ours where nothing is to refer to."""

    prompt: BasePromptTemplate
    alone: bool = False
    """Whether the question stands by itself, and no passages are shown."""

    def render(self, context: Context) -> str:
        """Fill ``{context_str}`` and ``{query_str}``, or what the prompt maps them to."""
        if not (context.excerpts or self.alone):
            return context.prompt()
        passages = render_passages(context)
        return str(self.prompt.format(context_str=passages, query_str=context.question))


def as_template(template: Any, *, alone: bool = False) -> Template | None:
    """Accept a prompt of LlamaIndex's, a template of ours, the name of one, or a text to fill.

    A text has {context_str} and {query_str}, or {context} and {question}; with ``alone``, the
    question only.
    """
    if isinstance(template, str) and "{" in template:
        names = set(PromptTemplate(template).template_vars)
        known = {*NAMES, *NAMES.values()}
        if names - known or not (alone or names & {"context_str", "context"}):
            allowed = "a text with " + " and ".join(f"{{{name}}}" for name in NAMES.values())
            raise InputError.of("template", given=template, allowed=allowed)
        mapped = {ours: theirs for ours, theirs in NAMES.items() if theirs in names}
        return Written(PromptTemplate(template, template_var_mappings=mapped), alone)
    is_theirs = isinstance(template, BasePromptTemplate)
    return Written(template, alone) if is_theirs else template_of(template)
