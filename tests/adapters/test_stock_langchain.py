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
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    RouterRunnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.stores import InMemoryStore
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import ToolChat
from langchain_text_splitters import RecursiveCharacterTextSplitter
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

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
    "method": lambda base: lc.MethodRetriever(base=base, method=FitRag()),
    "compressing": lambda base: lc.CompressingRetriever(
        base=base, compressors=[kind() for kind in COMPRESSORS]
    ),
    "faiss": lambda base: lc.FaissRetriever.from_documents(pages()),
}


PROMPT = ChatPromptTemplate.from_template("{context}\n\n{input}")
CALL = {"name": "pages", "args": {"query": QUESTION}, "id": "one"}


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


def retrieval_chain(retriever):
    stuff = combining.create_stuff_documents_chain(Echo(), PROMPT)
    return chains.create_retrieval_chain(retriever, stuff).invoke({"input": QUESTION})["answer"]


def history_aware(retriever):
    messages = [("placeholder", "{chat_history}"), ("human", "{input}")]
    asked = ChatPromptTemplate.from_messages(messages)
    made = chains.create_history_aware_retriever(model(), retriever, asked)
    history = [HumanMessage("Hello."), AIMessage("Hello.")]
    return made.invoke({"input": "And who designed it?", "chat_history": history})


def conversation(retriever):
    made = chains.ConversationalRetrievalChain.from_llm(Echo(), retriever=retriever)
    return made.invoke({"question": QUESTION, "chat_history": []})["answer"]


def piped(context):
    steps = {"context": context, "input": RunnablePassthrough()}
    return (steps | PROMPT | Echo()).invoke(QUESTION).text


def searching(retriever):
    return create_retriever_tool(retriever, "pages", "Search the pages.")


def last_said(app, *messages):
    return app.invoke({"messages": list(messages)})["messages"][-1].text


def tool_node(retriever):
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([searching(retriever)]))
    graph.add_edge(START, "tools")
    return last_said(graph.compile(), AIMessage("", tool_calls=[{**CALL, "type": "tool_call"}]))


def agent(retriever):
    return last_said(
        create_agent(ToolChat(calls="pages"), [searching(retriever)]), HumanMessage(QUESTION)
    )


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


def asked(made, question=QUESTION):
    return made.invoke(question)


HOSTS = {
    "ensemble": lambda r: asked(classic.EnsembleRetriever(retrievers=[r, shelf()])),
    "merger": lambda r: asked(classic.MergerRetriever(retrievers=[r, shelf()])),
    "multi-query": lambda r: asked(
        classic.MultiQueryRetriever.from_llm(r, model(f"{QUESTION}\nWho built the bridge?"))
    ),
    "rephrase": lambda r: asked(classic.RePhraseQueryRetriever.from_llm(r, model()), "Hm?"),
    "contextual": lambda r: asked(
        classic.ContextualCompressionRetriever(
            base_retriever=r, base_compressor=lc.BiLabelReranker()
        )
    ),
    "retrieval chain": retrieval_chain,
    "history": history_aware,
    "QA": lambda r: asked(chains.RetrievalQA.from_chain_type(Echo(), retriever=r))["result"],
    "conversation": conversation,
    "pipes": lambda r: piped(r | lc.numbered_documents),
    "naive pipes": piped,
    "tool node": tool_node,
    "agent": agent,
    "checkpointed": checkpointed,
    "with_retry": lambda r: asked(r.with_retry()),
    "with_fallbacks": lambda r: asked(r.with_fallbacks([shelf()])),
}
# Hosts see what all retrievers inherit: one of them meets every host, the others an agent.
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


def parents():
    splitter = RecursiveCharacterTextSplitter(chunk_size=80, chunk_overlap=0)
    made = classic.ParentDocumentRetriever(
        vectorstore=InMemoryVectorStore(lc.EncoderEmbeddings()),
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
    "ours": lambda: lc.FitRagRetriever(base=shelf()),
}


@pytest.mark.parametrize("base", BASES)
def test_any_base(base):
    found = lc.FitRagRetriever(base=BASES[base]()).invoke(QUESTION)
    assert ANSWER in text_of(found)


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
