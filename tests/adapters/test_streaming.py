"""What a user sees of a stream: the answer alone; drafts, verdicts and rounds are marked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fakes import QUESTIONS, FixedGate, OverlapScorer
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import create_retriever_tool
from langchain_fakes import OverlapBase, Recorder, ToolChat
from langgraph.graph import START, MessagesState, StateGraph
from llama_fakes import NodeRetriever, ScriptedLLM
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from fitrag_integrations import langchain as lc
from fitrag_integrations.flow import run
from fitrag_integrations.llama_index import KnowledgeRouterQueryEngine, MethodQueryEngine
from fitrag_integrations.methods import AskGate, FitRag, SlimPLM
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.baselines import Direct, IterRetgen
from fitrag_integrations.methods.ik.gates import write_draft
from fitrag_integrations.methods.slimplm.judge import NecessityCheck
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Passage

QUESTION, OTHER = QUESTIONS[0], "Where does the Danube end?"
ANSWER = "the final answer"


def inner(*texts: str) -> FakeListChatModel:
    return FakeListChatModel(responses=list(texts or ["internal words"]))


def answers() -> FakeListChatModel:
    return FakeListChatModel(responses=[ANSWER])


def drafted(**fields: Any) -> lc.KnowledgeRouter:
    gate = FixedGate(fields.pop("p"))
    gate.draft_tokens = 8
    return lc.KnowledgeRouter(gate=gate, drafter=inner(), unknown=_answered, llm=answers())


def over(retriever: Runnable) -> Runnable:
    return RunnableLambda(lambda state: state["messages"][-1].text) | retriever | _answered


def _answered(documents: object) -> Any:
    return answers().invoke("Answer from the documents.")


PARTS: dict[str, Callable[[], Runnable]] = {
    "router, known": lambda: drafted(p=0.9),
    "router, unknown": lambda: drafted(p=0.1),
    "router, a model asked": lambda: lc.KnowledgeRouter(
        gate=AskGate(inner("a draft", "No")), unknown=_answered, llm=answers()
    ),
    "gate": lambda: lc.RetrievalGate(gate=AskGate(inner("a draft", "Yes"))) | _answered,
    "corrective router": lambda: lc.CorrectiveRouter(
        correct=RunnableLambda(_answered),
        incorrect=RunnableLambda(_answered),
        base=RunnableLambda(lambda q: inner().invoke(q) and OverlapBase().invoke(q)),
    ),
    "method": lambda: lc.MethodRunnable(
        method=FitRag(scorer=OverlapScorer(), gate=AskGate(inner("a draft", "No"))),
        retriever=OverlapBase(),
        llm=answers(),
    ),
    "ITRG": lambda: over(lc.ITRGRetriever(base=OverlapBase(), llm=inner(), rounds=2)),
    "SlimPLM": lambda: over(
        lc.SlimPLMRetriever(base=OverlapBase(), proxy=inner(), judge=inner("No"), llm=inner())
    ),
    "web search": lambda: over(
        lc.WebSearchRetriever(search=OverlapBase(), rewrite=True, llm=inner("keywords"))
    ),
    "a base that writes": lambda: over(
        lc.CompressingRetriever(
            base=RunnableLambda(lambda q: inner().invoke(q) and OverlapBase().invoke(q)),
            compressors=[],
        )
    ),
}


def graph(part: Runnable) -> Any:
    built = StateGraph(MessagesState)

    def answer(state: Any) -> dict[str, Any]:
        return {"messages": [_message(part.invoke(state))]}

    async def aanswer(state: Any) -> dict[str, Any]:
        return {"messages": [_message(await part.ainvoke(state))]}

    built.add_node("answer", RunnableLambda(answer, aanswer))
    built.add_edge(START, "answer")
    return built.compile()


def _message(answer: Any) -> Any:
    return answer if not isinstance(answer, str) else ("ai", str(answer))


def asked() -> dict[str, Any]:
    return {"messages": [HumanMessage(QUESTION)]}


def words(pieces: list[Any]) -> str:
    return "".join(chunk.text for chunk, _ in pieces if chunk.type == "AIMessageChunk")


@pytest.mark.parametrize("part", PARTS)
def test_only_the_answer_streams_from_a_graph(part):
    app = graph(PARTS[part]())
    assert words(list(app.stream(asked(), stream_mode="messages"))) == ANSWER

    async def pieces() -> list[Any]:
        return [piece async for piece in app.astream(asked(), stream_mode="messages")]

    assert words(asyncio.run(pieces())) == ANSWER


SECRET = "the client is Mr. Falk"
THOUGHTS = {
    "tags": f"<think>{SECRET}</think>\n\n{{}}",
    "unopened": f"Hm, {SECRET}.</think>{{}}",
    "channels": f"<|channel|>analysis<|message|>{SECRET}<|end|><|start|>assistant"
    "<|channel|>final<|message|>{}",
    "brackets": f"[THINK]{SECRET}[/THINK]{{}}",
}


class Thinker(ScriptedLLM):
    reply: str = ""

    def _answer(self, prompt):
        return self.reply


def written_by(reply):
    return Ports(
        retrieve=lambda queries: [[Passage("p", "A text.")] for _ in queries],
        generate=lambda prompts: [reply for _ in prompts],
    )


def pieces(runnable):
    async def all_of():
        return "".join([piece async for piece in runnable.astream(QUESTION)])

    streamed = "".join(runnable.stream(QUESTION))
    assert asyncio.run(all_of()) == streamed
    return streamed


def router(reply):
    known = FakeListChatModel(responses=[reply.format("Besk")])
    return lc.KnowledgeRouter(gate=FixedGate(0.9), unknown=_answered, llm=known)


def method(reply):
    llm = FakeListChatModel(responses=[reply.format("Besk")])
    return lc.MethodRunnable(
        method=FitRag(scorer=OverlapScorer()), retriever=OverlapBase(), llm=llm
    )


def engine(reply, streaming):
    llm = Thinker(reply=reply.format("Besk"))
    known = KnowledgeRouterQueryEngine(
        FixedGate(0.9),
        retrieve=RetrieverQueryEngine.from_args(NodeRetriever(), llm=MockLLM()),
        llm=llm,
        streaming=streaming,
    )
    whole = MethodQueryEngine(
        FitRag(scorer=OverlapScorer()), NodeRetriever(), llm=llm, streaming=streaming
    )
    answers = [str(each.query(QUESTION)) for each in (known, whole)]
    assert answers[0] == answers[1]
    return answers[0]


DOORS: dict[str, Callable[[str], object]] = {
    "draft": lambda reply: run(write_draft("q?", lambda _: [reply.format("Besk")])).value,
    "verdict": lambda reply: (
        run(NecessityCheck(lambda _: [reply.format("Known (False)")])([("q?", "a")]))
        .value[0]
        .decision.retrieve
        and "Besk"
    ),
    "heuristic answer": lambda reply: (
        run(
            SlimPLM(proxy=lambda _: [reply.format("Besk")], judge=lambda _: ["Known (True)"])(
                "q?", written_by("")
            )
        ).value.draft
    ),
    "answer": lambda reply: (
        run(Answering(Direct())("q?", written_by(reply.format("Besk")))).value.text
    ),
    "router": lambda reply: router(reply).invoke(QUESTION),
    "method": lambda reply: method(reply).invoke(QUESTION),
    "query engines": lambda reply: engine(reply, streaming=False),
}
STREAMS: dict[str, Callable[[str], object]] = {
    "router": lambda reply: pieces(router(reply)).strip(),
    "method": lambda reply: pieces(method(reply)).strip(),
    "query engines": lambda reply: engine(reply, streaming=True).strip(),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", THOUGHTS)
def test_no_thought_gets_out(kind, door):
    assert DOORS[door](THOUGHTS[kind]) == "Besk"


@pytest.mark.parametrize("door", STREAMS)
@pytest.mark.parametrize("kind", sorted(THOUGHTS.keys() - {"unopened"}))  # known at its end alone
def test_no_thought_streams(kind, door):
    assert STREAMS[door](THOUGHTS[kind]) == "Besk"


def test_the_answer_a_method_wrote_itself_comes_as_a_whole():
    runnable = lc.MethodRunnable(method=IterRetgen(), retriever=OverlapBase(), llm=inner())
    assert list(graph(runnable).stream(asked(), stream_mode="messages")) == []
    assert list(runnable.stream(QUESTION)) == ["internal words"]


async def test_tracers_know_internal_calls_by_their_tags():
    recorder, router = Recorder(), drafted(p=0.1)
    router.invoke(QUESTION, {"callbacks": [recorder], "tags": ["mine"]})
    drafts, last = recorder.named("FakeListChatModel")
    assert {"nostream", "fitrag", "mine"} <= set(drafts["tags"])
    assert "mine" in last["tags"] and not {"nostream", "fitrag"} & set(last["tags"])
    events = drafted(p=0.1).astream_events(QUESTION, version="v2", exclude_tags=["fitrag"])
    chunks = [each["data"] async for each in events if each["event"] == "on_chat_model_stream"]
    assert "".join(each["chunk"].text for each in chunks) == ANSWER


def test_the_decision_of_a_middleware_does_not_stream():
    retriever = lc.FitRagRetriever(base=OverlapBase(), scorer=OverlapScorer())
    tool = create_retriever_tool(retriever, "find", "Find pages.")
    gate = lc.RetrievalGateMiddleware(AskGate(inner("a draft", "Yes")), tools=[tool])
    agent = create_agent(ToolChat(calls="find"), [tool], middleware=[gate])
    streamed = agent.stream(asked(), stream_mode="messages")
    said = [chunk.text for chunk, _ in streamed if chunk.type != "human"]
    assert said == [f"answered after {QUESTION!r}"]
