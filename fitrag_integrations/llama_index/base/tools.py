"""Make tools for agents of what the framework has none for: postprocessors and selectors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from llama_index.core.tools import FunctionTool
from pydantic import BaseModel

from fitrag_integrations.llama_index.base.citing import numbered_nodes


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
