"""What clients send, the models of one process, and what the routes ask of them.

Clients send TEI's texts, Jina's and Cohere's documents, and the rows of the verbs. A field that no
shape has is refused by name, since ignoring it would answer another question.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import AnyVerb
from fitrag_integrations.commands.engine.options import Files, ModelOptions
from fitrag_integrations.commands.run.compress import CompressPlan, compress_verb
from fitrag_integrations.commands.run.judge import chosen_thresholds, gate_verb, route_verb
from fitrag_integrations.commands.serve.limits import (
    CHARACTERS,
    QUERY_CHARACTERS,
    Metrics,
    Settings,
)
from fitrag_integrations.core.checks import check_text
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import arun
from fitrag_integrations.methods.defaults import is_default
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.types import BiLabelScore, Passage

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

    def fields(self) -> dict[str, object]:
        """Return the row as the verb reads it."""
        return self.model_dump()


class CompressRow(Row):
    """Row for `fitrag compress`; `max_tokens` is its option, `offsets` the unit of the places.

    "utf16" is what JavaScript, Java and C# slice by, "codepoints" what Python does.
    """

    offsets: Literal["codepoints", "utf16"] = "codepoints"
    max_tokens: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document's place in the request, its relevance in [0, 1] and its logit.

    `spans` are the relevant stretches in source order, None where they were not asked for.
    """

    index: int
    text: str
    relevance: float
    spans: list[dict[str, float]] | None = None

    @property
    def logit(self) -> float:
        """The relevance on the scale of logits."""
        kept = min(1.0 - 1e-9, max(1e-9, self.relevance))
        return math.log(kept / (1.0 - kept))


class Service:
    """The scorer, and the verbs over it and the other models."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._scorer: Any = None
        self._verbs: dict[str, AnyVerb] = {}

    @property
    def name(self) -> str:
        """The scorer's name."""
        return str(self._scorer.name)

    def load(self) -> None:
        """Load the models."""
        given = self._settings
        self._scorer = models.load_scorer(self._options(given.model))
        evaluator = models.load_evaluator(self._options(given.evaluator))
        step = CompressPlan(Files("-", "-")).reducing(self._scorer)
        self._verbs = {
            "compress": compress_verb(step, offsets=None),
            "route": route_verb(evaluator, chosen_thresholds(evaluator)),
            "gate": gate_verb(models.load_gate(replace(self._options(given.gate), backend=None))),
        }

    def _options(self, model: str) -> ModelOptions:
        given = self._settings
        return ModelOptions(
            model or None,
            given.device or None,
            given.dtype or None,
            given.batch_tokens or None,
            given.backend or None,
            given.model_kwargs or None,
        )

    def stop(self) -> None:
        """Free the memory of the service's own scorer; the default one is shared by the process."""
        if self._scorer is not None and not is_default(self._scorer):
            self._scorer.unload()
        self._verbs.clear()

    def info(self) -> dict[str, object]:
        """Return the names of the models and the limits; never the key."""
        given = self._settings
        limits = {
            "documents": given.documents,
            "sentences": given.sentences,
            "payload": given.payload,
            "concurrency": given.concurrency,
            "deadline": given.deadline,
        }
        return {"model_id": self.name, "model_type": {"reranker": {}}, "limits": limits}

    async def rerank(self, asked: Rerank) -> list[Ranked]:
        """Rank documents, best first; ties keep the order given. Raises `InputError`."""
        passages = self._passages(asked)
        if asked.relevant_spans is not None and asked.relevant_spans.mode == "enabled":
            ranked = await self._with_spans(asked.query, passages, asked.relevant_spans)
        else:
            scores = await self._scorer.ascore([(asked.query, p) for p in passages])
            ranked = [
                Ranked(i, p.text, relevance(score))
                for i, (p, score) in enumerate(zip(passages, scores, strict=True))
            ]
        self._metrics.pairs.inc(len(passages))
        ranked.sort(key=lambda one: -one.relevance)
        return ranked[: asked.top_n] if asked.top_n else ranked  # 0 is all, as vLLM has it

    async def _with_spans(
        self, question: str, passages: list[Passage], wanted: Spans
    ) -> list[Ranked]:
        cut = await asyncio.to_thread(lambda: [split_sentences(p.text) for p in passages])
        count, most = sum(map(len, cut)), self._settings.sentences
        allowed = f"at most {most} with relevant_spans, set by the server"
        refuse_if(count > most, "sentences of the documents", count, allowed)
        items = [(question, p, places) for p, places in zip(passages, cut, strict=True)]
        judged = await self._scorer.ascore_sentences(items)
        found = []
        for i, ((_, passage, places), (whole, parts)) in enumerate(zip(items, judged, strict=True)):
            spans = [
                {"start": start, "end": end, "score": relevance(score)}
                for (start, end), score in zip(places, parts, strict=True)
                if relevance(score) >= wanted.threshold
            ]
            best = sorted(spans, key=lambda span: -span["score"])[: wanted.max_spans]
            kept = sorted(best, key=lambda span: span["start"])
            found.append(Ranked(i, passage.text, relevance(whole), kept))
        return found

    def _passages(self, asked: Rerank) -> list[Passage]:
        given = asked.texts if asked.documents is None else asked.documents
        if given is None or (asked.texts is not None and asked.documents is not None):
            raise InputError("documents: given both or none of texts and documents, allowed one")
        count, most = len(given), self._settings.documents
        refuse_if(not 1 <= count <= most, "documents", count, f"1 to {most}, set by the server")
        passages = [
            Passage(str(i), one) if isinstance(one, str) else Passage(str(i), one.text, one.title)
            for i, one in enumerate(given)
        ]
        field = "texts" if asked.documents is None else "documents"
        for i, passage in enumerate(passages):
            check_text(f"{field}[{i}]", passage.text, blank=False)
        return passages

    async def row(self, name: str, row: Mapping[str, object]) -> dict[str, object]:
        """Answer a row as the verb of that name does; gives the fields it adds."""
        given, most = row.get("passages"), self._settings.documents
        passages = given if isinstance(given, list) else []
        count = len(passages)
        refuse_if(count > most, "passages", count, f"at most {most}, set by the server")
        for i, one in enumerate(passages):
            text = one.get("text") if isinstance(one, dict) else None
            if isinstance(text, str) and len(text) > CHARACTERS:
                size, allowed = f"{len(text)} characters", f"at most {CHARACTERS}"
                raise InputError.of(f"passages[{i}].text", given=size, allowed=allowed)
        verb = self._verbs[name]
        return dict(verb.fields(await arun(verb.flow(row))))


def relevance(score: BiLabelScore) -> float:
    """Return both labels on one scale in [0, 1]: the mean of the two, or `has_answer` alone."""
    return score.combine() / 2.0
