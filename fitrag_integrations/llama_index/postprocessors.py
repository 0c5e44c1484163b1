"""Postprocessors that rerank and shorten nodes (FIT-RAG, section 4.4; CRAG, section 4.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from llama_index.core.bridge.pydantic import BaseModel, Field, PrivateAttr
from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool

from fitrag_integrations.core.checks import check_is, check_keywords, check_text
from fitrag_integrations.core.show import name_of
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import refuse_if, shown
from fitrag_integrations.flow import Flow, Traced, arun, run
from fitrag_integrations.llama_index.base.component import is_sync_only
from fitrag_integrations.llama_index.base.convert import (
    media_nodes,
    passages_of,
    piece_node,
    whole_node,
)
from fitrag_integrations.llama_index.base.events import CompressionEvent, dispatcher
from fitrag_integrations.llama_index.base.prompts import tool_of
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.crag.refiner import Refiner
from fitrag_integrations.methods.explaining import Compression, explained
from fitrag_integrations.methods.fitrag.method import Reranking, TokenReducer
from fitrag_integrations.methods.metadata import noted
from fitrag_integrations.methods.settings import Built, State, option_names, restored, saved
from fitrag_integrations.types import Context

Model: TypeAlias = Annotated[Any, Field(exclude=True)]
"""A model or a function, which `to_dict` writes only if it is a bundled one."""


class TextsArguments(BaseModel):
    """Arguments of a postprocessor's tool."""

    question: str = Field(description="The question, as the user asks it.")
    documents: list[str] = Field(description="The texts to work on, best first.")


class Postprocessor(Built, FromFitted, BaseNodePostprocessor):
    """Node postprocessor whose fields are the options of the step ``made``.

    LlamaIndex's own pickling silently drops values that cannot be pickled. Here everything except
    the callback manager is pickled, and a value that cannot be pickled raises an error.
    """

    title_keys: Sequence[str] | None = None
    """Metadata keys whose values are read as a node's title, in this order; None are those that an
    embedder reads."""
    _state: State = PrivateAttr(default_factory=State)

    def __init__(self, **options: Any) -> None:
        check_keywords(type(self).__name__, options, type(self).model_fields)
        options = {name: restored(name, value) for name, value in options.items()}
        own = option_names(self.made)
        self.made(**{name: value for name, value in options.items() if name in own})  # checks them
        super().__init__(**options)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the component in serialized form."""
        return cls.__name__

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the options in plain values, from which `from_dict` builds an equal component.

        A bundled model is written as "embedded".

        Raises:
            InputError: For any other model and for functions, which have no plain form.
        """
        values = super().to_dict(**kwargs)
        for name, value in self._given():
            if name not in values:
                values[name] = saved(name, value)
                refuse_if(
                    not isinstance(values[name], dict | str | bool | int | float),
                    f"`{name}` cannot be written: only a bundled model has a name, and this is "
                    f"{shown(value)}. Leave it out, and pass it again when you load the rest.",
                )
        return values

    @property
    def last_run(self) -> Traced[Context] | None:
        """Return the trace of the last run of this object that ended, or None."""
        return cast("Traced[Context] | None", self._state.traced)

    def as_tool(
        self,
        name: str | None = None,
        description: str = "Keep what matters in documents for a question.",
    ) -> FunctionTool:
        """Return a tool for agents that returns the numbered passages kept.

        Args:
            name: Name of the tool. Defaults to the name of the class.
            description: When an agent is to call it.

        Returns:
            A tool whose ``raw_output`` is the list of nodes.
        """

        def nodes(documents: list[str]) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(text=text)) for text in documents]

        return tool_of(
            self,
            TextsArguments,
            lambda question, documents: self.postprocess_nodes(
                nodes(documents), query_str=question
            ),
            lambda question, documents: self.apostprocess_nodes(
                nodes(documents), query_str=question
            ),
            name=name,
            description=description,
        )

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        flow = self._flow(nodes, query_bundle)
        with self._reporting(nodes, query_bundle) as kept:
            kept.extend(self._kept(nodes, run(flow)))
        return kept

    @dispatcher.span
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if is_sync_only(self, "_postprocess_nodes", Postprocessor):  # as the framework's own does
            return await asyncio.to_thread(self._postprocess_nodes, nodes, query_bundle)
        flow = self._flow(nodes, query_bundle)
        with self._reporting(nodes, query_bundle) as kept:
            kept.extend(self._kept(nodes, await arun(flow)))
        return kept

    def _flow(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None) -> Flow[Context]:
        passages = passages_of(nodes, self.title_keys)
        return noted(self.built().context, question_of(query_bundle), passages)

    def _reporting(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
    ) -> AbstractContextManager[list[NodeWithScore]]:
        """Report a run around it; what it keeps is put into the list given out."""
        return nullcontext([])

    def _kept(self, nodes: list[NodeWithScore], traced: Traced[Context]) -> list[NodeWithScore]:
        """Write what was kept, and behind it the media that nobody judged."""
        self._state.traced, context = traced, traced.value
        kept = [
            whole_node(one, context.method, context.answerable)
            if context.method == "rerank" and one.text == one.passage.text
            else piece_node(one, context.method, answerable=context.answerable)
            for one in context.excerpts
        ]
        if context.method != "rerank":
            dispatcher.event(
                CompressionEvent(
                    nodes_in=len(nodes),
                    nodes_out=len(kept),
                    tokens_in=context.details.get("tokens_in", 0),
                    tokens_out=context.details.get("tokens_out", 0),
                )
            )
        return [*kept, *media_nodes(nodes, context, kept)]

    def explain(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,
        query_str: str | None = None,
    ) -> Compression:
        """Run on nodes, and return what was kept and dropped, with the reasons.

        Args:
            nodes: Nodes with scores.
            query_bundle: Query.
            query_str: Query as a text, instead of `query_bundle`.

        Returns:
            A `Compression`, which prints with `explain()` and displays itself in a notebook.
        """
        return run(self._explained(nodes, query_bundle, query_str)).value

    async def aexplain(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,
        query_str: str | None = None,
    ) -> Compression:
        """Async version of `explain`, for `nodes` and `query_str`."""
        return (await arun(self._explained(nodes, query_bundle, query_str))).value

    def _explained(
        self, nodes: list[NodeWithScore], bundle: QueryBundle | None, text: str | None
    ) -> Flow[Compression]:
        refuse_if(
            text is not None and bundle is not None,
            "`query_bundle` and `query_str` were both given: pass one of them",
        )
        asked = bundle if text is None else QueryBundle(check_text("query_str", text))
        return explained(self.built(), question_of(asked), passages_of(nodes, self.title_keys))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **dict(self._given())), ()


def question_of(query_bundle: QueryBundle | None) -> str:
    """Require a query with a visible character."""
    refuse_if(query_bundle is None, "there is no question: pass `query_str` or `query_bundle`")
    bundle = check_is("query_bundle", query_bundle, QueryBundle)
    return check_text("query_str", bundle.query_str, blank=False)


class RankingOptions(Postprocessor):
    """Options of postprocessors that rank nodes by the two labels."""

    top_n: int | None = DEFAULTS.top_n
    weight: float = DEFAULTS.weight
    prior: float | None = None
    min_score: float | None = DEFAULTS.min_score
    scorer: Model = None
    deduplicate: bool = DEFAULTS.deduplicate


class BiLabelReranker(RankingOptions):
    """Postprocessor that keeps the nodes that answer and that the model can use, best first
    (FIT-RAG).

    Nodes come back as copies with ``relevance_score``, ``has_answer`` and ``llm_prefer``, in [0,
    1], in their metadata. A node without text is dropped, but an image, audio or video stays,
    behind the others.

    Args:
        top_n: Nodes kept; None keeps all.
        scorer: Object with ``score(pairs)``; None is the bundled one.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].
        min_score: Lowest ``relevance_score`` kept, in [0, 1]; None keeps all.

    The other options are those of ``fitrag_integrations.methods.FitRag``.

    Example:
        >>> reranker = BiLabelReranker(top_n=5)
        >>> index.as_query_engine(similarity_top_k=50, node_postprocessors=[reranker])
    """

    made: ClassVar[Any] = Reranking

    @contextmanager
    def _reporting(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None
    ) -> Iterator[list[NodeWithScore]]:
        kept = list[NodeWithScore]()
        start = ReRankStartEvent(
            query=query_bundle,
            nodes=nodes,
            top_n=len(nodes) if self.top_n is None else self.top_n,
            model_name=name_of("embedded" if self.scorer is None else self.scorer),
        )
        dispatcher.event(start)
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: start.model_name,
            EventPayload.QUERY_STR: query_bundle.query_str if query_bundle else "",
            EventPayload.TOP_K: start.top_n,
        }
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            yield kept
            event.on_end(payload={EventPayload.NODES: kept})
        dispatcher.event(ReRankEndEvent(nodes=kept))


class SubDocumentCompressor(RankingOptions):
    """Postprocessor that replaces each node by its best sentences, within a token budget (FIT-RAG).

    The pieces are new nodes with true offsets, best first. An image, audio or video stays, behind
    them.

    Args:
        max_tokens: Budget of the numbered titles and texts of FIT-RAG's prompt; other metadata that
            a node shows to a language model is not counted.
        scorer: Object with ``score(pairs)``; None is the bundled one.

    The other options are those of ``fitrag_integrations.methods.TokenReducer``.

    Example:
        >>> compressor = SubDocumentCompressor(max_tokens=800)
        >>> index.as_query_engine(similarity_top_k=50, node_postprocessors=[compressor])
    """

    made: ClassVar[Any] = TokenReducer

    window: int | None = None
    max_tokens: int | None = DEFAULTS.max_tokens
    count_tokens: Model = None
    detector: Model = None
    max_share: float | Literal["auto"] | None = "auto"


class KnowledgeRefiner(Postprocessor):
    """Postprocessor that replaces nodes with their relevant strips, in document order (CRAG).

    The strips are new nodes with true offsets; their score is the evaluator's grade, mapped to [0,
    1]. Images, audio and video follow the strips, if their node has no text or a strip of it was
    kept.

    Args:
        evaluator: Object with ``evaluate(pairs)``, a scorer, or a callable; None is the bundled
            one.

    The other options are those of ``fitrag_integrations.methods.Refiner``.

    Example:
        >>> index.as_query_engine(node_postprocessors=[KnowledgeRefiner(top_n=5)])
    """

    made: ClassVar[Any] = Refiner

    evaluator: Model = None
    top_n: int | None = 5
    threshold: float | None = None
    sentences: int | None = None
    max_tokens: int | None = None
    count_tokens: Model = None
    split: Model = None
    min_score: float | None = None
    deduplicate: bool = True
