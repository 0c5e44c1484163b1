"""The drop-ins of both frameworks made of a fitted folder, and the traces they leave."""

import pytest
from fakes import QUESTIONS, OverlapScorer
from fitted_folder import PLAIN, write_fitted
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_fakes import OverlapBase
from llama_fakes import NodeRetriever, ScriptedLLM
from llama_index.core.llms import LLMMetadata
from llama_index.core.query_engine import RetrieverQueryEngine

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.errors import InputError, ThresholdMismatchError


class Tuned(FakeListLLM):
    """Say yes, under a name."""

    model: str = "tuned"
    responses: list[str] = ["Yes"]


class TunedLLM(ScriptedLLM):
    """Answer under a name."""

    named: str = "tuned"

    @property
    def metadata(self):
        return LLMMetadata(model_name=self.named)


LANGCHAIN = (langchain, OverlapBase, Tuned, Tuned(model="other"))
LLAMA_INDEX = (llama_index, NodeRetriever, TunedLLM, TunedLLM(named="other"))
both = pytest.mark.parametrize(
    ("ours", "base", "llm", "other"), [LANGCHAIN, LLAMA_INDEX], ids=["langchain", "llama_index"]
)


@pytest.fixture
def folder(tmp_path):
    return write_fitted(tmp_path / "fitted")


@pytest.fixture
def plain(tmp_path):
    return write_fitted(tmp_path / "plain", recipe=PLAIN, gate="")


@both
def test_each_drop_in_takes_what_is_its_own(folder, ours, base, llm, other):
    nothing, given = RunnableLambda(str), {"base": base(), "llm": llm()}
    retriever = ours.FitRagRetriever.from_fitted(folder, **given, scorer=OverlapScorer())
    assert (retriever.top_n, retriever.weight, retriever.max_tokens) == (4, 0.25, 75)
    assert retriever.gate.threshold == 0.4
    assert ours.BiLabelReranker.from_fitted(folder, llm=llm()).top_n == 4
    assert ours.SubDocumentCompressor.from_fitted(folder, llm=llm()).max_tokens == 75
    assert ours.CorrectiveRetriever.from_fitted(folder, base=base()).thresholds.upper == 0.6
    refiner = ours.KnowledgeRefiner.from_fitted(folder, llm=llm())
    assert (refiner.threshold, refiner.sentences) == (-0.5, 3)
    if ours is langchain:
        router = ours.CorrectiveRouter.from_fitted(folder, correct=nothing, incorrect=nothing)
        assert router.thresholds.lower == -0.2
        gates = [
            ours.RetrievalGate.from_fitted(folder, llm=llm()),
            ours.KnowledgeRouter.from_fitted(folder, llm=llm(), unknown=nothing),
        ]
    else:
        engine = RetrieverQueryEngine.from_args(base(), llm=llm())
        gates = [
            ours.KnowledgeSelector.from_fitted(folder, llm=llm()),
            ours.KnowledgeRouterQueryEngine.from_fitted(folder, llm=llm(), retrieve=engine),
        ]
    assert [gate.threshold for gate in gates] == [0.4, 0.4]


def test_both_compressors_behind_a_retriever(folder):
    kind = langchain.CompressingRetriever
    given = {"base": OverlapBase(), "llm": Tuned(), "scorer": OverlapScorer()}
    retriever = kind.from_fitted(folder, **given)
    reranker, reducer = retriever.compressors
    assert (reranker.top_n, reducer.max_tokens) == (4, 75)
    assert retriever.invoke(QUESTIONS[0])
    with pytest.raises(ThresholdMismatchError, match="fitted for 'tuned', given 'other'"):
        kind.from_fitted(folder, base=OverlapBase(), llm=Tuned(model="other"))


def test_the_middleware_asks_the_gate_that_was_fitted(folder, plain):
    agents = pytest.importorskip("fitrag_integrations.langchain.middleware")
    middleware = agents.RetrievalGateMiddleware.from_fitted(folder, llm=Tuned(), tools="search")
    state = {"messages": [HumanMessage(QUESTIONS[0], id="1")]}
    decision = middleware.before_agent(state, None)["retrieval_decision"]
    assert decision["threshold"] == 0.4 and decision["retrieve"] is False
    with pytest.raises(InputError, match="no gate"):
        agents.RetrievalGateMiddleware.from_fitted(plain, llm=Tuned(), tools="search")


def test_the_gate_asks_the_language_model(folder, plain):
    gate = langchain.RetrievalGate.from_fitted(folder, llm=Tuned())
    assert gate.invoke(QUESTIONS[0])["retrieve"] is False
    with pytest.raises(InputError, match="the language model, tuned, whom the gate asks"):
        langchain.RetrievalGate.from_fitted(folder)
    with pytest.raises(InputError, match="no gate"):
        langchain.RetrievalGate.from_fitted(plain)


def test_whole_methods_answer_as_they_were_fitted(plain):
    chain = langchain.MethodRunnable.from_fitted(plain, llm=Tuned(), retriever=OverlapBase())
    answer = chain.invoke(QUESTIONS[0])
    assert answer == "Yes" and "in a few words" in answer.prompt
    found = langchain.MethodRetriever.from_fitted(plain, base=OverlapBase())
    assert len(found.invoke(QUESTIONS[0])) == 3
    kind = llama_index.MethodQueryEngine
    engine = kind.from_fitted(plain, llm=TunedLLM(), retriever=NodeRetriever())
    engine.query(QUESTIONS[0])
    assert "in a few words" in engine.last_run.value.prompt
    found = llama_index.MethodRetriever.from_fitted(plain, base=NodeRetriever())
    assert len(found.retrieve(QUESTIONS[0])) == 3


@both
def test_what_does_not_fit_is_refused(folder, plain, ours, base, llm, other):
    kind, given = ours.FitRagRetriever, {"base": base(), "llm": other}
    with pytest.raises(ThresholdMismatchError, match="fitted for 'tuned', given 'other'"):
        kind.from_fitted(folder, **given)
    kind.from_fitted(folder, **given, allow_other_model=True)
    with pytest.raises(InputError, match="the retriever alone with k=3"):
        kind.from_fitted(plain, base=base())


def test_what_nothing_was_fitted_for_is_refused(folder):
    with pytest.raises(InputError, match="retrievers, rerankers"):
        llama_index.ITRGRetriever.from_fitted(folder, base=NodeRetriever(), llm=TunedLLM())
    with pytest.raises(ThresholdMismatchError, match="fitted for 'tuned', given 'Scripted"):
        given = {"base": NodeRetriever(), "llm": ScriptedLLM()}
        llama_index.FitRagRetriever.from_fitted(folder, **given)
