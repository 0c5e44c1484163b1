"""What clients send and get: TEI's texts, Jina's and Cohere's documents, and the rows of the verbs.

A field that no shape has is refused by name, since ignoring it would answer another question.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fitrag_integrations.commands.serve.limits import CHARACTERS, QUERY_CHARACTERS

Text = Annotated[str, Field(max_length=CHARACTERS)]
Query = Annotated[str, Field(min_length=1, max_length=QUERY_CHARACTERS)]
Name = Annotated[str, Field(max_length=1000)]  # a bounded text may not hold a lone surrogate either


class Shape(BaseModel):
    """Refuse what is not named."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def known(cls, given: object) -> object:
        """Refuse the first field without a name here; pydantic writes an error for each of them."""
        if isinstance(given, dict) and cls.model_config["extra"] == "forbid":
            for name in given:
                if name not in cls.model_fields:
                    shown = str(name)[:100].encode("utf-8", "backslashreplace").decode()
                    raise ValueError(f"no such field: {shown}")
        return given


class Document(Shape):
    """A document passed as an object."""

    text: Text
    title: Text = ""
    id: Name = ""


class Spans(Shape):
    """Request for the relevant spans of each document, as in Cohere's Rerank 5."""

    mode: Literal["enabled", "disabled"] = "enabled"
    threshold: Annotated[float, Field(ge=0.0, le=1.0)] = 0.1
    max_spans: Annotated[int, Field(ge=1)] | None = None


class Rerank(Shape):
    """Request for the relevance of `texts` (TEI) or `documents` (Jina, Cohere, vLLM) to a query.

    Passages are read whole, however long, and requests in the order they come: `truncate`,
    `truncation_direction`, `max_tokens_per_doc` and `priority` are taken from clients that send
    them and change nothing.
    """

    query: Query
    # Without fail_fast, pydantic writes an error for each of a million wrong elements.
    texts: Annotated[list[Text], Field(fail_fast=True)] | None = None
    documents: Annotated[list[Text | Document], Field(fail_fast=True)] | None = None
    model: Name = ""
    top_n: Annotated[int, Field(ge=0)] | None = None
    return_documents: bool = False
    return_text: bool = False
    raw_scores: bool = False
    truncate: bool | None = None
    truncation_direction: Literal["left", "right", "Left", "Right"] = "right"
    max_tokens_per_doc: int | None = None
    priority: int | None = None
    relevant_spans: Spans | None = None


class Row(Shape):
    """Request with the row that the verb of this name reads."""

    model_config = ConfigDict(extra="allow")
    question: Query

    def fields(self) -> dict[str, Any]:
        """Return the row as the verb reads it."""
        return self.model_dump()


class CompressRow(Row):
    """Row for `fitrag compress`; `max_tokens` is its option, `offsets` the unit of the places.

    "utf16" is what JavaScript, Java and C# slice by, "codepoints" what Python does.
    """

    offsets: Literal["codepoints", "utf16"] = "codepoints"
    max_tokens: Annotated[int, Field(ge=1)] | None = None
