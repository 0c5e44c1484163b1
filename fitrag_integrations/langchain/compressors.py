"""Compressors that rerank and shorten documents (FIT-RAG, section 4.4; CRAG, section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from langchain_core.callbacks import Callbacks
from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel, SkipValidation

from fitrag_integrations.core.checks import check_number, check_text
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import raise_if
from fitrag_integrations.flow import Flow, Traced, arun, run
from fitrag_integrations.langchain.base.conversation import (
    DocumentsInput,
    documents_of,
    question_of,
)
from fitrag_integrations.langchain.base.convert import (
    Documents,
    to_documents,
    to_passage,
    to_passages,
)
from fitrag_integrations.langchain.base.fields import (
    Brief,
    Counter,
    Kept,
    RankingOptions,
    ReducerOptions,
    Splitter,
)
from fitrag_integrations.langchain.base.runnable import (
    FlowRunnable,
    is_own,
)
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.crag.refiner import Refiner
from fitrag_integrations.methods.explaining import Compression, explained
from fitrag_integrations.methods.fitrag.method import Reranking, TokenReducer
from fitrag_integrations.methods.fitrag.options import score_port
from fitrag_integrations.methods.metadata import noted
from fitrag_integrations.ports import Scorer
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.types import Context
from fitrag_integrations.values.score import labels_of


class FlowCompressor(Brief, BaseDocumentCompressor):
    """Compressor that runs a step of ``methods.fitrag`` as a traced Runnable."""

    title_keys: Sequence[str] | None = None
    """Metadata keys whose values are read as a document's title, in this order; None are those of
    `TITLE_KEYS`."""

    def explain(self, documents: Sequence[Document], query: str) -> Compression:
        """Compress documents, and return what was kept and dropped, with the reasons.

        Args:
            documents: Documents, best first.
            query: Question.

        Returns:
            A `Compression`, which prints with `explain()` and displays itself in a notebook.
        """
        return run(self._explained(documents, query)).value

    async def aexplain(self, documents: Sequence[Document], query: str) -> Compression:
        """Async version of `explain`."""
        return (await arun(self._explained(documents, query))).value

    def _explained(self, documents: Sequence[Document], query: str) -> Flow[Compression]:
        passages = to_passages(documents, self.title_keys)
        return explained(self.built(), check_text("query", query, blank=False), passages)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Compress documents; the input documents are not changed.

        Args:
            documents: Documents, best first. One with a blank text cannot be scored and is dropped.
            query: Question.
            callbacks: Callbacks of the run.

        Returns:
            New documents, best first.
        """
        given = {"documents": documents, "query": query}
        return self.as_runnable().invoke(given, {"callbacks": callbacks})

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """Async version of `compress_documents`."""
        if not is_own(type(self), "compress_documents"):
            found = await super().acompress_documents(documents, query, callbacks)
            return cast("list[Document]", found)
        given = {"documents": documents, "query": query}
        return await self.as_runnable().ainvoke(given, {"callbacks": callbacks})

    def as_runnable(self) -> Runnable[dict[str, Any], list[Document]]:
        """Return a Runnable from ``{"documents", "question"}`` to documents.

        A batch is one call. The question may be under any name that other Runnables here accept,
        such as ``query``.
        """
        return CompressorRunnable(name=type(self).__name__, compressor=self)


class CompressorRunnable(FlowRunnable[dict[str, Any], list[Document]]):
    """Runnable that compresses the documents of ``{"documents", "question"}``."""

    _takes: ClassVar[type[BaseModel]] = DocumentsInput
    compressor: SkipValidation[FlowCompressor]  # it was validated when it was made

    def flows(
        self,
        inputs: Sequence[dict[str, Any]],
        configs: Sequence[RunnableConfig],
        **options: object,
    ) -> list[Flow[Context]]:
        """Return one flow per input.

        Args:
            inputs: Dicts with documents and a question.
            configs: Not used.
            **options: Not used.
        """
        return list(map(self._flow, inputs))

    def result(self, traced: Traced[Context]) -> object:
        """Return the documents, which carry the run, or the exception the flow ended with."""
        return traced.error or Documents(to_documents(traced.value), traced)

    def _flow(self, given: dict[str, object]) -> Flow[Context]:
        passages = documents_of(given, self.compressor.title_keys)
        others = {name: value for name, value in given.items() if name != "documents"}
        step = self.compressor.built().context
        return (yield from noted(step, question_of(others), passages))


class BiLabelCrossEncoder(BaseCrossEncoder):
    """Cross-encoder that combines the two labels of a pair into one score in [0, 1].

    Args:
        scorer: Object with ``score(pairs)``; None is the bundled one.
        weight: Weight of ``llm_prefer`` against ``has_answer``, in [0, 1].

    Example:
        >>> CrossEncoderReranker(model=BiLabelCrossEncoder(), top_n=5)
    """

    def __init__(self, scorer: Scorer | None = None, *, weight: float = DEFAULTS.weight) -> None:
        self.scorer = scorer
        self.weight = check_number("weight", weight, low=0.0, high=1.0)
        score_port(scorer)  # rejects a wrong object here

    def __setattr__(self, name: str, value: object) -> None:
        raise_if(
            name not in ("scorer", "weight"),
            AttributeError,
            f"no option {name!r}, but scorer, weight",
        )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(weight={self.weight})"

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Return one score per pair, in [0, 1] and in order; a blank text scores 0."""
        return run(self._flow(text_pairs)).value

    async def ascore(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        """Async version of `score`, in [0, 1], for ``text_pairs``."""
        return (await arun(self._flow(text_pairs))).value

    def _flow(self, text_pairs: Sequence[tuple[str, str]]) -> Flow[list[float]]:
        scores = [0.0] * len(text_pairs)
        asked = [at for at, (_, text) in enumerate(text_pairs) if has_text(text)]
        pairs = [(text_pairs[at][0], to_passage(Document(text_pairs[at][1]))) for at in asked]
        labels = yield from score_port(self.scorer).ask(pairs)
        for at, label in zip(asked, labels_of(labels), strict=True):
            scores[at] = label.relevance(self.weight)
        return scores


class BiLabelReranker(FromFitted, RankingOptions, FlowCompressor):
    """Compressor that keeps the documents that answer and that the model can use, best first
    (FIT-RAG).

    Works in every host of LangChain compressors. The documents returned have ``relevance_score``,
    in [0, 1], and both labels in their metadata.

    Example:
        >>> reranker = BiLabelReranker(top_n=5)
        >>> ContextualCompressionRetriever(base_retriever=retriever, base_compressor=reranker)
    """

    made: ClassVar[type[Reranking]] = Reranking

    def as_cross_encoder(self) -> BiLabelCrossEncoder:
        """Return a cross-encoder for the stock ``CrossEncoderReranker``."""
        return BiLabelCrossEncoder(self.scorer, weight=self.weight)


class SubDocumentCompressor(FromFitted, ReducerOptions, FlowCompressor):
    """Compressor that cuts each document to its best sentences, within a token budget (FIT-RAG).

    Documents come back best first. The budget counts the numbered and titled lines that a prompt of
    this package shows.

    Example:
        >>> compressor = SubDocumentCompressor(max_tokens=800)
        >>> compressor.compress_documents(documents, "Who designed the bridge?")
    """

    made: ClassVar[type[TokenReducer]] = TokenReducer


class KnowledgeRefiner(FromFitted, FlowCompressor):
    """Compressor that keeps the relevant strips of documents, in the order of the documents (CRAG).

    Works in every host of LangChain compressors.

    Example:
        >>> KnowledgeRefiner(top_n=5).compress_documents(documents, "Who designed the bridge?")
    """

    made: ClassVar[type[Refiner]] = Refiner

    evaluator: Kept[Any] = None
    """Object with `evaluate(pairs)`, a scorer, or a callable; None is the bundled one."""
    top_n: int | None = Refiner.top_n
    """Maximum number of strips kept; None is no limit."""
    threshold: float | None = None
    """Grade that a strip has to reach, in [-1, 1]; None is the evaluator's own strip threshold,
    else the paper's -0.5. If no strip reaches it, the best one is kept, with a note."""
    sentences: int | None = None
    """Maximum sentences of a strip; None is what the evaluator was fitted on, else three."""
    max_tokens: int | None = None
    """Token budget of the rendered strips; one too long by itself is shortened to the clauses
    graded best. None is no limit."""
    count_tokens: Kept[Counter | None] = None
    """Counts the tokens of a text; None estimates them."""
    split: Kept[Splitter | None] = None
    """Returns the [start, end) of the sentences of a text; None is the built-in one."""
    min_score: float | None = None
    """Lowest `relevance_score` kept, in [0, 1]; None always keeps one strip."""
    deduplicate: bool = True
    """Keep equal texts, and text that chunks of one source share, once."""
