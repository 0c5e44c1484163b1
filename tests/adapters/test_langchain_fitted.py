"""LangChain's drop-ins made of a fitted folder, and the traces they leave."""

import json

import pytest
from fakes import QUESTIONS, OverlapScorer
from fitted_folder import PLAIN, write_fitted
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_fakes import OverlapBase

from fitrag_integrations.errors import InputError, ThresholdMismatchError
from fitrag_integrations.langchain import (
    BiLabelReranker,
    CompressingRetriever,
    CorrectiveRetriever,
    CorrectiveRouter,
    FitRagRetriever,
    KnowledgeRefiner,
    KnowledgeRouter,
    MethodRetriever,
    MethodRunnable,
    RetrievalGate,
    SubDocumentCompressor,
    TraceHandler,
)


class Tuned(FakeListLLM):
    """Say yes, under a name."""

    model: str = "tuned"
    responses: list[str] = ["Yes"]


@pytest.fixture
def folder(tmp_path):
    return write_fitted(tmp_path / "fitted")


def test_each_drop_in_takes_what_is_its_own(folder):
    llm, nothing = Tuned(), RunnableLambda(str)
    retriever = FitRagRetriever.from_fitted(
        folder, base=OverlapBase(), llm=llm, scorer=OverlapScorer()
    )
    assert (retriever.top_n, retriever.weight, retriever.max_tokens) == (4, 0.25, 75)
    assert retriever.gate.threshold == 0.4
    assert BiLabelReranker.from_fitted(folder, llm=llm).top_n == 4
    assert SubDocumentCompressor.from_fitted(folder, llm=llm).max_tokens == 75
    corrective = CorrectiveRetriever.from_fitted(folder, base=OverlapBase())
    assert corrective.thresholds.upper == 0.6
    router = CorrectiveRouter.from_fitted(folder, correct=nothing, incorrect=nothing)
    assert router.thresholds.lower == -0.2
    refiner = KnowledgeRefiner.from_fitted(folder, llm=llm)
    assert (refiner.threshold, refiner.sentences) == (-0.5, 3)
    assert RetrievalGate.from_fitted(folder, llm=llm).threshold == 0.4
    assert KnowledgeRouter.from_fitted(folder, llm=llm, unknown=nothing).threshold == 0.4


def test_both_compressors_behind_a_retriever(folder):
    retriever = CompressingRetriever.from_fitted(
        folder, base=OverlapBase(), llm=Tuned(), scorer=OverlapScorer()
    )
    reranker, reducer = retriever.compressors
    assert (reranker.top_n, reducer.max_tokens) == (4, 75)
    assert retriever.invoke(QUESTIONS[0])
    with pytest.raises(ThresholdMismatchError, match="fitted for 'tuned', given 'other'"):
        CompressingRetriever.from_fitted(folder, base=OverlapBase(), llm=Tuned(model="other"))


def test_the_middleware_asks_the_gate_that_was_fitted(folder):
    agents = pytest.importorskip("fitrag_integrations.langchain.routers.middleware")
    middleware = agents.RetrievalGateMiddleware.from_fitted(folder, llm=Tuned(), tools="search")
    state = {"messages": [HumanMessage(QUESTIONS[0], id="1")]}
    decision = middleware.before_agent(state, None)["retrieval_decision"]
    assert decision["threshold"] == 0.4 and decision["retrieve"] is False
    plain = write_fitted(folder.parent / "plain", recipe=PLAIN, gate="")
    with pytest.raises(InputError, match="no gate"):
        agents.RetrievalGateMiddleware.from_fitted(plain, llm=Tuned(), tools="search")


def test_the_gate_asks_the_language_model(folder):
    gate = RetrievalGate.from_fitted(folder, llm=Tuned())
    assert gate.invoke(QUESTIONS[0])["retrieve"] is False
    with pytest.raises(InputError, match="the language model, tuned, whom the gate asks"):
        RetrievalGate.from_fitted(folder)


def test_whole_methods_answer_as_they_were_fitted(tmp_path):
    folder = write_fitted(tmp_path, recipe=PLAIN, gate="")
    chain = MethodRunnable.from_fitted(folder, llm=Tuned(), retriever=OverlapBase())
    answer = chain.invoke(QUESTIONS[0])
    assert answer == "Yes" and "in a few words" in answer.prompt
    found = MethodRetriever.from_fitted(folder, base=OverlapBase()).invoke(QUESTIONS[0])
    assert len(found) == 3


def test_what_does_not_fit_is_refused(folder, tmp_path):
    with pytest.raises(ThresholdMismatchError, match="fitted for 'tuned', given 'other'"):
        FitRagRetriever.from_fitted(folder, base=OverlapBase(), llm=Tuned(model="other"))
    FitRagRetriever.from_fitted(
        folder, base=OverlapBase(), llm=Tuned(model="other"), allow_other_model=True
    )
    plain = write_fitted(tmp_path / "plain", recipe=PLAIN, gate="")
    with pytest.raises(InputError, match="the retriever alone with k=3"):
        FitRagRetriever.from_fitted(plain, base=OverlapBase())
    with pytest.raises(InputError, match="no gate"):
        RetrievalGate.from_fitted(plain)


def test_traces_are_written(tmp_path):
    path = tmp_path / "traces.jsonl"
    retriever = FitRagRetriever(base=OverlapBase(), scorer=OverlapScorer(), top_n=2)
    retriever.invoke(QUESTIONS[0], {"callbacks": [TraceHandler(path)]})
    retriever.invoke(QUESTIONS[0], {"callbacks": [TraceHandler(path, questions=False)]})
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["question"] == QUESTIONS[0] and first["method"] == "fitrag" and first["tokens"] > 0
    assert first["retrieve"] is True and first["score"] > 0
    assert "question" not in second
