"""Whole methods and routers of both frameworks over the same stand-ins: equal steps and answers."""

import asyncio

import pytest
from decision_fakes import OverlapEvaluator
from fakes import QUESTIONS, LongestWordReader, OverlapScorer
from frameworks import BOTH
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from llama_fakes import NodeRetriever, ScriptedLLM

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.methods import Crag, FitRag

ASKED = (*QUESTIONS, "Who wrote the many films of Milan?", "Which ferry sails to Corran Head?")


def steps(traced):
    return [(step.port, step.count) for step in traced.steps]


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_equal(question):
    method, llm = FitRag(OverlapScorer()), ScriptedLLM()
    write = RunnableLambda(lambda prompt: llm.complete(prompt).text)
    for models in ({"reader": LongestWordReader()}, {}):
        runnable = langchain.MethodRunnable(
            method=method, retriever=BOTH[0].base(), llm=write, **models
        )
        engine = llama_index.MethodQueryEngine(method, NodeRetriever(), llm=llm, **models)
        one, other = runnable.invoke(question), engine.query(question)
        report = other.metadata["fitrag"]
        assert str(one) == other.response
        assert [(s["port"], s["count"]) for s in report["steps"]] == steps(one.traced)
        assert one.score == report["answer"]["score"]
    assert llm.prompts[0] == llm.prompts[1]


@pytest.mark.parametrize("question", ASKED)
def test_routers_take_the_same_action(question):
    llm, evaluators = ScriptedLLM(), (OverlapEvaluator(), OverlapEvaluator())
    engine = llama_index.MethodQueryEngine(Crag(evaluators[0]), NodeRetriever(), llm=llm)
    one = langchain.CorrectiveRouter(
        correct=RunnablePassthrough(),
        incorrect=RunnablePassthrough(),
        base=BOTH[0].base(),
        evaluator=evaluators[0],
    )
    other = llama_index.CorrectiveRouterQueryEngine(
        NodeRetriever(), correct=engine, incorrect=engine, evaluator=evaluators[1]
    )
    got = one.invoke(question)
    told = other.query(question).metadata["fitrag"]
    again = asyncio.run(other.aquery(question)).metadata["fitrag"]
    assert got["action"] == told["action"] == again["action"]
    assert got["grades"] == told["details"]["grades"]
    assert asyncio.run(one.ainvoke(question)) == got
    responses = other.query_many(list(ASKED))
    assert [each["action"] for each in one.batch(list(ASKED))] == [
        each.metadata["fitrag"]["action"] for each in responses
    ]
