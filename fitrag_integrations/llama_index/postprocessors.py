"""Postprocessors that rerank and shorten nodes (FIT-RAG, section 4.4; CRAG, section 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import NodeWithScore, QueryBundle

from fitrag_integrations.core.show import name_of
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.llama_index.base.events import dispatcher
from fitrag_integrations.llama_index.base.postprocessor import Model, Postprocessor
from fitrag_integrations.methods.crag.refiner import Refiner
from fitrag_integrations.methods.fitrag.method import Reranking, TokenReducer


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
    """Postprocessor that replaces nodes by their relevant strips, in the order of the documents
    (CRAG).

    The strips are new nodes with true offsets; their score is the evaluator's grade, mapped to [0,
    1]. An image, audio or video stays, behind the strips.

    Args:
        evaluator: Object with ``evaluate(pairs)``; None is the bundled one.

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
