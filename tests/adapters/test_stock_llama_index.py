"""Every stock host of LlamaIndex runs the drop-ins as they come, with the models that ship."""

import gc
from functools import cache

import pytest
from first_contact import QUESTION, ROWS
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.chat_engine import (
    ContextChatEngine,
)
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceWindowNodeParser,
    get_leaf_nodes,
)
from llama_index.core.postprocessor import (
    LongContextReorder,
    MetadataReplacementPostProcessor,
    SimilarityPostprocessor,
)
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
)
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
    RouterRetriever,
)
from llama_index.core.schema import Document, IndexNode, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool, RetrieverTool

from fitrag_integrations import llama_index as li
from fitrag_integrations.methods import FitRag

# some hosts leave an event loop of their own open, which shows whenever it is collected
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
ANSWER = "designed by Ilse Marbach"
POSTPROCESSORS = [li.BiLabelReranker, li.SubDocumentCompressor, li.KnowledgeRefiner]


@pytest.fixture(autouse=True, scope="module")
def collected():
    yield
    gc.collect()


def nodes():
    return [TextNode(id_=id_, text=text, metadata={"title": title}) for id_, title, text in ROWS]


@cache
def index():
    return VectorStoreIndex(nodes(), embed_model=li.EncoderEmbedding())


def shelf():
    return index().as_retriever(similarity_top_k=5)


RETRIEVERS = {
    "fitrag": li.FitRagRetriever,
    "corrective": li.CorrectiveRetriever,
    "slimplm": lambda base: li.SlimPLMRetriever(base, llm=MockLLM()),
    "itrg": lambda base: li.ITRGRetriever(base, llm=MockLLM(), rounds=2),
    "method": lambda base: li.MethodRetriever(base, method=FitRag()),
    "faiss": lambda base: li.FaissRetriever.from_nodes(nodes()),
}


def answering(retriever, **settings):
    return RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), **settings)


def described(kind, made, text="from the pages"):
    return kind.from_defaults(made, name="pages", description=text)


def router_engine(retriever):
    plain = described(QueryEngineTool, answering(shelf()), "from memory")
    tools = [plain, described(QueryEngineTool, answering(retriever))]
    return RouterQueryEngine(li.KnowledgeSelector(llm=MockLLM()), tools, llm=MockLLM())


def router_retriever(retriever):
    plain = described(RetrieverTool, shelf(), "from memory")
    tools = [plain, described(RetrieverTool, retriever)]
    return RouterRetriever(li.KnowledgeSelector(llm=MockLLM()), tools, llm=MockLLM())


def fusion(*retrievers):
    return QueryFusionRetriever(
        list(retrievers), llm=MockLLM(), num_queries=1, use_async=False, similarity_top_k=5
    )


def recursive(retriever):
    root = VectorStoreIndex(
        [IndexNode(text="All pages on bridges.", index_id="pages")],
        embed_model=li.EncoderEmbedding(),
    ).as_retriever()
    return RecursiveRetriever("root", {"root": root, "pages": retriever})


REORDER = [LongContextReorder(), SimilarityPostprocessor(similarity_cutoff=0.0)]
HOSTS = {
    "query engine": answering,
    "reordered": lambda r: answering(r, node_postprocessors=REORDER),
    "router engine": router_engine,
    "router retriever": router_retriever,
    "citations": lambda r: CitationQueryEngine.from_args(index(), llm=MockLLM(), retriever=r),
    "fusion": lambda r: fusion(r, shelf()),
    "recursive": recursive,
    "context chat": lambda r: ContextChatEngine.from_defaults(r, llm=MockLLM()),
    "tool": lambda r: described(RetrieverTool, r),
}


def found_by(host):
    """Ask a host in its own words."""
    word = next(w for w in ("chat", "query", "retrieve", "call") if hasattr(host, w))
    return getattr(host, word)(QUESTION)


# Hosts see what all retrievers inherit, and of a host what it does with what was found: one
# retriever meets every host, the others a router.
EACH = [("fitrag", host) for host in HOSTS] + [(n, "router engine") for n in list(RETRIEVERS)[1:]]


def text_of(found):
    given = found if isinstance(found, list) else [found]
    return "\n".join(getattr(one, "text", None) or str(one) for one in given)


@pytest.mark.parametrize(("name", "host"), EACH)
def test_a_retriever_in_every_host(name, host):
    found = found_by(HOSTS[host](RETRIEVERS[name](shelf())))
    assert ANSWER in text_of(found.source_nodes if host == "context chat" else found)


@pytest.mark.parametrize("kind", POSTPROCESSORS)
async def test_a_postprocessor_of_a_query_engine(kind):
    made = index().as_query_engine(
        llm=MockLLM(), similarity_top_k=5, node_postprocessors=[kind(), kind()]
    )
    assert ANSWER in str(made.query(QUESTION))
    assert ANSWER in str(await made.aquery(QUESTION))


def merging():
    whole = Document(text="\n\n".join(text for _, _, text in ROWS), id_="whole")
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[256, 64], chunk_overlap=4)
    parsed = parser.get_nodes_from_documents([whole])
    store = SimpleDocumentStore()
    store.add_documents(parsed)
    context = StorageContext.from_defaults(docstore=store)
    leaves = VectorStoreIndex(
        get_leaf_nodes(parsed), storage_context=context, embed_model=li.EncoderEmbedding()
    )
    return AutoMergingRetriever(leaves.as_retriever(similarity_top_k=4), context)


@cache
def ingested():
    pipeline = IngestionPipeline(
        transformations=[SentenceWindowNodeParser.from_defaults(), li.EncoderEmbedding()]
    )
    found = pipeline.run(documents=[Document(text=text) for _, _, text in ROWS])
    return VectorStoreIndex(found, embed_model=li.EncoderEmbedding()).as_retriever(
        similarity_top_k=6
    )


@pytest.mark.parametrize("base", [merging, ingested])
def test_any_base(base):
    assert ANSWER in text_of(li.FitRagRetriever(base()).retrieve(QUESTION))


def test_sentence_windows_are_put_back_before_they_are_cut():
    back = MetadataReplacementPostProcessor(target_metadata_key="window")
    made = answering(ingested(), node_postprocessors=[back, li.SubDocumentCompressor()])
    assert ANSWER in str(made.query(QUESTION))


async def test_routers_and_engines_are_tools_and_answer():
    plain = answering(li.FitRagRetriever(shelf()))
    engines = [
        li.KnowledgeRouterQueryEngine(retrieve=plain, llm=MockLLM()),
        li.CorrectiveRouterQueryEngine(shelf(), correct=plain, incorrect=plain),
        li.MethodQueryEngine(FitRag(), shelf(), llm=MockLLM()),
    ]
    for engine in engines:
        assert ANSWER in str(engine.query(QUESTION))
        made = described(QueryEngineTool, engine)
        assert ANSWER in str(made.call(QUESTION))
        assert ANSWER in str(await made.acall(QUESTION))
