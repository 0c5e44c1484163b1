"""LlamaIndex's drop-ins made of a fitted folder, and the traces they leave."""

import json

import pytest
from fakes import QUESTIONS, OverlapScorer
from fitted_folder import PLAIN, write_fitted
from llama_fakes import NodeRetriever, ScriptedLLM
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import LLMMetadata
from llama_index.core.query_engine import RetrieverQueryEngine

from fitrag_integrations.errors import InputError, ThresholdMismatchError
from fitrag_integrations.llama_index import (
    BiLabelReranker,
    CorrectiveRetriever,
    FitRagRetriever,
    ITRGRetriever,
    KnowledgeRefiner,
    KnowledgeRouterQueryEngine,
    KnowledgeSelector,
    MethodQueryEngine,
    MethodRetriever,
    SubDocumentCompressor,
    TraceHandler,
)


class Tuned(ScriptedLLM):
    """Answer under a name."""

    @property
    def metadata(self):
        return LLMMetadata(model_name="tuned")


@pytest.fixture
def folder(tmp_path):
    return write_fitted(tmp_path / "fitted")


def test_each_drop_in_takes_what_is_its_own(folder):
    llm, base = Tuned(), NodeRetriever()
    retriever = FitRagRetriever.from_fitted(folder, base=base, llm=llm, scorer=OverlapScorer())
    assert (retriever.top_n, retriever.weight, retriever.max_tokens) == (4, 0.25, 75)
    assert retriever.gate.threshold == 0.4
    assert BiLabelReranker.from_fitted(folder, llm=llm).top_n == 4
    assert SubDocumentCompressor.from_fitted(folder, llm=llm).max_tokens == 75
    assert CorrectiveRetriever.from_fitted(folder, base=base).thresholds.upper == 0.6
    refiner = KnowledgeRefiner.from_fitted(folder, llm=llm)
    assert (refiner.threshold, refiner.sentences) == (-0.5, 3)
    assert KnowledgeSelector.from_fitted(folder, llm=llm).threshold == 0.4
    engine = RetrieverQueryEngine.from_args(base, llm=llm)
    assert KnowledgeRouterQueryEngine.from_fitted(folder, llm=llm, retrieve=engine).llm is llm


def test_whole_methods_answer_as_they_were_fitted(tmp_path):
    folder = write_fitted(tmp_path, recipe=PLAIN, gate="")
    engine = MethodQueryEngine.from_fitted(folder, llm=Tuned(), retriever=NodeRetriever())
    engine.query(QUESTIONS[0])
    assert "in a few words" in engine.last_run.value.prompt
    assert (
        len(MethodRetriever.from_fitted(folder, base=NodeRetriever()).retrieve(QUESTIONS[0])) == 3
    )


def test_what_does_not_fit_is_refused(folder, tmp_path):
    with pytest.raises(ThresholdMismatchError, match="fitted for 'tuned', given 'Scripted"):
        FitRagRetriever.from_fitted(folder, base=NodeRetriever(), llm=ScriptedLLM())
    with pytest.raises(InputError, match="retrievers, rerankers"):
        ITRGRetriever.from_fitted(folder, base=NodeRetriever(), llm=Tuned())
    plain = write_fitted(tmp_path / "plain", recipe=PLAIN, gate="")
    with pytest.raises(InputError, match="the retriever alone with k=3"):
        FitRagRetriever.from_fitted(plain, base=NodeRetriever())


def test_traces_are_written(tmp_path):
    path, root = tmp_path / "traces.jsonl", get_dispatcher()
    handler = TraceHandler(path)
    root.add_event_handler(handler)
    try:
        retriever = FitRagRetriever(NodeRetriever(), scorer=OverlapScorer(), top_n=2)
        retriever.retrieve(QUESTIONS[0])
        retriever.retrieve_many(list(QUESTIONS[1:]))
    finally:
        root.event_handlers.remove(handler)
    rows = list(map(json.loads, path.read_text().splitlines()))
    assert [row["question"] for row in rows] == list(QUESTIONS)
    assert all(row["method"] == "fitrag" and row["tokens"] > 0 for row in rows)
