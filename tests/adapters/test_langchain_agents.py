"""RetrievalGateMiddleware in real agents, and decision models as gates and evaluators."""

import importlib
import importlib.util
import json
import sys
from types import ModuleType
from typing import Any, Literal

import pytest
from decision_fakes import AsyncWordGate, BrokenGate, WordGate
from fakes import QUESTIONS
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableSerializable
from langchain_core.tools import tool
from langchain_fakes import ToolChat, called
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, ValidationError

from fitrag_integrations import langchain as lc
from fitrag_integrations.errors import InputError, MissingExtraError
from fitrag_integrations.methods import ActionThresholds

KNOWN, UNKNOWN = QUESTIONS[0], QUESTIONS[1]
asked_of_tools = []


@tool
def notes(query: str) -> str:
    """Find notes on a question."""
    asked_of_tools.append(query)
    return "The Danube ends in the Black Sea."


@tool
def clock() -> str:
    """Tell the time."""
    return "noon"


@pytest.fixture(autouse=True)
def _forget():
    asked_of_tools.clear()


def agent(model, gate=None, **fields):
    options = {"tools": ["notes"], **fields.pop("options", {})}
    middleware = lc.RetrievalGateMiddleware(WordGate() if gate is None else gate, **options)
    return create_agent(model, [notes, clock], middleware=[middleware], **fields)


def said(*texts):
    return {"messages": [HumanMessage(text) for text in texts]}


WAYS = pytest.mark.parametrize("how", ["invoke", "ainvoke"])


@WAYS
async def test_on_a_known_question_the_tool_is_hidden(how):
    model = ToolChat()
    result = await called(agent(model), how, said(KNOWN))
    assert model.offered == [["clock"]]
    assert asked_of_tools == []
    decision = result["retrieval_decision"]
    assert (decision["retrieve"], decision["p_known"], decision["threshold"]) == (False, 0.9, 0.6)
    assert decision["question"] == KNOWN
    assert json.loads(json.dumps(decision)) == decision
    assert type(decision) is dict


@WAYS
async def test_on_another_the_tool_is_there(how):
    model = ToolChat()
    result = await called(agent(model), how, said(UNKNOWN))
    assert model.offered == [["notes", "clock"]] * 2
    assert asked_of_tools == [UNKNOWN]
    assert result["retrieval_decision"]["retrieve"] is True


@WAYS
async def test_a_call_of_a_hidden_tool_is_answered_in_its_place(how):
    result = await called(agent(ToolChat(stubborn=True)), how, said(KNOWN))
    assert asked_of_tools == []
    (reply,) = [each for each in result["messages"] if isinstance(each, ToolMessage)]
    assert "from memory" in reply.text
    assert (reply.name, reply.tool_call_id) == ("notes", "1")
    lenient = agent(ToolChat(stubborn=True), options={"message": None})
    await called(lenient, how, said(KNOWN))
    assert asked_of_tools == [KNOWN]


@WAYS
async def test_other_tools_are_left_alone(how):
    result = await called(agent(ToolChat(calls="clock")), how, said(KNOWN))
    (reply,) = [each for each in result["messages"] if isinstance(each, ToolMessage)]
    assert reply.text == "noon"


@WAYS
async def test_one_decision_per_message_of_the_user_kept_by_a_checkpointer(how):
    gate = AsyncWordGate()
    whole = agent(ToolChat(), gate, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    first = await called(whole, how, said(KNOWN), thread)
    assert gate.batches == [1]
    kept = (await whole.aget_state(thread)).values["retrieval_decision"]
    assert kept == first["retrieval_decision"]
    await called(whole, how, {"messages": []}, thread)  # nobody asked anything new
    assert gate.batches == [1]
    second = await called(whole, how, said(UNKNOWN), thread)
    assert gate.batches == [1, 1]
    assert second["retrieval_decision"]["question"] == UNKNOWN
    await called(whole, how, said(UNKNOWN), thread)  # asked again: another message
    assert gate.batches == [1, 1, 1]
    assert len(gate.async_batches) == (3 if how == "ainvoke" else 0)


@WAYS
async def test_a_gate_that_fails_leaves_the_tools(how):
    model = ToolChat()
    result = await called(agent(model, BrokenGate()), how, said(KNOWN))
    assert model.offered[0] == ["notes", "clock"]
    assert "the gate is broken" in result["retrieval_decision"]["why"]
    with pytest.raises(RuntimeError, match="the gate is broken"):
        strict = agent(model, BrokenGate(), options={"on_error": "raise"})
        await called(strict, how, said(KNOWN))


@WAYS
async def test_without_a_question_nothing_is_decided(how):
    gate, thread = WordGate(), {"configurable": {"thread_id": "1"}}
    whole = agent(ToolChat(), gate, checkpointer=InMemorySaver())
    result = await called(whole, how, {"messages": [SystemMessage("Be brief.")]}, thread)
    assert "retrieval_decision" not in result
    await called(whole, how, said(KNOWN), thread)
    result = await called(whole, how, said(" "), thread)
    assert result["retrieval_decision"] is None
    assert gate.batches == [1]


def test_the_question_may_be_found_elsewhere():
    first = {"question": lambda messages: messages[0].text, "threshold": 0.95}
    result = agent(ToolChat(), options=first).invoke(said(KNOWN, "And when?"))
    assert result["retrieval_decision"]["question"] == KNOWN
    assert result["retrieval_decision"]["threshold"] == 0.95


@pytest.mark.parametrize("choice", ["any", "notes", {"function": {"name": "notes"}}, "clock"])
def test_nobody_is_made_to_call_what_is_hidden(choice):
    from langchain.agents.middleware import ModelRequest

    seen = []
    middleware = lc.RetrievalGateMiddleware(WordGate(), tools=notes)
    hosted = {"type": "function", "function": {"name": "notes"}}
    for tools in ([notes, clock, hosted], [notes, hosted]):
        state = {"messages": [], "retrieval_decision": {"retrieve": False}}
        request = ModelRequest(
            model=ToolChat(), messages=[], tools=tools, tool_choice=choice, state=state
        )
        middleware.wrap_model_call(request, seen.append)
        assert request.tools == tools
    assert [each.tools for each in seen] == [[clock], []]
    kept = choice if choice in ("any", "clock") else None
    assert [each.tool_choice for each in seen] == [kept, None]


def test_without_langchain_the_extra_is_named(monkeypatch):
    module = "fitrag_integrations.langchain.middleware"
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "langchain.agents", None)
    with pytest.raises(MissingExtraError, match=r'pip install "fitrag-integrations\[agents\]"'):
        importlib.import_module(module)


# --- decision models, which langchain-core has from 1.8 on

DECISIONS = "langchain_core.decisions"


@pytest.fixture
def model(monkeypatch):
    """Make a decision model that knows the words of `KNOWN`, and relevant documents by a name."""
    if importlib.util.find_spec(DECISIONS) is None:

        class Noul(BaseModel):
            instructions: str

        class NoulAnswer(BaseModel):
            type: Literal["noul"]
            noul: float

        class ClassifierResponse(BaseModel):
            model: str
            answers: dict[str, NoulAnswer]

        class BaseDecisionModel(RunnableSerializable[Any, Any]):
            model: str

            def invoke(self, input, config=None, **kwargs):
                return self._classify(input["state"], dict(input["questions"]))

        module = ModuleType(DECISIONS)
        for each in (Noul, NoulAnswer, ClassifierResponse, BaseDecisionModel):
            setattr(module, each.__name__, each)
        monkeypatch.setitem(sys.modules, DECISIONS, module)
    decisions = importlib.import_module(DECISIONS)

    class Words(decisions.BaseDecisionModel):
        model: str = "words"

        @property
        def _provider(self):
            return "words"

        def _classify(self, state, questions):
            noul = 0.9 if KNOWN in str(state) or "Marbach" in str(state) else 0.2
            answer = decisions.NoulAnswer(type="noul", noul=noul)
            return decisions.ClassifierResponse(
                model=self.model, answers=dict.fromkeys(questions, answer)
            )

    return Words()


async def test_a_decision_model_is_a_gate(model):
    gate = lc.DecisionGate(model, threshold=0.5)
    router = lc.KnowledgeRouter(gate=gate, known=lambda _: "known", unknown=lambda _: "unknown")
    assert router.batch([KNOWN, UNKNOWN]) == ["known", "unknown"]
    assert await router.abatch([KNOWN, UNKNOWN]) == ["known", "unknown"]
    assert gate.name == "words"
    for wrong in (WordGate(), None, type(model)):
        with pytest.raises(InputError, match="BaseDecisionModel"):
            lc.DecisionGate(wrong)
    with pytest.raises(InputError, match="threshold"):
        lc.DecisionGate(model, threshold=2)


async def test_a_decision_model_is_an_evaluator(model):
    pages = ["The bridge was designed by Ilse Marbach.", "Lunch is at noon."]
    documents = [Document(page_content=text) for text in pages]
    given = {"question": "Who designed the bridge?", "documents": documents}
    judge, limits = lc.DecisionEvaluator(model), ActionThresholds(0.1, -0.4, -0.5)
    judged = lc.RetrievalJudge(evaluator=judge, thresholds=limits)
    for said in (judged.invoke(given), await judged.ainvoke(given)):
        assert (said["action"], said["grades"]) == ("correct", pytest.approx([0.8, -0.6]))
    found = lc.CorrectiveRetriever(base=lambda _: documents, evaluator=judge, thresholds=limits)
    assert [each.page_content for each in found.invoke(given["question"])] == pages[:1]
    with pytest.raises(ValidationError, match="calibrate"):
        lc.RetrievalJudge(evaluator=judge)


def test_an_older_core_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, DECISIONS, None)
    with pytest.raises(MissingExtraError, match=r"langchain-core of 1\.8 or newer"):
        lc.DecisionGate(WordGate())
