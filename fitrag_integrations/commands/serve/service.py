"""What clients send, the models of one process, and what the routes ask of them.

Clients send TEI's texts, Jina's and Cohere's documents, and the rows of the verbs. A field that no
shape has is refused by name, since ignoring it would answer another question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import EncoderHardware, Files, ModelOptions
from fitrag_integrations.commands.run.compress import CompressPlan, compress_verb
from fitrag_integrations.commands.run.judge import chosen_thresholds, gate_verb, route_verb
from fitrag_integrations.commands.serve.door import Bounds, Metrics, Settings
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import arun
from fitrag_integrations.methods.defaults import is_default
from fitrag_integrations.methods.fitrag.ranking import ranked
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.text.sentences import split_sentences
from fitrag_integrations.text.tokens import approximate_tokens
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage
from fitrag_integrations.values.score import logit

CHARACTERS = 2_000_000  # of a document, or of a text that has no bound of its own
TEXTS = {"query": 50_000, "question": 50_000, "draft": 20_000, "title": 2_000}
Name = Annotated[str, Field(max_length=1000)]  # of a document, a model: no text
Query = Annotated[str, Field(min_length=1)]


class Shape(BaseModel):
    """Shape that drops null, bounds every text and refuses what is not named."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())
    unused: ClassVar[Set[str]] = frozenset()
    """Fields that clients send and that change nothing."""
    other_names: ClassVar[Mapping[str, str]] = {}
    """Names of other routes for a field that has another one here."""

    @model_validator(mode="before")
    @classmethod
    def known(cls, given: object) -> object:
        """Refuse the first wrong field; pydantic writes an error for each of them."""
        if not isinstance(given, dict):
            return given
        kept = {}
        for name, value in given.items():
            if value is None or name in cls.unused:
                continue
            own = cls.other_names.get(name, name)
            name = name if own in given else own
            if name not in cls.model_fields and cls.model_config["extra"] == "forbid":
                shown = str(name)[:100].encode("utf-8", "backslashreplace").decode()
                raise ValueError(f"no such field: {shown}")
            check_lengths(value, str(name), str(name))
            kept[name] = value
        return kept


def check_lengths(value: object, name: str, where: str) -> None:
    """Raise `ValueError` for a text in a value that has more characters than its `name` allows."""
    if isinstance(value, str) and len(value) > (most := TEXTS.get(name, CHARACTERS)):
        raise ValueError(f"{where[:100]} has {len(value)} characters, allowed at most {most}")
    if isinstance(value, list):
        for at, each in enumerate(value):
            check_lengths(each, name, f"{where}[{at}]")
    if isinstance(value, dict):
        for key, each in value.items():
            check_lengths(each, str(key), f"{where}.{key}")


class Document(Shape):
    """A document passed as an object."""

    text: str
    title: str = ""
    id: Name = ""


class Spans(Shape):
    """Request for the relevant spans of each document, as in Cohere's Rerank 5."""

    mode: Literal["enabled", "disabled"] = "enabled"
    threshold: Annotated[float, Field(ge=0.0, le=1.0)] = 0.1
    max_spans: Annotated[int, Field(ge=1)] | None = None


class Rerank(Shape):
    """Request for the relevance of `texts` (TEI) or `documents` (Jina, Cohere, vLLM) to a query.

    Passages are read whole, however long, and requests in the order they come: what clients send
    about truncation, chunks and priority changes nothing. `rank_fields` names what is read of
    documents that are objects; `use_activation` false is vLLM's `raw_scores`.
    """

    unused = {
        *("truncate", "truncation_direction", "truncation_side", "truncate_prompt_tokens"),
        *("max_tokens_per_doc", "max_tokens_per_query", "max_chunks_per_doc", "priority"),
        *("user", "request_id", "cache_salt"),
    }
    other_names = {"question": "query", "passages": "documents"}
    query: Query
    # Without fail_fast, pydantic writes an error for each of a million wrong elements.
    texts: Annotated[list[str], Field(fail_fast=True)] | None = None
    documents: Annotated[list[str | Document], Field(fail_fast=True)] | None = None
    model: Name = ""
    top_n: Annotated[int, Field(ge=0)] | None = None
    return_documents: bool = False
    return_text: bool = False
    raw_scores: bool = False
    use_activation: bool = True
    rank_fields: list[Literal["title", "text"]] = ["title", "text"]
    relevant_spans: Spans | None = None

    def row(self, ranked: Ranked, score: str = "relevance_score") -> dict[str, object]:
        """Return what every shape answers for a document."""
        raw = self.raw_scores or not self.use_activation
        row: dict[str, object] = {
            "index": ranked.index,
            score: logit(ranked.relevance, 1e-9) if raw else ranked.relevance,
        }
        if self.return_text and self.texts is not None:
            row["text"] = ranked.text
        if self.return_documents:
            row["document"] = {"text": ranked.text}
        if ranked.spans is not None:
            row["relevant_spans"] = ranked.spans
        return row | ({"reason": ranked.reason} if ranked.reason else {})


class Row(Shape):
    """Request with the row that the verb of this name reads."""

    model_config = ConfigDict(extra="allow")
    other_names = {"query": "question", "documents": "passages"}
    question: Query


class CompressRow(Row):
    """Row for `fitrag compress`; `max_tokens` is its option, `offsets` the unit of the places.

    "utf16" is what JavaScript, Java and C# slice by, "codepoints" what Python does.
    """

    offsets: Literal["codepoints", "utf16"] = "codepoints"
    max_tokens: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document's place in the request, and its relevance in [0, 1].

    `spans` are the relevant stretches in source order, None where they were not asked for; `reason`
    explains a document that was not scored.
    """

    index: int
    text: str
    relevance: float
    spans: list[dict[str, float]] | None = None
    reason: str = ""


class Service:
    """The scorer, and the verbs over it and the other models."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._scorer: Any = None
        self._prior = 0.0
        self._verbs: dict[str, Verb] = {}

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
        self._prior = step.plan.prior
        self._verbs = {
            "compress": compress_verb(step, offsets=None),
            "route": route_verb(evaluator, chosen_thresholds(evaluator)),
        }
        if given.gate:
            gate = models.load_gate(replace(self._options(given.gate), backend=None))
            self._verbs["gate"] = gate_verb(gate)

    def _options(self, model: str) -> ModelOptions:
        names = (each.name for each in fields(EncoderHardware))
        how = {name: getattr(self._settings, name) or None for name in names}
        return ModelOptions(model=model or None, **how)

    def stop(self) -> None:
        """Free the memory of the service's own scorer; the default one is shared by the process."""
        if self._scorer is not None and not is_default(self._scorer):
            self._scorer.unload()
        self._verbs.clear()

    def info(self) -> dict[str, object]:
        """Return the names of the models and the limits; never the key."""
        limits = {each.name: getattr(self._settings, each.name) for each in fields(Bounds)}
        return {"model_id": self.name, "model_type": {"reranker": {}}, "limits": limits}

    async def rerank(self, asked: Rerank) -> list[Ranked]:
        """Rank documents, best first, as `BiLabelReranker` does. Raises `InputError`.

        A blank document has no relevance and says so, as it is left out in Python.
        """
        given = self._passages(asked)
        passages = [one for one in given if has_text(one.text)]
        spans = asked.relevant_spans
        wanted = spans if spans is not None and spans.mode == "enabled" else None
        found: dict[str, list[dict[str, float]]] = {}
        if wanted is not None:
            scores, found = await self._with_spans(asked.query, passages, wanted)
        else:
            scores = await self._scorer.ascore([(asked.query, p) for p in passages])
        self._metrics.pairs.inc(len(passages))
        wholes = [
            Excerpt.whole(p, score=score.relevance())
            for p, score in zip(passages, scores, strict=True)
        ]
        documents = [
            Ranked(int(one.passage.id), one.text, one.score, found.get(one.passage.id))
            for one in ranked(asked.query, wholes, self._prior)
        ]
        documents += [
            Ranked(int(one.id), one.text, 0.0, [] if wanted else None, "blank document: not scored")
            for one in given
            if not has_text(one.text)
        ]
        return documents[: asked.top_n] if asked.top_n else documents  # 0 is all, as vLLM has it

    async def _with_spans(
        self, question: str, passages: list[Passage], wanted: Spans
    ) -> tuple[list[BiLabelScore], dict[str, list[dict[str, float]]]]:
        """Score documents, and find the relevant spans of each, by its id."""
        cut = await asyncio.to_thread(lambda: [split_sentences(p.text) for p in passages])
        count, most = sum(map(len, cut)), self._settings.sentences
        refuse_if(
            count > most,
            f"the documents have {count} sentences, and with relevant_spans this server takes at "
            f"most {most}: send fewer documents",
        )
        items = [(question, p, places) for p, places in zip(passages, cut, strict=True)]
        judged = await self._scorer.ascore_sentences(items)
        found = {}
        for (_, passage, places), (_, parts) in zip(items, judged, strict=True):
            spans = [
                {"start": start, "end": end, "score": score.relevance()}
                for (start, end), score in zip(places, parts, strict=True)
                if score.relevance() >= wanted.threshold
            ]
            best = sorted(spans, key=lambda span: -span["score"])[: wanted.max_spans]
            found[passage.id] = sorted(best, key=lambda span: span["start"])
        return [whole for whole, _ in judged], found

    def _passages(self, asked: Rerank) -> list[Passage]:
        given = asked.texts if asked.documents is None else asked.documents
        if given is None or (asked.texts is not None and asked.documents is not None):
            raise InputError("`documents` or `texts` must be given, and not both")
        count, most = len(given), self._settings.documents
        refuse_if(
            not 1 <= count <= most,
            f"{count} documents were sent, and this server takes 1 to {most}",
        )
        titled = "title" in asked.rank_fields
        refuse_if("text" not in asked.rank_fields, "`rank_fields` must name the text")
        documents = [Document(text=one) if isinstance(one, str) else one for one in given]
        return [Passage(str(i), one.text, one.title * titled) for i, one in enumerate(documents)]

    def tokens(self, asked: Rerank) -> int:
        """Estimate the tokens of a request, as `usage` reports them."""
        texts = [one.text for one in self._passages(asked)]
        return sum(map(approximate_tokens, [asked.query, *texts]))

    async def row(self, name: str, row: Mapping[str, object]) -> dict[str, object]:
        """Answer a row as the verb of that name does; gives the fields it adds."""
        given, most = row.get("passages"), self._settings.documents
        passages = given if isinstance(given, list) else []
        count = len(passages)
        refuse_if(count > most, f"{count} passages were sent, and this server takes {most} at most")
        verb = self._verbs[name]
        found = dict(verb.fields(await arun(verb.flow(row))))
        if name == "route":
            texts = [one.get("text") if isinstance(one, dict) else one for one in passages]
            blank = [at for at, text in enumerate(texts) if not has_text(str(text))]
            found["notes"] = [f"passages[{at}]: blank, graded -1" for at in blank]
        return found


def wrong(error: Any) -> str:
    """Return the first reason of a `ValidationError`, with the field."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    reason = str(first["msg"].removeprefix("Value error, "))
    return f"{where}: {reason}" if where else reason
