"""Make tools for agents of components: named arguments in, a text and the whole result out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from pydantic import BaseModel, Field

from fitrag_integrations.llama_index.citing import numbered_nodes


class Query(BaseModel):
    """Arguments of a retriever's tool."""

    query: str = Field(description="What to search for, as a full question or a few keywords.")


class Asked(BaseModel):
    """Arguments of the tool of an engine or a selector."""

    question: str = Field(description="The question, as the user asks it.")


class AskedOfTexts(Asked):
    """Arguments of a postprocessor's tool."""

    documents: list[str] = Field(description="The texts to work on, best first.")


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
        component: What the tool is made of.
        schema: The arguments.
        call: Function that takes them.
        acall: Async version of it.
        name: Name of the tool; None is that of the component's class.
        description: When an agent is to call it.

    Returns:
        The tool, which refuses arguments that are missing or not in the schema.
    """
    return FunctionTool.from_defaults(
        call,
        name=name or type(component).__name__,
        description=description,
        fn_schema=schema,
        async_fn=acall,
        callback=_text,
    )


def nodes_of(documents: list[str]) -> list[NodeWithScore]:
    """Make a node of each text."""
    return [NodeWithScore(node=TextNode(text=text)) for text in documents]


def _text(output: Any) -> str:
    """Write what a component returned as a model reads it."""
    return numbered_nodes(output) if isinstance(output, list) else str(output)
