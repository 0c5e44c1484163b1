"""What a user sees of a stream: the answer alone; drafts, verdicts and rounds are marked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fakes import QUESTIONS, FixedGate, OverlapScorer
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_fakes import OverlapBase, Recorder
from langgraph.graph import START, MessagesState, StateGraph

from fitrag_integrations.langchain import (
    CompressingRetriever,
    CorrectiveRouter,
    FitRagRetriever,
    ITRGRetriever,
    KnowledgeRouter,
    MethodRunnable,
    RetrievalGate,
    RetrievalGateMiddleware,
    SlimPLMRetriever,
    WebSearchRetriever,
)
from fitrag_integrations.methods import AskGate, FitRag
from fitrag_integrations.methods.baselines import IterRetgen

QUESTION, OTHER = QUESTIONS[0], "Where does the Danube end?"
ANSWER = "the final answer"


def inner(*texts: str) -> FakeListChatModel:
    return FakeListChatModel(responses=list(texts or ["internal words"]))


def answers() -> FakeListChatModel:
    return FakeListChatModel(responses=[ANSWER])


def drafted(**fields: Any) -> KnowledgeRouter:
    gate = FixedGate(fields.pop("p"))
    gate.draft_tokens = 8
    return KnowledgeRouter(gate=gate, drafter=inner(), unknown=_answered, llm=answers())


def over(retriever: Runnable) -> Runnable:
    return RunnableLambda(lambda state: state["messages"][-1].text) | retriever | _answered


def _answered(documents: object) -> Any:
    return answers().invoke("Answer from the documents.")


PARTS: dict[str, Callable[[], Runnable]] = {
    "router, known": lambda: drafted(p=0.9),
    "router, unknown": lambda: drafted(p=0.1),
    "router, a model asked": lambda: KnowledgeRouter(
        gate=AskGate(inner("a draft", "No")), unknown=_answered, llm=answers()
    ),
    "gate": lambda: RetrievalGate(gate=AskGate(inner("a draft", "Yes"))) | _answered,
    "corrective router": lambda: CorrectiveRouter(
        correct=RunnableLambda(_answered),
        incorrect=RunnableLambda(_answered),
        base=RunnableLambda(lambda q: inner().invoke(q) and OverlapBase().invoke(q)),
    ),
    "method": lambda: MethodRunnable(
        method=FitRag(scorer=OverlapScorer(), gate=AskGate(inner("a draft", "No"))),
        retriever=OverlapBase(),
        llm=answers(),
    ),
    "ITRG": lambda: over(ITRGRetriever(base=OverlapBase(), llm=inner(), rounds=2)),
    "SlimPLM": lambda: over(
        SlimPLMRetriever(base=OverlapBase(), proxy=inner(), judge=inner("No"), llm=inner())
    ),
    "web search": lambda: over(
        WebSearchRetriever(search=OverlapBase(), rewrite=True, llm=inner("keywords"))
    ),
    "a base that writes": lambda: over(
        CompressingRetriever(
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


def test_the_answer_a_method_wrote_itself_comes_as_a_whole():
    runnable = MethodRunnable(method=IterRetgen(), retriever=OverlapBase(), llm=inner())
    assert list(graph(runnable).stream(asked(), stream_mode="messages")) == []
    assert list(runnable.stream(QUESTION)) == ["internal words"]


def test_tracers_know_internal_calls_by_their_tags():
    recorder = Recorder()
    router = drafted(p=0.1)
    router.invoke(QUESTION, {"callbacks": [recorder], "tags": ["mine"]})
    drafts, last = recorder.named("FakeListChatModel")
    assert {"nostream", "fitrag", "mine"} <= set(drafts["tags"])
    assert "mine" in last["tags"] and not {"nostream", "fitrag"} & set(last["tags"])


def test_astream_events_can_be_filtered_by_the_tag():
    async def seen() -> list[str]:
        events = drafted(p=0.1).astream_events(QUESTION, version="v2", exclude_tags=["fitrag"])
        return [
            event["data"]["chunk"].text
            async for event in events
            if event["event"] == "on_chat_model_stream"
        ]

    assert "".join(asyncio.run(seen())) == ANSWER


def test_the_decision_of_a_middleware_does_not_stream():
    from langchain.agents import create_agent
    from langchain_core.tools import create_retriever_tool

    tool = create_retriever_tool(
        FitRagRetriever(base=OverlapBase(), scorer=OverlapScorer()), "find", "Find pages."
    )

    class Agent(FakeListChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

    gate = RetrievalGateMiddleware(AskGate(inner("a draft", "Yes")), tools=[tool])
    agent = create_agent(Agent(responses=[ANSWER]), [tool], middleware=[gate])
    assert words(list(agent.stream(asked(), stream_mode="messages"))) == ANSWER
