"""Language models that answer nothing, something else, or fail in the middle, in every role."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from fakes import QUESTIONS, FixedGate
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from langchain_fakes import OverlapBase
from llama_fakes import MockChat, NodeRetriever, ScriptedLLM
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from pydantic import PrivateAttr

from fitrag_integrations import langchain as lc
from fitrag_integrations import llama_index as li
from fitrag_integrations.methods import AskGate, FitRag
from fitrag_integrations.methods.answering import WROTE_NOTHING

QUESTION = QUESTIONS[0]
TURNS = [HumanMessage("Which film opened in 1973?"), AIMessage("Amarcord."), HumanMessage(QUESTION)]
CALL = {"name": "f", "args": {}, "id": "1"}
EMPTY = {
    "empty": AIMessage(""),
    "blank": " \n",
    "tool calls only": AIMessage("", tool_calls=[CALL]),
    "an image": AIMessage([{"type": "image", "url": "https://pages.example/x.png"}]),
    "a thought": AIMessage([{"type": "reasoning", "reasoning": "No, no."}]),
}
REPLIES = {**EMPTY, "None": None}


@pytest.fixture(params=REPLIES)
def model(request):
    return RunnableLambda(lambda prompt: REPLIES[request.param])


def drafted():
    gate = FixedGate(0.9)
    gate.draft_tokens = 8
    return gate


ROLES = {
    "condense": lambda llm: (
        lc.MethodRunnable(method=FitRag(), retriever=OverlapBase(), condense=llm)
        .invoke(TURNS)
        .value
    ),
    "the rounds of a method": lambda llm: (
        lc.ITRGRetriever(base=OverlapBase(), llm=llm, rounds=2).invoke(QUESTION).context
    ),
    "keywords of a search": lambda llm: (
        lc.WebSearchRetriever(search=OverlapBase(), rewrite=True, llm=llm).invoke(QUESTION).context
    ),
    "rewriter": lambda llm: (
        lc.SlimPLMRetriever(base=OverlapBase(), proxy=llm, rewriter=llm, judge=FixedGate(0.1))
        .invoke(QUESTION)
        .context
    ),
}


@pytest.mark.parametrize("role", ROLES)
def test_a_model_in_a_role_that_writes_nothing_costs_a_note(role, model):
    context = ROLES[role](model)
    assert context.excerpts and context.question == QUESTION
    assert context.notes, role


@pytest.mark.parametrize("role", ["gate", "drafter"])
def test_a_gate_without_an_answer_retrieves_and_says_why(role, model):
    fields = {"gate": AskGate(model)} if role == "gate" else {"gate": drafted(), "drafter": model}
    decision = lc.RetrievalGate(**fields).invoke(QUESTION)
    assert decision["retrieve"] and "failed" in decision["why"]


@pytest.mark.parametrize("reply", EMPTY)
def test_an_answer_of_nothing_is_empty_with_a_note(reply):
    llm = RunnableLambda(lambda prompt: EMPTY[reply])
    runnable = lc.MethodRunnable(method=FitRag(), retriever=OverlapBase(), llm=llm)
    for answer in (runnable.invoke(QUESTION), asyncio.run(runnable.ainvoke(QUESTION))):
        assert answer == "" and WROTE_NOTHING in answer.context.notes
        assert answer.context.excerpts
    assert "".join(runnable.stream(QUESTION)).strip() == ""


BLOCKS = {
    "empty": [TextBlock(text="")],
    "tool calls only": [ToolCallBlock(tool_name="f", tool_kwargs={})],
    "an image": [ImageBlock(url="https://pages.example/x.png")],
    "a thought": [ThinkingBlock(content="No, no.")],
    "no blocks": [],
}


class Blocks(MockChat):
    """Answer with blocks of content."""

    _blocks: list[object] = PrivateAttr(default_factory=list)

    @llm_chat_callback()
    def chat(self, messages, **kwargs):
        return ChatResponse(message=ChatMessage(role="assistant", blocks=self._blocks))

    @llm_chat_callback()
    async def achat(self, messages, **kwargs):
        return ChatResponse(message=ChatMessage(role="assistant", blocks=self._blocks))


@pytest.mark.parametrize("reply", BLOCKS)
def test_models_of_llama_index_that_write_nothing(reply):
    llm = Blocks()
    llm._blocks = BLOCKS[reply]
    response = li.MethodQueryEngine(FitRag(), NodeRetriever(), llm=llm).query(QUESTION)
    assert response.response == "" and response.source_nodes
    assert WROTE_NOTHING in response.metadata["fitrag"]["notes"]
    for fields in ({"gate": AskGate(llm)}, {"gate": drafted(), "drafter": llm}):
        selector = li.KnowledgeSelector(**fields)
        assert "failed" in selector.explain(QUESTION)
        assert selector.last_run.value.decision.retrieve
    retriever = li.ITRGRetriever(NodeRetriever(), llm=llm, rounds=2)
    assert retriever.retrieve(QUESTION) and retriever.last_run.value.notes


class Breaks(ScriptedLLM):
    """Write a word of a stream, then fail."""

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **kwargs):
        def tokens():
            yield CompletionResponse(text="One", delta="One")
            raise ConnectionError("the line broke")

        return tokens()


def breaking(pieces):
    yield "One"
    raise ConnectionError("the line broke")


async def abreaking(pieces):
    yield "One"
    raise ConnectionError("the line broke")


def through_langchain(how):
    llm = RunnableGenerator(breaking, abreaking)
    if how == "router":
        return lc.KnowledgeRouter(gate=FixedGate(0.9), llm=llm, unknown=str.upper)
    return lc.MethodRunnable(method=FitRag(), retriever=OverlapBase(), llm=llm)


def through_llama_index(how):
    if how == "router":
        base = li.MethodQueryEngine(FitRag(), NodeRetriever(), llm=ScriptedLLM())
        return li.KnowledgeRouterQueryEngine(
            FixedGate(0.9), retrieve=base, llm=Breaks(), streaming=True
        )
    return li.MethodQueryEngine(FitRag(), NodeRetriever(), llm=Breaks(), streaming=True)


@pytest.mark.parametrize("how", ["router", "method"])
async def test_a_stream_that_breaks_gives_what_came_and_the_error(how):
    runnable, engine = through_langchain(how), through_llama_index(how)

    async def aanswer():
        return (await engine.aquery(QUESTION)).response_gen

    for begin in (
        lambda: runnable.stream(QUESTION),
        lambda: engine.query(QUESTION).response_gen,
        lambda: runnable.astream(QUESTION),
        aanswer,
    ):
        seen, pieces = [], begin()
        pieces = await pieces if inspect.iscoroutine(pieces) else pieces
        with pytest.raises(ConnectionError, match="the line broke"):
            if hasattr(pieces, "__aiter__"):
                async for piece in pieces:
                    seen.append(piece)
            else:
                for piece in pieces:
                    seen.append(piece)
        assert "".join(seen) == "One"
    fallback = runnable.with_fallbacks([RunnableLambda(lambda question: "Two")])
    assert fallback.invoke(QUESTION) == "Two"
