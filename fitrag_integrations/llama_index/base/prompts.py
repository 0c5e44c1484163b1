"""Prompts over nodes, citations of what an answer refers to, and tools for agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.prompts import BasePromptTemplate, PromptTemplate
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from fitrag_integrations.core.checks import trait
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.llama_index.base.convert import node_of, passages_of
from fitrag_integrations.methods.citing import Cited, cite, restored
from fitrag_integrations.methods.prompts import prompt_named, render_passages, template_of
from fitrag_integrations.types import Context, Excerpt, Passage, Template
from fitrag_integrations.values.prompt import numbered

__all__ = ["as_template", "prompt"]

NAMES = {"context_str": "context", "query_str": "question"}
"""What LlamaIndex's own components call the two."""


def prompt(name: str) -> PromptTemplate:
    """Return a prompt, for example as a synthesizer's ``text_qa_template``.

    Its variables are ``context_str`` and ``query_str``, as in LlamaIndex, or ``context`` and
    ``question``, and in some prompts ``draft``. Inserted text is never read as a template.

    Args:
        name: Name of the prompt; see ``prompt_named``.

    Raises:
        InputError: If the name is unknown.
    """
    return PromptTemplate(prompt_named(name), template_var_mappings=dict(NAMES))


@dataclass(frozen=True)
class Written:
    """Template that renders a context with a LlamaIndex prompt, or ours if nothing was kept."""

    prompt: BasePromptTemplate
    alone: bool = False
    """Whether the question stands by itself, and no passages are shown."""

    def render(self, context: Context) -> str:
        """Fill the prompt's variables for ``context_str`` and ``query_str`` with a context."""
        if not (context.excerpts or self.alone):
            return context.prompt()
        passages = render_passages(context)
        return str(self.prompt.format(context_str=passages, query_str=context.question))


def as_template(template: Any, *, alone: bool = False) -> Template | None:
    """Accept a LlamaIndex prompt, a template of this package, its name, or a text with fields.

    Args:
        template: Template. A text has {context_str} and {query_str}, or {context} and {question}.
        alone: Whether no passages are shown; a text then has the question only.
    """
    if isinstance(template, str) and "{" in template:
        names = set(PromptTemplate(template).template_vars)
        known = {*NAMES, *NAMES.values()}
        wrong = names - known or not (alone or names & {"context_str", "context"})
        allowed = "a text with " + " and ".join(f"{{{name}}}" for name in NAMES.values())
        refuse_if(wrong, "template", template, allowed)
        mapped = {ours: theirs for ours, theirs in NAMES.items() if theirs in names}
        return Written(PromptTemplate(template, template_var_mappings=mapped), alone)
    is_theirs = isinstance(template, BasePromptTemplate)
    return Written(template, alone) if is_theirs else template_of(template)


def numbered_nodes(
    nodes: Sequence[NodeWithScore],
    *,
    sources: Sequence[BaseNode | NodeWithScore] = (),
    best_last: bool = False,
) -> str:
    """Return nodes as the numbered lines of a prompt, one number for each source.

    Pieces of one source stand together in the order of its text, as in ``Context.prompt``. A line
    begins with the title in the node's metadata, or else with its source or file, or else with its
    id, unless that was generated (a UUID). `cite_nodes` resolves these numbers if it is given the
    same nodes and sources. Sources that are not in the title, and ids, are not counted in the
    `max_tokens` of a drop-in.

    Args:
        nodes: The nodes to show, in the order of their numbers.
        sources: The nodes or documents that these were cut from: a table's header row, say, that
            several pieces have is then shown once.
        best_last: Whether the lines stand in reverse, under the same numbers, so that the first
            node is next to a question that follows.

    Returns:
        One text; "(No passage was found.)" where there are no nodes.

    Raises:
        InputError: If an item is not a node.
    """
    return numbered(_excerpts(nodes, sources), best_last=best_last)


def cite_nodes(
    nodes: Sequence[NodeWithScore],
    answer: str,
    *,
    sources: Sequence[BaseNode | NodeWithScore] = (),
    by_source: bool = True,
) -> Cited:
    """Return the citations of an answer whose prompt numbered these nodes.

    Args:
        nodes: The nodes of the prompt, in its order.
        answer: The answer, with numbers such as [1].
        sources: Nodes or documents that these were cut from: a citation then shows the whole
            source, if it has the node's text in the place that the node names.
        by_source: Whether all pieces of a source have one number, as `numbered_nodes` and the
            prompts of `MethodQueryEngine` write them; False where your prompt numbers every node.

    Raises:
        InputError: For anything that is not a node.
    """
    return cite(_excerpts(nodes, sources), answer, by_source=by_source)


def _excerpts(
    nodes: Sequence[NodeWithScore], sources: Sequence[BaseNode | NodeWithScore]
) -> list[Excerpt]:
    bare = [NodeWithScore(node=one) if isinstance(one, BaseNode) else one for one in sources]
    named = {passage.id: passage for passage in passages_of(bare)}
    return [restored(passage, named, _places(passage)) for passage in passages_of(nodes)]


def _places(passage: Passage) -> Iterator[tuple[str, int]]:
    """Return where a node says it begins in its SOURCE, besides where this package cut it."""
    node = node_of(passage)
    start = trait(node, "start_char_idx", int)
    if node.ref_doc_id and start is not None:
        yield node.ref_doc_id, start


def tool_of(
    component: object,
    schema: type[BaseModel],
    call: Callable[..., object],
    acall: Callable[..., Awaitable[object]],
    *,
    name: str | None,
    description: str,
) -> FunctionTool:
    """Build the tool of a component.

    The content of its output is text: numbered passages, or the answer; ``raw_output`` is what the
    component returned.

    Args:
        component: Component that the tool wraps.
        schema: The arguments.
        call: Function that takes these arguments.
        acall: Async version of `call`.
        name: Name of the tool; the name of the component's class by default.
        description: When an agent is to call it.

    Returns:
        A tool that rejects missing arguments and arguments that are not in the schema.
    """

    def text(output: Any) -> str:
        return numbered_nodes(output) if isinstance(output, list) else str(output)

    return FunctionTool.from_defaults(
        call,
        name=name or type(component).__name__,
        description=description,
        fn_schema=schema,
        async_fn=acall,
        callback=text,
    )
