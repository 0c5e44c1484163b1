"""Every stock host of LangChain runs the drop-ins as they come, with the models that ship."""

import warnings
from functools import cache

import pytest
from first_contact import QUESTION, ROWS
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    RouterRunnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ToolChat
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from fitrag_integrations import langchain as lc
from fitrag_integrations.methods import FitRag

classic = pytest.importorskip("langchain_classic.retrievers")
compressors = pytest.importorskip("langchain_classic.retrievers.document_compressors")
chains = pytest.importorskip("langchain_classic.chains")
combining = pytest.importorskip("langchain_classic.chains.combine_documents")

ANSWER = "designed by Ilse Marbach"
COMPRESSORS = [lc.BiLabelReranker, lc.SubDocumentCompressor, lc.KnowledgeRefiner]


def pages():
    return [Document(text, id=id_, metadata={"title": title}) for id_, title, text in ROWS]


@cache
def store():
    made = InMemoryVectorStore(lc.EncoderEmbeddings())
    made.add_documents(pages())
    return made


def shelf():
    return store().as_retriever(search_kwargs={"k": 5})


WRITER = FakeListChatModel(responses=["No"])
RETRIEVERS = {
    "fitrag": lambda base: lc.FitRagRetriever(base=base),
    "corrective": lambda base: lc.CorrectiveRetriever(base=base),
    "slimplm": lambda base: lc.SlimPLMRetriever(base=base, llm=WRITER),
    "itrg": lambda base: lc.ITRGRetriever(base=base, llm=WRITER, rounds=2),
    "compressing": lambda base: lc.CompressingRetriever(
        base=base, compressors=[kind() for kind in COMPRESSORS]
    ),
    "faiss": lambda base: lc.FaissRetriever.from_documents(pages()),
}


PROMPT = ChatPromptTemplate.from_template("{context}\n\n{input}")


class Echo(BaseChatModel):
    """Answer with the prompt, so that a test sees what was sent."""

    @property
    def _llm_type(self):
        return "echo"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        text = "\n".join(str(message.text) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def retrieval_chain(retriever):
    stuff = combining.create_stuff_documents_chain(Echo(), PROMPT)
    return chains.create_retrieval_chain(retriever, stuff).invoke({"input": QUESTION})["answer"]


def agent(retriever):
    search = create_retriever_tool(retriever, "pages", "Search the pages.")
    app = create_agent(ToolChat(calls="pages"), [search])
    return app.invoke({"messages": [HumanMessage(QUESTION)]})["messages"][-1].text


def asked(made):
    return made.invoke(QUESTION)


HOSTS = {
    "ensemble": lambda r: asked(classic.EnsembleRetriever(retrievers=[r, shelf()])),
    "multi-query": lambda r: asked(
        classic.MultiQueryRetriever.from_llm(r, FakeListChatModel(responses=[QUESTION]))
    ),
    "contextual": lambda r: asked(
        classic.ContextualCompressionRetriever(
            base_retriever=r, base_compressor=lc.BiLabelReranker()
        )
    ),
    "retrieval chain": retrieval_chain,
    "agent": agent,
    "with_fallbacks": lambda r: asked(r.with_fallbacks([shelf()])),
}
# Hosts see what all retrievers inherit, and of a host what it does with what was found: one
# retriever meets every host, the others an agent.
EACH = [("fitrag", host) for host in HOSTS] + [(n, "agent") for n in list(RETRIEVERS)[1:]]


def text_of(found):
    return found if isinstance(found, str) else "\n".join(one.page_content for one in found)


@pytest.mark.parametrize(("name", "host"), EACH)
def test_a_retriever_in_every_host(name, host):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some hosts are deprecated, and used all the same
        assert ANSWER in text_of(HOSTS[host](RETRIEVERS[name](shelf())))


@pytest.mark.parametrize("kind", COMPRESSORS)
async def test_a_compressor_in_every_host(kind):
    made = classic.ContextualCompressionRetriever(base_retriever=shelf(), base_compressor=kind())
    assert ANSWER in text_of(made.invoke(QUESTION))
    assert await made.ainvoke(QUESTION) == made.invoke(QUESTION)
    pipeline = compressors.DocumentCompressorPipeline(transformers=[kind(), lc.BiLabelReranker()])
    assert ANSWER in text_of(pipeline.compress_documents(pages(), QUESTION))


@pytest.mark.parametrize("base", [lambda question: pages(), RunnableLambda(str.strip) | shelf()])
def test_any_base(base):
    assert ANSWER in text_of(lc.FitRagRetriever(base=base).invoke(QUESTION))


async def test_gate_judge_and_routers_are_nodes_of_a_graph_of_messages():
    class State(MessagesState, total=False):
        retrieve: bool
        documents: list
        action: str
        grades: list[float]

    graph = StateGraph(State)
    graph.add_node("gate", lc.RetrievalGate(llm=WRITER))
    found = RunnableLambda(lambda _: QUESTION) | lc.FitRagRetriever(base=shelf())
    graph.add_node("find", RunnableParallel(documents=found))
    graph.add_node("judge", lc.RetrievalJudge())
    graph.add_edge(START, "gate")
    graph.add_conditional_edges("gate", lambda state: "find" if state["retrieve"] else END)
    graph.add_edge("find", "judge")
    app = graph.compile(checkpointer=InMemorySaver())
    given = {"messages": [HumanMessage(QUESTION)]}
    for turn, ask in enumerate((app.invoke, app.ainvoke)):
        state = ask(given, {"configurable": {"thread_id": str(turn)}})
        state = state if isinstance(state, dict) else await state
        assert (state["retrieve"], state["action"]) == (True, "correct")
        assert ANSWER in text_of(state["documents"])
        kept = app.get_state({"configurable": {"thread_id": str(turn)}}).values
        assert kept == state and type(kept["action"]) is str
        assert {type(grade) for grade in kept["grades"]} == {float}


def test_routers_in_chains():
    known = lc.KnowledgeRouter(known=lambda _: "known", unknown=lambda _: "unknown", llm=WRITER)
    assert (RunnablePassthrough() | known).invoke({"messages": [("user", QUESTION)]}) == "unknown"
    routed = known.as_key() | RouterRunnable({"known": RunnableLambda(len), "unknown": shelf()})
    assert ANSWER in text_of(routed.invoke(QUESTION))
    corrective = lc.CorrectiveRouter(
        correct=lambda given: given["action"], incorrect=lambda given: "web", base=shelf()
    )
    assert corrective.invoke(QUESTION) == "correct"
    runnable = lc.MethodRunnable(method=FitRag(), retriever=shelf(), llm=Echo())
    assert ANSWER in runnable.invoke(QUESTION)
    assert ANSWER in "".join(runnable.stream(QUESTION))
