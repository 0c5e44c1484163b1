"""Every stock host of LlamaIndex runs the drop-ins as they come, with the models that ship."""

import gc
from functools import cache

import pytest
from first_contact import QUESTION, ROWS
from llama_index.core import StorageContext, SummaryIndex, VectorStoreIndex
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
)
from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.indices.query.query_transform.base import StepDecomposeQueryTransform
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
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
    MultiStepQueryEngine,
    RetrieverQueryEngine,
    RetryQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import ResponseMode, get_response_synthesizer
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
    RouterRetriever,
    TransformRetriever,
)
from llama_index.core.schema import Document, IndexNode, QueryBundle, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from fitrag_integrations.llama_index import (
    BiLabelReranker,
    CorrectiveRetriever,
    CorrectiveRouterQueryEngine,
    EncoderEmbedding,
    FaissRetriever,
    FitRagRetriever,
    ITRGRetriever,
    KnowledgeRefiner,
    KnowledgeRouterQueryEngine,
    KnowledgeSelector,
    MethodQueryEngine,
    MethodRetriever,
    SlimPLMRetriever,
    SubDocumentCompressor,
)
from fitrag_integrations.methods import FitRag

# some hosts leave an event loop of their own open, which shows whenever it is collected
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
ANSWER = "designed by Ilse Marbach"
POSTPROCESSORS = [BiLabelReranker, SubDocumentCompressor, KnowledgeRefiner]


@pytest.fixture(autouse=True, scope="module")
def collected():
    yield
    gc.collect()


def nodes():
    return [TextNode(id_=id_, text=text, metadata={"title": title}) for id_, title, text in ROWS]


@cache
def index():
    return VectorStoreIndex(nodes(), embed_model=EncoderEmbedding())


def shelf():
    return index().as_retriever(similarity_top_k=5)


RETRIEVERS = {
    "fitrag": FitRagRetriever,
    "corrective": CorrectiveRetriever,
    "slimplm": lambda base: SlimPLMRetriever(base, llm=MockLLM()),
    "itrg": lambda base: ITRGRetriever(base, llm=MockLLM(), rounds=2),
    "method": lambda base: MethodRetriever(base, method=FitRag()),
    "faiss": lambda base: FaissRetriever.from_nodes(nodes()),
}


def answering(retriever):
    return RetrieverQueryEngine.from_args(retriever, llm=MockLLM())


def query_engine(retriever):
    return answering(retriever).query(QUESTION)


def synthesized(mode):
    def host(retriever):
        made = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), response_mode=mode)
        return made.query(QUESTION)

    return host


def router_engine(retriever):
    plain = QueryEngineTool.from_defaults(answering(shelf()), description="from memory")
    tool = QueryEngineTool.from_defaults(answering(retriever), description="from the pages")
    made = RouterQueryEngine(
        selector=KnowledgeSelector(llm=MockLLM()), query_engine_tools=[plain, tool], llm=MockLLM()
    )
    return made.query(QUESTION)


def router_retriever(retriever):
    plain = RetrieverTool.from_defaults(shelf(), description="from memory")
    tool = RetrieverTool.from_defaults(retriever, description="from the pages")
    made = RouterRetriever(KnowledgeSelector(llm=MockLLM()), [plain, tool], llm=MockLLM())
    return made.retrieve(QUESTION)


class OneQuestion(BaseQuestionGenerator):
    """Ask the one tool the whole question."""

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        pass

    def generate(self, tools, query):
        return [SubQuestion(sub_question=QUESTION, tool_name=tools[0].name)]

    async def agenerate(self, tools, query):
        return self.generate(tools, query)


def sub_questions(retriever):
    tool = QueryEngineTool.from_defaults(answering(retriever), name="pages", description="Pages.")
    made = SubQuestionQueryEngine.from_defaults(
        [tool], llm=MockLLM(), question_gen=OneQuestion(), use_async=False, verbose=False
    )
    return made.query("Tell me of the bridge.")


def hyde(retriever):
    made = TransformQueryEngine(answering(retriever), HyDEQueryTransform(llm=MockLLM()))
    return made.query(QUESTION)


def transformed(retriever):
    return TransformRetriever(retriever, HyDEQueryTransform(llm=MockLLM())).retrieve(QUESTION)


def steps(retriever):
    made = MultiStepQueryEngine(
        answering(retriever),
        StepDecomposeQueryTransform(llm=MockLLM()),
        response_synthesizer=get_response_synthesizer(llm=MockLLM()),
        num_steps=1,
        stop_fn=lambda told: False,
    )
    return made.query(QUESTION).source_nodes


def citations(retriever):
    made = CitationQueryEngine.from_args(index(), llm=MockLLM(), retriever=retriever)
    return made.query(QUESTION)


class Passing(BaseEvaluator):
    """Pass every answer."""

    def _get_prompts(self):
        return {}

    def _update_prompts(self, prompts):
        pass

    async def aevaluate(self, *args, **kwargs):
        return EvaluationResult(passing=True)

    def evaluate_response(self, *args, **kwargs):
        return EvaluationResult(passing=True)


def retry(retriever):
    return RetryQueryEngine(answering(retriever), Passing()).query(QUESTION)


def fusion(retriever):
    made = QueryFusionRetriever(
        [retriever, shelf()], llm=MockLLM(), num_queries=1, use_async=False, similarity_top_k=5
    )
    return made.retrieve(QUESTION)


def recursive(retriever):
    root = VectorStoreIndex(
        [IndexNode(text="All pages on bridges.", index_id="pages")], embed_model=EncoderEmbedding()
    ).as_retriever()
    made = RecursiveRetriever("root", {"root": root, "pages": retriever})
    return made.retrieve(QUESTION)


def chatting():
    return {"llm": MockLLM(), "memory": ChatMemoryBuffer.from_defaults(token_limit=3000)}


def context_chat(retriever):
    return ContextChatEngine.from_defaults(retriever, **chatting()).chat(QUESTION).source_nodes


def condensed_chat(retriever):
    made = CondensePlusContextChatEngine.from_defaults(retriever, **chatting())
    return made.chat(QUESTION).source_nodes


def question_chat(retriever):
    made = CondenseQuestionChatEngine.from_defaults(answering(retriever), **chatting())
    return made.chat(QUESTION)


def tool(retriever):
    return RetrieverTool.from_defaults(retriever, description="Pages.").call(QUESTION)


def reordered(retriever):
    made = RetrieverQueryEngine.from_args(
        retriever,
        llm=MockLLM(),
        node_postprocessors=[LongContextReorder(), SimilarityPostprocessor(similarity_cutoff=0.0)],
    )
    return made.query(QUESTION)


HOSTS = [
    query_engine,
    synthesized(ResponseMode.TREE_SUMMARIZE),
    synthesized(ResponseMode.REFINE),
    synthesized(ResponseMode.ACCUMULATE),
    router_engine,
    router_retriever,
    sub_questions,
    hyde,
    transformed,
    steps,
    citations,
    retry,
    fusion,
    recursive,
    context_chat,
    condensed_chat,
    question_chat,
    tool,
    reordered,
]
# Hosts see what all retrievers inherit: one of them meets every host, the others two.
EACH = [("fitrag", host) for host in HOSTS]
EACH += [(name, host) for name in list(RETRIEVERS)[1:] for host in (query_engine, router_engine)]


def text_of(found):
    given = found if isinstance(found, list) else [found]
    return "\n".join(getattr(one, "text", None) or str(one) for one in given)


@pytest.mark.parametrize(("name", "host"), EACH)
def test_a_retriever_in_every_host(name, host):
    assert ANSWER in text_of(host(RETRIEVERS[name](shelf())))


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
        get_leaf_nodes(parsed), storage_context=context, embed_model=EncoderEmbedding()
    )
    return AutoMergingRetriever(leaves.as_retriever(similarity_top_k=4), context)


def ingested():
    pipeline = IngestionPipeline(
        transformations=[SentenceWindowNodeParser.from_defaults(), EncoderEmbedding()]
    )
    found = pipeline.run(documents=[Document(text=text) for _, _, text in ROWS])
    return VectorStoreIndex(found, embed_model=EncoderEmbedding()).as_retriever(similarity_top_k=6)


BASES = {
    "vector index": shelf,
    "summary index": lambda: SummaryIndex(nodes()).as_retriever(),
    "AutoMergingRetriever": merging,
    "sentence windows": ingested,
    "QueryFusionRetriever": lambda: QueryFusionRetriever(
        [shelf()], llm=MockLLM(), num_queries=1, use_async=False
    ),
    "ours": lambda: FitRagRetriever(shelf()),
}


@pytest.mark.parametrize("base", BASES)
def test_any_base(base):
    assert ANSWER in text_of(FitRagRetriever(BASES[base]()).retrieve(QUESTION))


def test_sentence_windows_are_put_back_before_they_are_cut():
    made = RetrieverQueryEngine.from_args(
        ingested(),
        llm=MockLLM(),
        node_postprocessors=[
            MetadataReplacementPostProcessor(target_metadata_key="window"),
            SubDocumentCompressor(),
        ],
    )
    assert ANSWER in str(made.query(QUESTION))


async def test_routers_and_engines_are_tools_and_answer():
    plain = answering(FitRagRetriever(shelf()))
    engines = [
        KnowledgeRouterQueryEngine(retrieve=plain, llm=MockLLM()),
        CorrectiveRouterQueryEngine(shelf(), correct=plain, incorrect=plain),
        MethodQueryEngine(FitRag(), shelf(), llm=MockLLM()),
    ]
    for engine in engines:
        assert ANSWER in str(engine.query(QUESTION))
        made = QueryEngineTool.from_defaults(engine, name="pages", description="Pages.")
        assert ANSWER in str(made.call(QUESTION))
        assert ANSWER in str(await made.acall(QUESTION))


async def test_a_workflow_with_a_step():
    class Answering(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            found = await FitRagRetriever(shelf()).aretrieve(event.question)
            kept = await BiLabelReranker().apostprocess_nodes(found, QueryBundle(event.question))
            return StopEvent(result=text_of(kept))

    assert ANSWER in await Answering().run(question=QUESTION)
