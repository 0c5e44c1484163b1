"""Make tools for agents of components: named arguments in, a text and the whole result out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, Field, create_model

from fitrag_integrations.core.record import plain
from fitrag_integrations.flow import Traced
from fitrag_integrations.langchain.base.convert import to_passages
from fitrag_integrations.methods.adapting import numbered
from fitrag_integrations.types import Context, Excerpt

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


class Query(BaseModel):
    """Input of a retriever as a tool."""

    query: str = Field(description="What to search for, as a full question or a few keywords.")


class Asked(BaseModel):
    """Input of a component that takes a question."""

    question: str = Field(description="The question, as the user asks it.")


class AskedOfDocuments(Asked):
    """Input of a component that takes a question and documents."""

    documents: list[str | Document] = Field(
        description="The documents to work on, best first: texts, or objects with page_content "
        "and metadata."
    )


class Decision(BaseModel):
    """Output of a gate."""

    retrieve: bool = Field(description="Whether to retrieve for the question.")
    p_known: float | None = Field(description="Probability that the model knows the answer.")
    threshold: float | None = Field(description="Probability above which it counts as known.")
    why: str = Field(description="The reason in one sentence.")


class Judgment(BaseModel):
    """Output of a judge."""

    action: str = Field(description="'correct', 'ambiguous' or 'incorrect'.")
    grades: list[float] = Field(description="A grade in [-1, 1] for each document, in order.")
    thresholds: dict[str, Any] = Field(description="The thresholds between the actions.")
    told: dict[str, Any] | None = Field(None, description="What the judge of the list reported.")


def tool_of(
    runnable: Runnable[Any, Any],
    schema: type[BaseModel],
    *,
    name: str,
    description: str,
    arg_types: Mapping[str, Any] | None = None,
) -> BaseTool:
    """Build the tool of a Runnable.

    The content it answers an agent with is text: numbered passages, the answer, or JSON. The
    artifact is what the Runnable returned.

    Args:
        runnable: What the tool calls.
        schema: The arguments.
        name: Name of the tool.
        description: When an agent is to call it.
        arg_types: Types of the arguments, in place of a schema.

    Returns:
        A tool with ``response_format="content_and_artifact"``.
    """
    from langchain_core.tools import StructuredTool  # the slowest import of all

    if arg_types is not None:
        fields: dict[str, Any] = {each: (kind, ...) for each, kind in arg_types.items()}
        schema = create_model(name, **fields)

    def call(callbacks: Callbacks = None, **given: Any) -> tuple[str, Any]:
        output = runnable.invoke(_input(given), {"callbacks": callbacks})
        return text_of_output(output), output

    async def acall(callbacks: Callbacks = None, **given: Any) -> tuple[str, Any]:
        output = await runnable.ainvoke(_input(given), {"callbacks": callbacks})
        return text_of_output(output), output

    return StructuredTool.from_function(
        call,
        acall,
        name=name,
        description=description,
        args_schema=schema,
        infer_schema=False,
        response_format="content_and_artifact",
    )


def _input(given: dict[str, Any]) -> Any:
    """Return the query by itself, or the arguments, with texts as Documents."""
    if list(given) == ["query"]:
        return given["query"]
    if "documents" not in given:
        return given
    made = [Document(one) if isinstance(one, str) else one for one in given["documents"]]
    return {**given, "documents": made}


def text_of_output(output: Any) -> str:
    """Write what a component returned as a model reads it."""
    if isinstance(output, str):
        return str(output)
    if isinstance(output, BaseMessage):
        return str(output.text)
    if isinstance(output, Traced) and isinstance(output.outcome, Context):
        return numbered(output.outcome.excerpts)
    if isinstance(output, list) and all(isinstance(one, Document) for one in output):
        return numbered([Excerpt.whole(passage) for passage in to_passages(output)])
    return json.dumps(plain(output), ensure_ascii=False, default=str)
