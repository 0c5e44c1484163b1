"""CRAG in LangChain alone: the router of three branches and the judge, and a graph of them."""

import json

import pytest
from decision_fakes import ACTIONS, OverlapEvaluator
from langchain_core.documents import Document
from langchain_core.runnables import (
    RunnableLambda,
)
from langchain_fakes import OverlapBase, Recorder, called, documents

from fitrag_integrations.errors import ThresholdMismatchError
from fitrag_integrations.langchain import CorrectiveRouter, RetrievalJudge
from fitrag_integrations.methods.crag.evaluator import ActionThresholds

CORRECT, AMBIGUOUS, INCORRECT = (
    "Who wrote the score of Amarcord?",
    "Who wrote the many films of Milan?",
    "Which ferry sails to Corran Head?",
)


def named(name):
    return RunnableLambda(lambda given: {"branch": name, **given}, name=name)


def router(**fields):
    branches = {name: named(name) for name in ("correct", "ambiguous", "incorrect")}
    return CorrectiveRouter(**{**branches, "evaluator": OverlapEvaluator(), **fields})


async def test_the_action_chooses_the_branch():
    routed = router(base=OverlapBase())
    for question, action in zip(
        (CORRECT, AMBIGUOUS, INCORRECT), ("correct", "ambiguous", "incorrect"), strict=True
    ):
        given = {"question": question, "documents": OverlapBase().invoke(question)}
        got = routed.invoke(question)
        assert got["branch"] == got["action"] == action
        assert got["documents"] == given["documents"]
        assert len(got["grades"]) == len(given["documents"])
        assert routed.invoke(given) == await routed.ainvoke(given) == got
        assert routed.invoke({"input": question}) == {**got, "input": question}
        assert json.loads(json.dumps(got["grades"])) == got["grades"]


def test_blank_documents_have_the_lowest_grade_and_no_say():
    blank = Document(" ", id="blank")
    for given in ([blank, *documents()], [*documents(), blank]):
        got = router().invoke({"question": CORRECT, "documents": given})
        assert got["documents"] == given
        assert got["grades"][given.index(blank)] == -1.0
        assert got["action"] == "correct"
    for nothing in ([], [blank]):
        assert router().invoke({"question": CORRECT, "documents": nothing})["branch"] == "incorrect"


async def test_a_batch_of_the_router_is_one_call_of_the_evaluator():
    evaluator, base = OverlapEvaluator(), OverlapBase()
    routed = router(evaluator=evaluator, base=base)
    questions = [CORRECT, AMBIGUOUS, INCORRECT] * 4
    found = routed.batch(questions)
    assert [each["question"] for each in found] == questions
    assert [each["branch"] for each in found] == ["correct", "ambiguous", "incorrect"] * 4
    assert (evaluator.batches, base.batches) == ([72], [12])
    assert await routed.abatch(questions) == found


@pytest.mark.parametrize("how", ["invoke", "abatch", "stream"])
async def test_judging_is_a_run_of_its_own(how):
    recorder = Recorder()
    await called(router(base=OverlapBase()), how, CORRECT, {"callbacks": [recorder]})
    for name in ("OverlapBase", "RetrievalJudge", "correct"):
        runs = recorder.named(name)
        assert len(runs) == (2 if "batch" in how else 1)
        assert {recorder.parent_of(run) for run in runs} == {"CorrectiveRouter"}
    judged = recorder.named("RetrievalJudge")[0]
    assert judged["end"]["action"] == "correct"
    assert judged["end"]["thresholds"] == ACTIONS.to_dict()
    assert recorder.named("correct")[0]["metadata"]["fitrag"] == judged["end"]


async def test_the_judge_by_itself():
    judge = RetrievalJudge(evaluator=OverlapEvaluator())
    given = {"question": CORRECT, "documents": documents()}
    got = judge.invoke(given)
    assert (got["action"], len(got["grades"])) == ("correct", len(documents()))
    assert await judge.ainvoke(given) == got
    strict = RetrievalJudge(evaluator=OverlapEvaluator(), thresholds=ActionThresholds(1.0, -1.0))
    assert strict.invoke(given)["action"] == "ambiguous"
    with pytest.raises(ThresholdMismatchError):
        RetrievalJudge(evaluator=OverlapEvaluator(), thresholds="arc")


def test_what_is_ambiguous_goes_with_what_is_incorrect():
    got = router(ambiguous=None, base=OverlapBase()).invoke(AMBIGUOUS)
    assert (got["branch"], got["action"]) == ("incorrect", "ambiguous")
