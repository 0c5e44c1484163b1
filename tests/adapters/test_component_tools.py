"""Routers, judges, compressors, retrievers and methods as tools of agents in both frameworks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fakes import QUESTIONS, FixedGate, LongestWordReader, OverlapScorer
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import create_retriever_tool
from langchain_fakes import OverlapBase, documents
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools.calling import call_tool_with_selection

from fitrag_integrations import langchain as lc
from fitrag_integrations import llama_index as llama
from fitrag_integrations.methods import ActionThresholds, FitRag

QUESTION = QUESTIONS[0]
TEXTS = [document.page_content for document in documents()[:3]]
LIMITS = ActionThresholds(0.5, -0.5)
SEARCH = {"query": QUESTION}
ASK = {"question": QUESTION}
JUDGE = {"question": QUESTION, "documents": documents()[:3]}
TEXTED = {"question": QUESTION, "documents": TEXTS}


def grade(pairs: Any) -> list[float]:
    return [1.0 if "Rota" in passage.text else -1.0 for _, passage in pairs]


def branches(**fields: Any) -> lc.CorrectiveRouter:
    given = {"correct": lambda g: f"correct: {len(g['documents'])}", "incorrect": lambda g: "web"}
    return lc.CorrectiveRouter(evaluator=grade, thresholds=LIMITS, **given, **fields)


SCORED = {"scorer": OverlapScorer()}
PARTS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "fitrag": (lc.FitRagRetriever(base=OverlapBase(), **SCORED), SEARCH, "Nino Rota wrote"),
    "method retriever": (
        lc.MethodRetriever(base=OverlapBase(), method=FitRag(**SCORED)),
        SEARCH,
        "Nino Rota wrote",
    ),
    "compressing": (
        lc.CompressingRetriever(base=OverlapBase(), compressors=[lc.BiLabelReranker(**SCORED)]),
        SEARCH,
        "Nino Rota wrote",
    ),
    "web": (lc.WebSearchRetriever(search=OverlapBase()), SEARCH, "Nino Rota wrote"),
    "gate": (lc.RetrievalGate(gate=FixedGate(0.9)), ASK, '"retrieve": false'),
    "judge": (lc.RetrievalJudge(evaluator=grade, thresholds=LIMITS), JUDGE, '"action": "correct"'),
    "router": (
        lc.KnowledgeRouter(
            gate=FixedGate(0.1), known=lambda g: "", unknown=lambda g: g["question"].upper()
        ),
        ASK,
        QUESTION.upper(),
    ),
    "corrective router": (branches(), JUDGE, "correct: 3"),
    "corrective router with a base": (branches(base=OverlapBase()), ASK, "correct: 6"),
    "a branch to a message": (
        lc.KnowledgeRouter(
            gate=FixedGate(0.1), known=lambda g: "", unknown=lambda g: AIMessage("hello")
        ),
        ASK,
        "hello",
    ),
    "answer": (
        lc.MethodRunnable(
            method=FitRag(**SCORED), retriever=OverlapBase(), reader=LongestWordReader()
        ),
        ASK,
        "Amarcord",
    ),
    "compressor": (lc.SubDocumentCompressor(**SCORED).as_runnable(), JUDGE, "Nino Rota wrote"),
}


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
@pytest.mark.parametrize("part", PARTS)
def test_every_component_is_a_tool_by_the_frameworks_own_means(part):
    component, given, expected = PARTS[part]
    if isinstance(component, BaseRetriever):
        tool = create_retriever_tool(
            component, "find_out", "Finds.", response_format="content_and_artifact"
        )
    else:
        tool = component.as_tool(name="find_out", description="Finds.")
    assert set(tool.args) == set(given)
    call = {"name": tool.name, "args": given, "id": "1", "type": "tool_call"}
    for message in (tool.invoke(call), asyncio.run(tool.ainvoke(call))):
        assert isinstance(message, ToolMessage) and message.status == "success"
        assert expected in message.content
        assert bool(message.artifact) is isinstance(component, BaseRetriever)


def test_schemas_are_named():
    judge, gate = PARTS["judge"][0], PARTS["gate"][0]
    assert set(judge.get_output_schema().model_fields) >= {"action", "grades", "thresholds"}
    assert set(gate.get_output_schema().model_fields) == {"retrieve", "p_known", "threshold", "why"}
    judge.get_output_schema().model_validate(judge.invoke({**ASK, "documents": documents()}))
    gate.get_output_schema().model_validate(gate.invoke(QUESTION))


LLAMA: dict[str, tuple[Any, dict[str, Any], str]] = {
    "selector": (llama.KnowledgeSelector(FixedGate(0.9)), ASK, "do not retrieve, p_known 0.90"),
    "reranker": (llama.BiLabelReranker(**SCORED, top_n=1), TEXTED, "Nino Rota wrote"),
    "reducer": (llama.SubDocumentCompressor(**SCORED, max_tokens=40), TEXTED, "Nino Rota wrote"),
    "refiner": (llama.KnowledgeRefiner(evaluator=grade), TEXTED, "Nino Rota wrote"),
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
    calls = ToolSelection(tool_id="1", tool_name="BiLabelReranker", tool_kwargs=TEXTED)
    output = call_tool_with_selection(calls, [tool])
    assert "Nino Rota wrote" in output.content and not output.is_error
    wrong = ToolSelection(tool_id="1", tool_name="BiLabelReranker", tool_kwargs={})
    assert call_tool_with_selection(wrong, [tool]).is_error
