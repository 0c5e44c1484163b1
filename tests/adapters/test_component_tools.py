"""Routers, judges, compressors, retrievers and methods as tools of agents in both frameworks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fakes import QUESTIONS, FixedGate, LongestWordReader, OverlapScorer
from langchain_core.messages import AIMessage, ToolMessage
from langchain_fakes import OverlapBase, documents
from langgraph.prebuilt import ToolNode
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools.calling import call_tool_with_selection

from fitrag_integrations import llama_index as llama
from fitrag_integrations.langchain import (
    BiLabelReranker,
    CompressingRetriever,
    CorrectiveRouter,
    FitRagRetriever,
    KnowledgeRefiner,
    KnowledgeRouter,
    MethodRetriever,
    MethodRunnable,
    RetrievalGate,
    RetrievalJudge,
    SubDocumentCompressor,
    WebSearchRetriever,
)
from fitrag_integrations.methods import ActionThresholds, FitRag

QUESTION = QUESTIONS[0]
TEXTS = [document.page_content for document in documents()[:3]]
LIMITS = ActionThresholds(0.5, -0.5)
SEARCH = {"query": QUESTION}
ASK = {"question": QUESTION}
JUDGE = {"question": QUESTION, "documents": TEXTS}


def grade(pairs: Any) -> list[float]:
    return [1.0 if "Rota" in passage.text else -1.0 for _, passage in pairs]


def branches(**fields: Any) -> CorrectiveRouter:
    given = {"correct": lambda g: f"correct: {len(g['documents'])}", "incorrect": lambda g: "web"}
    return CorrectiveRouter(evaluator=grade, thresholds=LIMITS, **given, **fields)


SCORED = {"scorer": OverlapScorer()}
PARTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "fitrag": (FitRagRetriever(base=OverlapBase(), **SCORED), SEARCH, "Nino Rota wrote"),
    "method retriever": (
        MethodRetriever(base=OverlapBase(), method=FitRag(**SCORED)),
        SEARCH,
        "Nino Rota wrote",
    ),
    "compressing": (
        CompressingRetriever(base=OverlapBase(), compressors=[BiLabelReranker(**SCORED)]),
        SEARCH,
        "Nino Rota wrote",
    ),
    "web": (WebSearchRetriever(search=OverlapBase()), SEARCH, "Nino Rota wrote"),
    "gate": (RetrievalGate(gate=FixedGate(0.9)), ASK, '"retrieve": false'),
    "judge": (RetrievalJudge(evaluator=grade, thresholds=LIMITS), JUDGE, '"action": "correct"'),
    "router": (
        KnowledgeRouter(
            gate=FixedGate(0.1), known=lambda g: "", unknown=lambda g: g["question"].upper()
        ),
        ASK,
        QUESTION.upper(),
    ),
    "corrective router": (branches(), JUDGE, "correct: 3"),
    "corrective router with a base": (branches(base=OverlapBase()), ASK, "correct: 6"),
    "a branch to a message": (
        KnowledgeRouter(
            gate=FixedGate(0.1), known=lambda g: "", unknown=lambda g: AIMessage("hello")
        ),
        ASK,
        "hello",
    ),
    "method": (MethodRunnable(method=FitRag(**SCORED), retriever=OverlapBase()), ASK, "Nino Rota"),
    "answer": (
        MethodRunnable(
            method=FitRag(**SCORED), retriever=OverlapBase(), reader=LongestWordReader()
        ),
        ASK,
        "Amarcord",
    ),
    "reranker": (BiLabelReranker(**SCORED, top_n=1), JUDGE, "Nino Rota wrote"),
    "reducer": (SubDocumentCompressor(**SCORED, max_tokens=40), JUDGE, "Nino Rota wrote"),
    "refiner": (KnowledgeRefiner(evaluator=grade), JUDGE, "Nino Rota wrote"),
    "runnable": (SubDocumentCompressor(**SCORED).as_runnable(), JUDGE, "Nino Rota wrote"),
}


@pytest.mark.parametrize("part", PARTS)
def test_every_component_is_a_tool_with_named_and_described_arguments(part):
    component, given, expected = PARTS[part]
    tool = component.as_tool(name="find_out")
    assert tool.name == "find_out" and tool.description.endswith(".")
    assert set(tool.args) == set(given)
    assert all(each["description"] for each in tool.args.values())
    call = {"name": tool.name, "args": given, "id": "1", "type": "tool_call"}
    for message in (tool.invoke(call), asyncio.run(tool.ainvoke(call))):
        assert isinstance(message, ToolMessage) and message.status == "success"
        assert expected in message.content
        assert message.artifact is not None
    assert expected in tool.invoke(given)  # outside of an agent, the text alone


@pytest.mark.parametrize("part", PARTS)
def test_tools_work_in_a_node_that_reports_wrong_calls(part):
    component, given, expected = PARTS[part]
    node = ToolNode([component.as_tool(name="find_out")], handle_tool_errors=True)

    def called(args: dict[str, Any]) -> ToolMessage:
        from langgraph.graph import START, MessagesState, StateGraph

        graph = StateGraph(MessagesState)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        call = {"name": "find_out", "args": args, "id": "1", "type": "tool_call"}
        state = graph.compile().invoke({"messages": [AIMessage("", tool_calls=[call])]})
        return state["messages"][-1]

    assert expected in called(given).content
    assert expected in called({**given, "extra": 1}).content
    assert "Field required" in called({}).content or "field required" in called({}).content.lower()


def test_artifacts_are_the_whole_results():
    def artifact(part: str) -> Any:
        component, given, _ = PARTS[part]
        call = {"name": "x", "args": given, "id": "1", "type": "tool_call"}
        return component.as_tool(name="x").invoke(call).artifact

    assert artifact("fitrag").context.method == "fitrag"
    assert artifact("judge")["grades"] == [1.0, 1.0, -1.0]
    assert artifact("reranker")[0].metadata["relevance_score"] > 0
    assert artifact("answer").context.question == QUESTION


def test_documents_of_a_call_may_have_metadata():
    judge = RetrievalJudge(evaluator=grade, thresholds=LIMITS).as_tool()
    documents = [{"page_content": TEXTS[0], "metadata": {"title": "Amarcord"}}, TEXTS[2]]
    found = json.loads(judge.invoke({"question": QUESTION, "documents": documents}))
    assert found["grades"] == [1.0, -1.0]


def test_runs_of_a_tool_are_children_of_its_run():
    from langchain_fakes import Recorder

    recorder = Recorder()
    tool = RetrievalGate(gate=FixedGate(0.9)).as_tool()
    tool.invoke(ASK, {"callbacks": [recorder], "tags": ["mine"]})
    (run,) = recorder.named("RetrievalGate")
    assert run["parent"] is not None and "mine" in run["tags"]


def test_schemas_are_named():
    judge, gate = PARTS["judge"][0], PARTS["gate"][0]
    assert set(judge.get_output_schema().model_fields) >= {"action", "grades", "thresholds"}
    assert set(gate.get_output_schema().model_fields) == {"retrieve", "p_known", "threshold", "why"}
    judge.get_output_schema().model_validate(judge.invoke({**ASK, "documents": documents()}))
    gate.get_output_schema().model_validate(gate.invoke(QUESTION))


def test_arguments_may_be_named_otherwise():
    tool = branches(base=OverlapBase()).as_tool(
        name="ask", description="Ask.", arg_types={"query": str}
    )
    assert list(tool.args) == ["query"] and tool.invoke({"query": QUESTION}) == "correct: 6"


LLAMA: dict[str, tuple[Any, dict[str, Any], str]] = {
    "selector": (llama.KnowledgeSelector(FixedGate(0.9)), ASK, "do not retrieve, p_known 0.90"),
    "reranker": (llama.BiLabelReranker(**SCORED, top_n=1), JUDGE, "Nino Rota wrote"),
    "reducer": (llama.SubDocumentCompressor(**SCORED, max_tokens=40), JUDGE, "Nino Rota wrote"),
    "refiner": (llama.KnowledgeRefiner(evaluator=grade), JUDGE, "Nino Rota wrote"),
}


@pytest.mark.parametrize("part", LLAMA)
def test_what_has_no_tool_class_in_llama_index_has_its_own(part):
    component, given, expected = LLAMA[part]
    tool = component.as_tool(name="find_out")
    assert tool.metadata.name == "find_out" and tool.metadata.description.endswith(".")
    arguments = tool.metadata.get_parameters_dict()["properties"]
    assert set(arguments) == set(given)
    assert all(each["description"] for each in arguments.values())
    for output in (tool.call(**given), asyncio.run(tool.acall(**given))):
        assert expected in output.content and not output.is_error
        assert output.raw_output is not None
    for wrong in ({}, {**given, "extra": 1}):
        with pytest.raises(TypeError, match="argument"):
            tool.call(**wrong)


def test_an_agent_of_llama_index_calls_one():
    tool = LLAMA["reranker"][0].as_tool()
    calls = ToolSelection(tool_id="1", tool_name="BiLabelReranker", tool_kwargs=JUDGE)
    output = call_tool_with_selection(calls, [tool])
    assert "Nino Rota wrote" in output.content and not output.is_error
    wrong = ToolSelection(tool_id="1", tool_name="BiLabelReranker", tool_kwargs={})
    assert call_tool_with_selection(wrong, [tool]).is_error
