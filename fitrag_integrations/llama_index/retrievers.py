"""Retrievers: FIT-RAG, the other papers' methods, any method, an index, and a web search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal

from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

from fitrag_integrations import retrieval
from fitrag_integrations.core.checks import can, check_many, check_whole
from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import name_of
from fitrag_integrations.defaults import DEFAULTS
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.llama_index.base.convert import scored_nodes, stored_passage, web_node
from fitrag_integrations.llama_index.base.ports import Caller, search_port
from fitrag_integrations.llama_index.base.retriever import FlowRetriever, MethodOverBase
from fitrag_integrations.methods.crag.method import Crag
from fitrag_integrations.methods.crag.search import WebSearching
from fitrag_integrations.methods.fitrag.method import FitRag
from fitrag_integrations.methods.ik.decider import OnError
from fitrag_integrations.methods.itrg.method import ITRG
from fitrag_integrations.methods.slimplm.method import SlimPLM
from fitrag_integrations.ports import Method, Missing, check_method
from fitrag_integrations.text.sentences import SentenceSplitter
from fitrag_integrations.text.tokens import Encoder
from fitrag_integrations.types import Context, Passage
from fitrag_integrations.values.passage import made_id
from fitrag_integrations.values.prompt import PromptTemplate, Shot
from fitrag_integrations.values.thresholds import ActionThresholds


@dataclass(eq=False, repr=False, kw_only=True)
class Writing(MethodOverBase):
    """Mixin that adds a language model, and examples for its prompts, to a retriever."""

    llm: object = None
    shots: Iterable[Shot | Row] = ()


@dataclass(eq=False, repr=False, kw_only=True)
class Searching(Writing):
    """Mixin that adds a web search to a retriever."""

    search: object = None


@dataclass(eq=False, repr=False, kw_only=True)
class FitRagRetriever(MethodOverBase):
    """Retriever that keeps the sentences that answer the question, within a budget (FIT-RAG).

    It returns an empty list if ``gate`` finds that the model knows the answer.

    Args:
        base: Retriever of candidates, a hundred in the paper.

    The other options are those of ``fitrag_integrations.methods.FitRag``, of ``MethodOverBase``
    (``ids``, ``title_keys``) and of LlamaIndex's ``BaseRetriever``.

    Example:
        >>> retriever = FitRagRetriever(index.as_retriever(similarity_top_k=100), max_tokens=800)
        >>> nodes = retriever.retrieve("Who designed the bridge?")
        >>> print(retriever.explain())
    """

    made: ClassVar = FitRag

    scorer: object = None
    window: int | None = None
    weight: float = DEFAULTS.weight
    prior: float | None = None
    max_tokens: int | None = DEFAULTS.max_tokens
    count_tokens: Callable[[str], int] | Encoder | str | None = None
    detector: object = None
    max_share: float | Literal["auto"] | None = "auto"
    min_score: float | None = DEFAULTS.min_score
    deduplicate: bool = DEFAULTS.deduplicate
    gate: object = None
    top_n: int | None = DEFAULTS.top_n


@dataclass(eq=False, repr=False, kw_only=True)
class CorrectiveRetriever(Searching):
    """Retriever that grades what ``base`` returns, refines it, and searches the web if it is not
    good (CRAG).

    Nodes from the web have ``web``, ``url`` and ``trust`` ("untrusted") in their metadata.

    Args:
        base: Retriever of candidates.
        search: Search provider, tool, retriever, or function of a query; without one the web is not
            searched.
        llm: Language model that writes the keywords; None searches for the question itself.
        shots: Examples for this package's prompts: ``Shot`` objects, or dicts with "question",
            "answer" and "passages" (each with "title" and "text").

    The other options are those of ``fitrag_integrations.methods.Crag``.

    Example:
        >>> retriever = CorrectiveRetriever(index.as_retriever(), search=my_search_tool)
        >>> nodes = retriever.retrieve("How often does the night bus leave?")
        >>> retriever.last_run.value.action
    """

    made: ClassVar = Crag

    evaluator: object = None
    thresholds: ActionThresholds | str | None = None
    top_n: int | None = 5
    strip_threshold: float | None = None
    sentences: int | None = None
    max_tokens: int | None = None
    count_tokens: Callable[[str], int] | Encoder | str | None = None
    split: SentenceSplitter | None = None
    on_web_error: Literal["degrade", "raise"] = "degrade"
    allow_other_model: bool = False
    without: Iterable[str] = ()
    min_score: float | None = None
    on_incorrect: Literal["warn", "drop", "keep"] = "warn"
    deduplicate: bool = True


@dataclass(eq=False, repr=False, kw_only=True)
class SlimPLMRetriever(Writing):
    """Retriever that searches only for what a small proxy model does not know (SlimPLM).

    It returns an empty list if the judge finds that the question is known or, with
    ``when_all_known="skip"``, that all claims are. ``proxy``, ``judge`` and ``rewriter`` may be
    LlamaIndex LLMs.

    Args:
        base: Retriever to query.
        proxy: Model that writes the heuristic answer; None is the judge's own ``drafter``, else
            ``llm``.
        judge: Model that decides whether that answer shows knowledge; None asks ``llm`` for Yes or
            No, and judges a local one by how likely its draft is.
        rewriter: Model that turns the answer into claims and queries; None is ``llm``.
        llm: Language model in place of a missing ``proxy``, ``judge`` or ``rewriter``.
        shots: Examples for this package's prompts: ``Shot`` objects, or dicts with "question",
            "answer" and "passages" (each with "title" and "text").

    The other options are those of ``fitrag_integrations.methods.SlimPLM``.

    Example:
        >>> retriever = SlimPLMRetriever(index.as_retriever(), llm=llm)
        >>> nodes = retriever.retrieve("Who scored Amarcord?")
    """

    made: ClassVar = SlimPLM

    proxy: object = None
    judge: object = None
    rewriter: object = None
    rewriter_prompt: PromptTemplate | str | None = None
    threshold: float | None = None
    k: int | None = 5
    per_query: int | None = None
    rrf_k: float = 60.0
    max_queries: int | None = 16
    max_tokens: int | None = None
    count_tokens: Callable[[str], int] | Encoder | str | None = None
    max_draft: int = 4000
    with_question: bool = False
    judge_question: bool = True
    rewrite: bool = True
    filter: bool = True
    when_all_known: Literal["skip", "retrieve"] = "skip"
    on_error: OnError = "retrieve"
    allow_other_model: bool = False
    deduplicate: bool = True


@dataclass(eq=False, repr=False, kw_only=True)
class ITRGRetriever(Writing):
    """Retriever that alternates retrieval and generation, and returns the last round's nodes
    (ITRG).

    Use it for questions whose second fact can only be found with the first. ``last_run`` has every
    round.

    Args:
        base: Retriever of every round.
        llm: Language model that writes between rounds.
        shots: Examples for this package's prompts: ``Shot`` objects, or dicts with "question",
            "answer" and "passages" (each with "title" and "text").

    The other options are those of ``fitrag_integrations.methods.ITRG``.

    Example:
        >>> retriever = ITRGRetriever(index.as_retriever(), llm=llm, rounds=3)
        >>> nodes = retriever.retrieve("Where was the director of Amarcord born?")
    """

    made: ClassVar = ITRG

    mode: Literal["refine", "refresh"] = "refine"
    answer_tokens: int = 15
    count_tokens: Callable[[str], int] | Encoder | str | None = None
    on_error: Literal["degrade", "raise"] = "degrade"
    rounds: int = 5
    k: int = 5
    stop: str | Iterable[str] = "rounds"
    answers: Literal["caller", "last", "each"] = "caller"
    demonstrations: Iterable[object] = ()
    document_tokens: int = 200
    deduplicate: bool = True


@dataclass(eq=False, repr=False, kw_only=True)
class MethodRetriever(Searching):
    """Retriever of the excerpts that ``method`` keeps from the nodes of ``base``.

    Args:
        base: Retriever to query.
        method: Method of this package or of your own: ``method(question, ports)`` returns a flow.
        search: Search provider, tool, retriever, or function, for a method that searches the web.
        llm: Language model, for a method that writes.
        shots: Examples for this package's prompts: ``Shot`` objects, or dicts with "question",
            "answer" and "passages" (each with "title" and "text").
        ids: "pieces" for ids of their own, "source" for those of the nodes.

    Example:
        >>> MethodRetriever(index.as_retriever(), method=FitRag(top_n=5)).retrieve("Who?")
    """

    method: Method

    def _build(self) -> Method:
        return check_method(self.method)


@dataclass(eq=False, repr=False, kw_only=True)
class FaissRetriever(FlowRetriever):
    """Retriever of the nodes of a ``FaissIndex``, in memory or in a folder.

    Nodes keep their ids and metadata; their score is the inner product.

    Args:
        index: ``FaissIndex``, another object with ``search(queries, k)``, or a folder to load.
        similarity_top_k: Maximum number of nodes.

    Example:
        >>> FaissRetriever.from_texts(["The Danube ends in the Black Sea."]).retrieve("Where?")
    """

    index: Any = field(kw_only=False)
    similarity_top_k: int = DEFAULTS.k

    def _prepare(self) -> None:
        check_whole("similarity_top_k", self.similarity_top_k, low=1)
        if isinstance(self.index, str | PathLike):
            self.index = retrieval.FaissIndex.load(self.index)
        refuse_if(
            not can(self.index, "search"), "index", self.index, "a FaissIndex or the folder of one"
        )

    @classmethod
    def load(cls, folder: str | Path, *, encoder: Any = None, **settings: Any) -> FaissRetriever:
        """Load a saved index at once.

        Args:
            folder: Folder that `FaissIndex.save` wrote.
            encoder: Encoder of the queries; None is the one that the index names.
            **settings: Further arguments of the retriever, such as `similarity_top_k`.
        """
        return cls(retrieval.FaissIndex.load(folder, encoder=encoder), **settings)

    @classmethod
    def from_nodes(
        cls, nodes: Sequence[BaseNode], *, encoder: Any = None, **settings: Any
    ) -> FaissRetriever:
        """Index nodes; results keep their class, relationships and offsets.

        Args:
            nodes: The nodes.
            encoder: Encoder of nodes and queries; None is the embedded one.
            **settings: Further arguments of the retriever, such as `similarity_top_k`.
        """
        given = check_many("nodes", nodes, BaseNode)  # type: ignore[type-abstract]
        passages = [stored_passage(node) for node in given]
        return cls(retrieval.FaissIndex.build(passages, encoder=encoder), **settings)

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        *,
        metadatas: Sequence[Row] | None = None,
        ids: Sequence[str] | None = None,
        encoder: Any = None,
        **settings: Any,
    ) -> FaissRetriever:
        """Index texts.

        Args:
            texts: The texts.
            metadatas: Metadata of each text; `title` and `source` are used.
            ids: Id of each text; without one it is made from the text.
            encoder: Encoder of texts and queries; None is the embedded one.
            **settings: Further arguments of the retriever, such as `similarity_top_k`.
        """
        from fitrag_integrations.retrieval.index import described  # loads NumPy

        passages = [
            Passage(
                name or made_id(text),
                text,
                str(metadata.get("title") or ""),
                str(metadata.get("source") or ""),
                metadata,
            )
            for text, metadata, name in described(texts, metadatas, ids)
        ]
        return cls(retrieval.FaissIndex.build(passages, encoder=encoder), **settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.index!r}, similarity_top_k={self.similarity_top_k})"

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Context]]:
        """Return one flow per query of ``bundles``; a call makes one search."""
        from fitrag_integrations.retrieval.index import searched  # loads NumPy

        return searched([each.query_str for each in bundles], self.index, self.similarity_top_k)

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Return the nodes as they were indexed, with their scores."""
        return scored_nodes(excerpt.passage for excerpt in context.excerpts)


@dataclass(eq=False, repr=False, kw_only=True)
class WebSearchRetriever(FlowRetriever):
    """Retriever of web search results, marked as untrusted, in the order of the search.

    Nodes have ``url``, ``web`` and ``trust`` in their metadata, and a score only if the search
    returned a ``retrieval_score``. A search that fails raises its error; one without results
    returns no nodes.

    Args:
        search: Search provider, such as ``fitrag_integrations.web.WebSearch``, tool, retriever, or
            function of a query.
        rewrite: Search for keywords, as CRAG does, instead of the question.
        llm: Language model that writes the keywords; None searches for the question itself.
        shots: Examples for this package's prompts: ``Shot`` objects, or dicts with "question",
            "answer" and "passages" (each with "title" and "text").

    Example:
        >>> search = WebSearch(SearxngSearch("https://search.example"))
        >>> WebSearchRetriever(search).retrieve("Who designed the bridge?")
    """

    search: Any = field(kw_only=False)
    rewrite: bool = False
    llm: Any = None
    shots: Iterable[Shot | Row] = ()

    def _prepare(self) -> None:
        search_port(self.search)  # rejects a wrong one, None included
        self._method = WebSearching(self.rewrite)
        self._caller = Caller(  # without a retriever: the web is all
            Missing("retrieve", None), self.search, self.llm, shots=self.shots
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(search={name_of(self.search)})"

    def nodes(self, context: Context) -> list[NodeWithScore]:
        """Convert the results to nodes."""
        return [web_node(excerpt.passage, context.method) for excerpt in context.excerpts]
