"""Every stock host of LangChain runs the drop-ins as they come, with the models that ship."""

import operator
import warnings
from functools import cache
from typing import Annotated, TypedDict

import pytest
from first_contact import QUESTION, ROWS
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    ConfigurableField,
    RouterRunnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.stores import InMemoryStore
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from fitrag_integrations.langchain import (
    BiLabelReranker,
    CompressingRetriever,
    CorrectiveRetriever,
    CorrectiveRouter,
    EncoderEmbeddings,
    FaissRetriever,
    FitRagRetriever,
    ITRGRetriever,
    KnowledgeRefiner,
    KnowledgeRouter,
    MethodRetriever,
    MethodRunnable,
    RetrievalGate,
    RetrievalGateMiddleware,
    RetrievalJudge,
    SlimPLMRetriever,
    SubDocumentCompressor,
    numbered_documents,
)
from fitrag_integrations.methods import FitRag

classic = pytest.importorskip("langchain_classic.retrievers")
compressors = pytest.importorskip("langchain_classic.retrievers.document_compressors")
chains = pytest.importorskip("langchain_classic.chains")
combining = pytest.importorskip("langchain_classic.chains.combine_documents")

ANSWER = "designed by Ilse Marbach"
COMPRESSORS = [BiLabelReranker, SubDocumentCompressor, KnowledgeRefiner]


def pages():
    return [Document(text, id=id_, metadata={"title": title}) for id_, title, text in ROWS]


@cache
def store():
    made = InMemoryVectorStore(EncoderEmbeddings())
    made.add_documents(pages())
    return made


def shelf():
    return store().as_retriever(search_kwargs={"k": 5})


WRITER = FakeListChatModel(responses=["No"])
RETRIEVERS = {
    "fitrag": lambda base: FitRagRetriever(base=base),
    "corrective": lambda base: CorrectiveRetriever(base=base),
    "slimplm": lambda base: SlimPLMRetriever(base=base, llm=WRITER),
    "itrg": lambda base: ITRGRetriever(base=base, llm=WRITER, rounds=2),
    "method": lambda base: MethodRetriever(base=base, method=FitRag()),
    "compressing": lambda base: CompressingRetriever(
        base=base, compressors=[kind() for kind in COMPRESSORS]
    ),
    "faiss": lambda base: FaissRetriever.from_documents(pages()),
}


def model(*responses):
    return FakeListChatModel(responses=list(responses) or [QUESTION])


class Echo(BaseChatModel):
    """Answer with the prompt, so that a test sees what was sent."""

    @property
    def _llm_type(self):
        return "echo"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        text = "\n".join(str(message.text) for message in messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


class Agent(Echo):
    """Call the tool once, then answer with what it gave."""

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        said = next((m.text for m in reversed(messages) if isinstance(m, ToolMessage)), None)
        call = {"name": "pages", "args": {"query": QUESTION}, "id": "one"}
        reply = AIMessage("", tool_calls=[call]) if said is None else AIMessage(said)
        return ChatResult(generations=[ChatGeneration(message=reply)])


PROMPT = ChatPromptTemplate.from_template("{context}\n\n{input}")


def retrieval_chain(retriever):
    stuff = combining.create_stuff_documents_chain(Echo(), PROMPT)
    return chains.create_retrieval_chain(retriever, stuff).invoke({"input": QUESTION})["answer"]


def history_aware(retriever):
    messages = [("placeholder", "{chat_history}"), ("human", "{input}")]
    asked = ChatPromptTemplate.from_messages(messages)
    made = chains.create_history_aware_retriever(model(), retriever, asked)
    history = [HumanMessage("Hello."), AIMessage("Hello.")]
    return made.invoke({"input": "And who designed it?", "chat_history": history})


def retrieval_qa(retriever):
    made = chains.RetrievalQA.from_chain_type(Echo(), retriever=retriever)
    return made.invoke(QUESTION)["result"]


def conversation(retriever):
    made = chains.ConversationalRetrievalChain.from_llm(Echo(), retriever=retriever)
    return made.invoke({"question": QUESTION, "chat_history": []})["answer"]


def pipes(retriever):
    steps = RunnableParallel(context=retriever | numbered_documents, input=RunnablePassthrough())
    return (steps | PROMPT | Echo()).invoke(QUESTION).text


def naive(retriever):
    steps = {"context": retriever, "input": RunnablePassthrough()}
    return (steps | PROMPT | Echo()).invoke(QUESTION).text


def tool_node(retriever):
    made = create_retriever_tool(retriever, "pages", "Search the pages.")
    call = {"name": "pages", "args": {"query": QUESTION}, "id": "one", "type": "tool_call"}
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([made]))
    graph.add_edge(START, "tools")
    given = {"messages": [AIMessage("", tool_calls=[call])]}
    return graph.compile().invoke(given)["messages"][-1].text


def agent(retriever):
    made = create_agent(Agent(), [create_retriever_tool(retriever, "pages", "Search the pages.")])
    return made.invoke({"messages": [HumanMessage(QUESTION)]})["messages"][-1].text


def checkpointed(retriever):
    class State(TypedDict, total=False):
        question: str
        documents: Annotated[list, operator.add]

    graph = StateGraph(State)
    graph.add_node("find", lambda state: {"documents": list(retriever.invoke(state["question"]))})
    graph.add_edge(START, "find")
    kept = graph.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "one"}}
    kept.invoke({"question": QUESTION}, config)
    return kept.get_state(config).values["documents"]


def ensemble(retriever):
    return classic.EnsembleRetriever(retrievers=[retriever, shelf()]).invoke(QUESTION)


def merger(retriever):
    return classic.MergerRetriever(retrievers=[retriever, shelf()]).invoke(QUESTION)


def multi_query(retriever):
    llm = model(f"{QUESTION}\nWho built the bridge?")
    return classic.MultiQueryRetriever.from_llm(retriever, llm).invoke(QUESTION)


def rephrase(retriever):
    return classic.RePhraseQueryRetriever.from_llm(retriever, model()).invoke("Hm?")


def contextual(retriever):
    kept = {"base_retriever": retriever, "base_compressor": BiLabelReranker()}
    return classic.ContextualCompressionRetriever(**kept).invoke(QUESTION)


HOSTS = [
    ensemble,
    merger,
    multi_query,
    rephrase,
    contextual,
    retrieval_chain,
    history_aware,
    retrieval_qa,
    conversation,
    pipes,
    naive,
    tool_node,
    agent,
    checkpointed,
    lambda made: made.with_retry().invoke(QUESTION),
    lambda made: made.with_fallbacks([shelf()]).invoke(QUESTION),
]
# Hosts see what all retrievers inherit: one of them meets every host, the others two.
EACH = [("fitrag", host) for host in HOSTS]
EACH += [(name, host) for name in list(RETRIEVERS)[1:] for host in (retrieval_chain, agent)]


def text_of(found):
    return found if isinstance(found, str) else "\n".join(one.page_content for one in found)


@pytest.mark.parametrize(("name", "host"), EACH)
def test_a_retriever_in_every_host(name, host):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some hosts are deprecated, and used all the same
        assert ANSWER in text_of(host(RETRIEVERS[name](shelf())))


@pytest.mark.parametrize("kind", COMPRESSORS)
async def test_a_compressor_in_every_host(kind):
    made = classic.ContextualCompressionRetriever(base_retriever=shelf(), base_compressor=kind())
    assert ANSWER in text_of(made.invoke(QUESTION))
    assert await made.ainvoke(QUESTION) == made.invoke(QUESTION)
    pipeline = compressors.DocumentCompressorPipeline(transformers=[kind(), BiLabelReranker()])
    assert ANSWER in text_of(pipeline.compress_documents(pages(), QUESTION))


def parents():
    splitter = RecursiveCharacterTextSplitter(chunk_size=80, chunk_overlap=0)
    made = classic.ParentDocumentRetriever(
        vectorstore=InMemoryVectorStore(EncoderEmbeddings()),
        docstore=InMemoryStore(),
        child_splitter=splitter,
    )
    made.add_documents(pages())
    return made


BASES = {
    "vector store": shelf,
    "mmr": lambda: store().as_retriever(search_type="mmr"),
    "ParentDocumentRetriever": parents,
    "EnsembleRetriever": lambda: classic.EnsembleRetriever(retrievers=[shelf(), shelf()]),
    "function": lambda: lambda question: pages(),
    "chain": lambda: RunnableLambda(str.strip) | shelf(),
    "ours": lambda: FitRagRetriever(base=shelf()),
}


@pytest.mark.parametrize("base", BASES)
def test_any_base(base):
    found = FitRagRetriever(base=BASES[base]()).invoke(QUESTION)
    assert ANSWER in text_of(found)


def test_configurable_fields():
    made = FitRagRetriever(base=shelf()).configurable_fields(
        max_tokens=ConfigurableField(id="budget")
    )
    short = made.invoke(QUESTION, {"configurable": {"budget": 25}})
    assert len(text_of(short)) < len(text_of(made.invoke(QUESTION)))


async def test_gate_judge_and_routers_are_nodes_of_a_graph_of_messages():
    class State(MessagesState, total=False):
        retrieve: bool
        documents: list
        action: str

    graph = StateGraph(State)
    graph.add_node("gate", RetrievalGate(llm=WRITER))
    found = RunnableLambda(lambda _: QUESTION) | FitRagRetriever(base=shelf())
    graph.add_node("find", RunnableParallel(documents=found))
    graph.add_node("judge", RetrievalJudge())
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


def test_routers_in_chains():
    known = KnowledgeRouter(known=lambda _: "known", unknown=lambda _: "unknown", llm=WRITER)
    assert (RunnablePassthrough() | known).invoke({"messages": [("user", QUESTION)]}) == "unknown"
    routed = known.as_key() | RouterRunnable({"known": RunnableLambda(len), "unknown": shelf()})
    assert ANSWER in text_of(routed.invoke(QUESTION))
    corrective = CorrectiveRouter(
        correct=lambda given: given["action"], incorrect=lambda given: "web", base=shelf()
    )
    assert corrective.invoke(QUESTION) == "correct"
    runnable = MethodRunnable(method=FitRag(), retriever=shelf(), llm=Echo())
    assert ANSWER in runnable.invoke(QUESTION)
    assert ANSWER in "".join(runnable.stream(QUESTION))


def test_the_middleware_in_an_agent():
    search = create_retriever_tool(FitRagRetriever(base=shelf()), "pages", "Search the pages.")
    gate = RetrievalGateMiddleware(llm=WRITER, tools=[search])
    state = create_agent(Agent(), [search], middleware=[gate]).invoke(
        {"messages": [HumanMessage(QUESTION)]}
    )
    assert ANSWER in state["messages"][-1].text
    assert state["retrieval_decision"]["retrieve"] is True
