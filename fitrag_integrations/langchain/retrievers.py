"""Retrievers: FIT-RAG, the other papers' methods, any method, an index, and a web search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from pydantic import field_validator

from fitrag_integrations import retrieval
from fitrag_integrations.core.checks import can, check_many
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.convert import to_passage, to_passages
from fitrag_integrations.langchain.base.fields import (
    AnyMethod,
    AnyRunnable,
    Count,
    Counter,
    Finder,
    Kept,
    ReducerOptions,
    Search,
    Shots,
    Splitter,
    runnable_of,
)
from fitrag_integrations.langchain.base.ports import Backend, Offer, role_ports
from fitrag_integrations.langchain.base.retriever import FlowRetriever, MethodOverBase
from fitrag_integrations.langchain.base.runnable import is_own
from fitrag_integrations.langchain.compressors import (
    BiLabelReranker,
    FlowCompressor,
    SubDocumentCompressor,
)
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.crag.method import Crag
from fitrag_integrations.methods.crag.search import WebSearching
from fitrag_integrations.methods.fitrag.method import FitRag
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.methods.itrg.method import ITRG
from fitrag_integrations.methods.slimplm.method import SlimPLM
from fitrag_integrations.ports import Gate, Method, Recognizer
from fitrag_integrations.types import Context, Excerpt
from fitrag_integrations.values.prompt import PromptTemplate
from fitrag_integrations.values.thresholds import ActionThresholds


class Writing(MethodOverBase):
    """Mixin that adds a language model, and examples for its prompts, to a retriever."""

    llm: Kept[AnyRunnable | None] = None
    """Language model or chain for methods that generate text."""
    shots: Shots = ()
    """Examples for this package's prompts: `Shot` objects, or dicts with "question", "answer" and
    "passages" (each with "title" and "text")."""


class Searching(Writing):
    """Mixin that adds a web search to a retriever."""

    search: Kept[Search | None] = None
    """Search tool, provider, Runnable or callable; None turns web search off."""


class FitRagRetriever(FromFitted, ReducerOptions, MethodOverBase):
    """Retriever that keeps the sentences that answer, within a token budget (FIT-RAG).

    It scores and reranks what ``base`` returns and reduces it to its best sentences. It returns
    nothing if ``gate`` finds that the model knows the answer. With ``k`` it returns the best piece
    of each of up to ``k`` documents. Options that would return fewer then apply only if they are
    set.

    Example:
        >>> base = store.as_retriever(search_kwargs={"k": 100})
        >>> found = FitRagRetriever(base=base, max_tokens=800).invoke("Who designed the bridge?")
        >>> print(found.explain())
    """

    made: ClassVar[type[FitRag]] = FitRag

    gate: Kept[Gate | Recognizer | Decider | None] = None
    """A `Recognizer`, called with the scores of all retrieved documents as in the paper; or a
    `Gate` or `Decider`, called before anything is retrieved: a question that is known is not
    retrieved for. None always retrieves."""


class CorrectiveRetriever(FromFitted, Searching):
    """Retriever that grades what ``base`` returns, refines it, and searches the web if it is not
    good (CRAG).

    Strips of the documents come first, then strips of web pages, each in the order of its
    documents. Documents from the web have ``url``, ``web`` and ``trust`` in their metadata. The
    ``context`` of the result has the action, the thresholds, the notes, and ``web_error`` if the
    search failed. Without an ``llm`` the query of the search is the question itself.

    Example:
        >>> retriever = CorrectiveRetriever(base=store.as_retriever(), search=my_search_tool)
        >>> retriever.invoke("How often does the night bus leave?").context.action
    """

    made: ClassVar[type[Crag]] = Crag

    evaluator: Kept[Any] = None
    """Object with `evaluate(pairs)`, a bi-label scorer, or a callable; None is the bundled one."""
    thresholds: Kept[ActionThresholds | str | None] = None
    """None are the evaluator's own; a text names a preset of the paper."""
    top_n: int | None = Crag.top_n
    """Strips kept of what was retrieved, and as many of what the web gave; None is no limit."""
    strip_threshold: float | None = None
    """Grade that a strip has to reach, in [-1, 1]; None is the evaluator's, else the paper's."""
    sentences: int | None = None
    """Maximum sentences of a strip; None is what the evaluator was fitted on, else three."""
    max_tokens: int | None = None
    """Token budget of both sources together; None is no limit."""
    count_tokens: Kept[Counter | None] = None
    """Counts the tokens of a text; None estimates them."""
    split: Kept[Splitter | None] = None
    """Returns the [start, end) of the sentences of a text; None is the built-in one."""
    on_web_error: Literal["degrade", "raise"] = "degrade"
    """A failed search: "degrade" notes it, "raise" raises it."""
    allow_other_model: bool = False
    """Accept thresholds that were fitted for another evaluator."""
    without: Sequence[str] = ()
    """Steps and actions to leave out, for the paper's ablations: "refine" (retrieved documents stay
    whole), "rewrite" (the question itself is searched for), "select" (all that the web gave is
    kept); "correct", "incorrect", "ambiguous"."""
    min_score: float | None = None
    """Lowest `relevance_score` kept, in [0, 1]; None always keeps one strip."""
    on_incorrect: Literal["warn", "drop", "keep"] = "warn"
    """What to do where all that was retrieved is graded incorrect and the web gave nothing, or what
    is graded lower or incorrect too. "warn" keeps the best of it, and the prompt says that it was
    judged not to answer the question; "drop" keeps nothing of it; "keep" keeps it and says so in a
    note only."""
    deduplicate: bool = True
    """Keep equal texts, and text that chunks of one source share, once."""


ROLES = {"proxy": "draft", "judge": "judge", "rewriter": "rewrite"}  # and their ports' names


class SlimPLMRetriever(Writing):
    """Retriever that searches only for what a small proxy model does not know (SlimPLM).

    It returns an empty list if the judge finds that the question is known or, with
    ``when_all_known="skip"``, that all claims are. The ``context`` of the result has the decision,
    the claims with their verdicts, and the notes. ``llm`` replaces a missing ``judge`` or
    ``rewriter``, and a missing ``proxy`` if the judge has no ``drafter``.

    Example:
        >>> retriever = SlimPLMRetriever(base=store.as_retriever(), llm=llm)
        >>> found = retriever.invoke("Who scored Amarcord?")
    """

    made: ClassVar[type[SlimPLM]] = SlimPLM

    proxy: Kept[Any] = None
    """Writes the heuristic answer: a chat model or another Runnable, an object with
    `answer(questions)`, or anything that continues prompts; None is the judge's own `drafter`, else
    `llm`."""
    judge: Kept[Any] = None
    """Judges whether question and claims are known; None asks `llm` for Yes or No."""
    rewriter: Kept[Any] = None
    """Writes claims and queries; None is `llm`."""
    rewriter_prompt: Kept[PromptTemplate | str | None] = None
    """A template or the name of one: paper, released or instruct."""
    threshold: float | None = None
    """Threshold of a judge that is a gate, in [0, 1]; None is its own, or 0.5."""
    k: int | None = 5
    """Maximum number of documents returned, whole; None is no limit. Also an argument of
    `invoke`."""
    per_query: int | None = None
    """Documents of each query that count; None is no limit."""
    rrf_k: float = SlimPLM.rrf_k
    """Constant of reciprocal rank fusion."""
    max_queries: int | None = 16
    """Maximum number of queries, all retrieved for in one call; None is no limit."""
    max_tokens: int | None = None
    """Token budget of what is kept; None is no limit."""
    count_tokens: Kept[Counter | None] = None
    """Counts the tokens of a text; None estimates them."""
    max_draft: int = 4000
    """Characters of the heuristic answer that count."""
    with_question: bool = False
    """Retrieve for the question as well."""
    judge_question: bool = True
    """False retrieves for every question (w/o QJ in the paper's Table 2)."""
    rewrite: bool = True
    """False retrieves for the question only (w/o QR)."""
    filter: bool = True
    """False retrieves for every claim (w/o QF)."""
    when_all_known: Literal["skip", "retrieve"] = "skip"
    """Where the filter leaves no query: "retrieve" retrieves for the question itself, "skip" for
    nothing."""
    on_error: Literal["retrieve", "raise"] = "retrieve"
    """A failed step: "retrieve" goes on to more retrieval, with a note; "raise" raises it."""
    allow_other_model: bool = False
    """Accept a threshold that was fitted for another model."""
    deduplicate: bool = True
    """Keep equal texts, and text that chunks of one source share, once."""

    def methods(self, configs: Sequence[RunnableConfig], **options: object) -> list[Method]:
        """Return the method of each question, whose Runnables run under its config.

        The methods differ only in the configs, so the calls of all questions are joined.

        Args:
            configs: The config of each question.
            **options: Not used.
        """
        return [SlimPLM(**self.settings(**ports)) for ports in role_ports(self, ROLES, configs)]

    def settings(self, **given: object) -> dict[str, Any]:
        """Return SlimPLM's current options, with Runnables converted to ports."""
        return super().settings(**{**role_ports(self, ROLES, [RunnableConfig()])[0], **given})


K = ITRG.k  # documents of a round, as in the paper


class ITRGRetriever(Writing):
    """Retriever that alternates retrieval and generation, and returns the last round's documents
    (ITRG).

    Use it for questions whose second fact can only be found with the first. The ``context`` of the
    result has the query, documents and text of every round, and the last text as
    ``details["document"]``.

    Example:
        >>> retriever = ITRGRetriever(base=store.as_retriever(), llm=llm, rounds=3)
        >>> found = retriever.invoke("Where was the director of Amarcord born?")
    """

    made: ClassVar[type[ITRG]] = ITRG

    k: int | None = K
    """Documents of a round, and maximum returned; an argument of `invoke` sets the latter. None is
    5."""
    mode: Literal["refine", "refresh"] = "refine"
    """What a round writes: "refine" improves the last document with the passages that are new,
    "refresh" writes each from all passages of its round."""
    rounds: int = 5
    """Maximum number of rounds."""
    stop: str | Sequence[str] = "rounds"
    """What else ends the rounds, one or several: "empty", a round that finds nothing new;
    "unchanged", an answer that repeats the last one. With "rounds" alone they end early only where
    all further ones would repeat the last."""
    answers: Literal["caller", "last", "each"] = "caller"
    """Who answers: "caller", whose prompt reads the last document; "last" writes the answer here,
    "each" one for every round, which "unchanged" needs."""
    demonstrations: Kept[Sequence[object]] = ()
    """(question, document, answer) triples to show the language model."""
    document_tokens: int = 200
    """Tokens that a document is cut to."""
    answer_tokens: int = 15
    """Tokens that an answer is cut to."""
    deduplicate: bool = True
    """Count equal texts of a retrieval once."""
    count_tokens: Kept[Counter | None] = None
    """Counts the tokens of a text; None estimates them."""
    on_error: Literal["degrade", "raise"] = "degrade"
    """A failed language model or later retrieval: "degrade" leaves the question with what it has,
    and a note; "raise" raises the error."""

    def settings(self, **given: object) -> dict[str, Any]:
        """Return ITRG's current options."""
        return super().settings(**{"k": K if self.k is None else self.k, **given})


class MethodRetriever(FromFitted, Searching):
    """Retriever of the excerpts that ``method`` keeps from the documents of ``base``.

    Example:
        >>> MethodRetriever(base=store.as_retriever(), method=FitRag(top_n=5)).invoke("Who?")
    """

    method: Kept[AnyMethod]
    """Method of this package or of your own: `method(question, ports)` returns the flow that ends
    in a context."""

    def methods(self, configs: Sequence[RunnableConfig], **options: Any) -> list[Method]:
        """Return the method, for each of ``configs``; ``options`` are not used."""
        return [self.method] * len(configs)


class CompressingRetriever(FlowRetriever):
    """Retriever that passes what ``base`` returns through each compressor in turn.

    It is LangChain's ``ContextualCompressionRetriever`` without langchain-classic, and batches
    questions.

    Example:
        >>> steps = [BiLabelReranker(top_n=20), SubDocumentCompressor(max_tokens=800)]
        >>> CompressingRetriever(base=store.as_retriever(), compressors=steps).invoke("Who?")
    """

    base: Kept[Finder]
    """Retriever to start from: any Runnable or callable from a question to documents."""
    compressors: Kept[list[BaseDocumentCompressor]]
    """LangChain compressors, in the order in which they are applied."""

    @classmethod
    def from_fitted(cls, folder: str | Path, *, base: Finder, **given: Any) -> Self:
        """Build the retriever with the settings that `fitrag fit` found best.

        Args:
            folder: Folder that `fitrag fit` wrote.
            base: Retriever of the candidates.
            **given: `llm` and `allow_other_model` of `BiLabelReranker.from_fitted`, and fields of
                both compressors, such as `scorer`.
        """
        kinds = (BiLabelReranker, SubDocumentCompressor)
        return cls(base=base, compressors=[one.from_fitted(folder, **given) for one in kinds])

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[Context]]:
        """Return one flow per question; equal requests of one call are joined.

        Args:
            inputs: The questions.
            configs: The config of each call, in the same order.
            **options: `k`, the maximum number of documents returned.
        """
        base = Backend(runnable_of(self.base), name="retrieve")
        steps = [Backend(_step(each), name="compress") for each in self.compressors]
        pairs = zip(inputs, configs, strict=True)
        return [_flow(query, config, base, steps) for query, config in pairs]


def _flow(
    query: str, config: RunnableConfig, base: Backend, steps: Sequence[Backend]
) -> Flow[Context]:
    documents = yield from base.ask(query, config)
    for step in steps:
        documents = yield from step.ask({"documents": list(documents), "query": query}, config)
    return Context(query, tuple(map(Excerpt.whole, to_passages(documents))), method="compressing")


def _step(compressor: BaseDocumentCompressor) -> Runnable[Any, Any]:
    """Return a compressor as a Runnable: ours take a batch in one call, others one after
    another.
    """
    own = ("compress_documents", "acompress_documents")
    if isinstance(compressor, FlowCompressor) and is_own(type(compressor), *own):
        return compressor.as_runnable()

    def compress(given: dict[str, Any], config: RunnableConfig) -> Sequence[Document]:
        return compressor.compress_documents(**given, callbacks=config.get("callbacks"))

    async def acompress(given: dict[str, Any], config: RunnableConfig) -> Sequence[Document]:
        return await compressor.acompress_documents(**given, callbacks=config.get("callbacks"))

    return RunnableLambda(compress, acompress, name=type(compressor).__name__)


class FaissRetriever(FlowRetriever):
    """Retriever of the documents of a ``FaissIndex``, in memory or in a folder.

    Example:
        >>> retriever = FaissRetriever.from_texts(["The Danube ends in the Black Sea."])
        >>> retriever.invoke("Where does the Danube end?")
    """

    index: Kept[Any]
    """`FaissIndex`, another object with `search(queries, k)`, or a folder to load."""
    k: Count = DEFAULTS.k
    """Maximum number of documents returned; also an argument of `invoke`."""

    @field_validator("index")
    @classmethod
    def _load(cls, index: object) -> object:
        if isinstance(index, str | PathLike):
            return retrieval.FaissIndex.load(index)
        refuse_if(not can(index, "search"), "index", index, "a FaissIndex or a folder")
        return index

    @classmethod
    def load(cls, folder: str | PathLike[str], encoder: Any = None, **fields: Any) -> Self:
        """Load an index that `FaissIndex.save` wrote.

        Args:
            folder: Folder of the index.
            encoder: Encoder of the queries; None is the one that the index names.
            **fields: Further fields of the retriever, such as `k`.
        """
        return cls(index=retrieval.FaissIndex.load(folder, encoder=encoder), **fields)

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        encoder: Any = None,
        metadatas: Iterable[dict[str, Any]] | None = None,
        *,
        ids: Iterable[str] | None = None,
        **fields: Any,
    ) -> Self:
        """Index texts; repeated texts count once.

        Args:
            texts: The texts.
            encoder: Encoder of texts and queries; None is the embedded one.
            metadatas: Metadata of each text.
            ids: Id of each text.
            **fields: Further fields of the retriever, such as `k`.
        """
        from fitrag_integrations.retrieval.index import described  # loads NumPy

        documents = [
            Document(page_content=text, metadata=metadata, id=name or None)
            for text, metadata, name in described(texts, metadatas, ids)
        ]
        return cls.from_documents(documents, encoder, **fields)

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], encoder: Any = None, **fields: Any
    ) -> Self:
        """Index documents.

        Args:
            documents: The documents.
            encoder: Encoder of documents and queries; None is the embedded one.
            **fields: Further fields of the retriever, such as `k`.
        """
        passages = map(to_passage, check_many("documents", documents, Document))
        return cls(index=retrieval.FaissIndex.build(passages, encoder=encoder), **fields)

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[Context]]:
        """Return one flow per question; a call makes one search.

        Args:
            inputs: The questions.
            configs: The config of each call, in the same order.
            **options: `k`, the maximum number of documents returned.
        """
        from fitrag_integrations.retrieval.index import searched  # loads NumPy

        return searched(inputs, self.index, self.most(**options))


class WebSearchRetriever(FlowRetriever):
    """Retriever of web search results, marked as untrusted, in the order of the search.

    Documents carry ``url``, ``web`` and ``trust``; the ``context`` of the result has the query and
    the notes. A search that fails raises its error; one without results returns no documents.

    Example:
        >>> search = WebSearch(SearxngSearch("https://search.example"), pages=PageReader())
        >>> WebSearchRetriever(search=search).invoke("Who designed the bridge?")
    """

    search: Kept[Search]
    """Search tool, provider, Runnable or callable."""
    rewrite: bool = False
    """Whether to search for keywords, as CRAG does, instead of the question."""
    llm: Kept[AnyRunnable | None] = None
    """Language model that writes the keywords; None searches for the question itself."""
    shots: Shots = ()
    """Examples for this package's prompts: `Shot` objects, or dicts with "question", "answer" and
    "passages" (each with "title" and "text")."""

    def documents(self, context: Context) -> list[Document]:
        """Convert the results to documents, marked as untrusted."""
        return [
            each.model_copy(update={"metadata": {**each.metadata, "fitrag": context.method}})
            for each in super().documents(context)
        ]

    def flows(
        self, inputs: Sequence[str], configs: Sequence[RunnableConfig], **options: Any
    ) -> list[Flow[Context]]:
        """Return one flow per question; a call makes one search.

        Args:
            inputs: The questions.
            configs: The config of each call, in the same order.
            **options: `k`, the maximum number of documents returned.
        """
        offer = Offer.of(search=self.search, llm=self.llm, shots=self.shots)
        method = WebSearching(self.rewrite)
        pairs = zip(inputs, configs, strict=True)
        return [method(query, offer.to(config)) for query, config in pairs]
