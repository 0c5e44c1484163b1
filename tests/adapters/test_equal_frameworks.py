"""Both frameworks over the same stand-ins: equal excerpts, equal traces."""

import asyncio

import pytest
from fakes import (
    PASSAGES,
    QUESTIONS,
    EnoughOf,
    FixedGate,
    LongestWordReader,
    OverlapRetriever,
    OverlapScorer,
)
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_fakes import NodeRetriever, ScriptedLLM, node

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.methods import FitRag

SETTINGS = [
    {},
    {"top_n": 2, "window": 1},
    {"max_tokens": 60},
    {"weight": 0.0, "window": 2, "stride": 2},
    {"detector": EnoughOf(2)},
    {"gate": FixedGate(0.25)},
    {"gate": FixedGate(0.75)},
]


def document(passage):
    metadata = {**passage.metadata, "title": passage.title, "source": passage.source}
    return Document(passage.text, id=passage.id, metadata={**metadata, "retrieval_score": 0.5})


def documents(question):
    return [document(passage) for passage in OverlapRetriever().best(question)]


def told(metadata, text, start):
    """Give what both frameworks must agree on, of one excerpt."""
    names = ("relevance_score", "raw_score", "has_answer", "llm_prefer", "retrieval_score")
    names += ("source_id", "source_start", "source_end")
    return (text, start, *(metadata.get(name) for name in names), metadata["fitrag"])


def of_documents(found):
    return [told(d.metadata, d.page_content, d.metadata["start_index"]) for d in found]


def of_nodes(found):
    return [told(n.metadata, n.text, n.node.start_char_idx) for n in found]


def steps(traced):
    return [(step.port, step.count) for step in traced.steps]


def excerpts(context):
    return [(e.passage.id, e.text, e.start, e.end, e.score, e.labels) for e in context.excerpts]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("question", QUESTIONS)
def test_retrievers_give_equal_excerpts(settings, question):
    one = langchain.FitRagRetriever(
        base=RunnableLambda(documents), scorer=OverlapScorer(), **settings
    )
    other = llama_index.FitRagRetriever(base=NodeRetriever(), scorer=OverlapScorer(), **settings)
    found = of_nodes(other.retrieve(question))
    assert of_documents(one.invoke(question)) == found
    assert of_documents(asyncio.run(one.ainvoke(question))) == found
    assert of_nodes(asyncio.run(other.aretrieve(question))) == found


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_batches_give_equal_excerpts_in_equal_calls(settings):
    scorers = OverlapScorer(), OverlapScorer()
    one = langchain.FitRagRetriever(base=RunnableLambda(documents), scorer=scorers[0], **settings)
    other = llama_index.FitRagRetriever(base=NodeRetriever(), scorer=scorers[1], **settings)
    found = [*map(of_nodes, other.retrieve_many(QUESTIONS))]
    assert [*map(of_documents, one.batch(list(QUESTIONS)))] == found
    assert scorers[0].batches == scorers[1].batches


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("question", QUESTIONS)
def test_traces_are_equal(settings, question):
    method = FitRag(OverlapScorer(), **settings)
    runnable = langchain.MethodRunnable(method=method, retriever=RunnableLambda(documents))
    one = runnable.invoke(question)
    retriever = llama_index.MethodRetriever(NodeRetriever(), method=method)
    (other,) = retriever.trace_many([question])
    (again,) = asyncio.run(retriever.atrace_many([question]))
    assert steps(one) == steps(other) == steps(again)
    assert excerpts(one.value) == excerpts(other.value) == excerpts(again.value)
    assert one.value.to_dict()["details"] == other.value.to_dict()["details"]


@pytest.mark.parametrize("settings", [{"top_n": 3}, {"weight": 1.0}], ids=str)
def test_rerankers_give_equal_scores(settings):
    one = langchain.BiLabelReranker(scorer=OverlapScorer(), **settings)
    other = llama_index.BiLabelReranker(scorer=OverlapScorer(), **settings)
    kept = one.compress_documents([*map(document, PASSAGES)], QUESTIONS[0])
    found = other.postprocess_nodes([*map(node, PASSAGES)], query_str=QUESTIONS[0])
    assert [(d.id, d.page_content, d.metadata["relevance_score"]) for d in kept] == [
        (n.node_id, n.text, n.score) for n in found
    ]


@pytest.mark.parametrize("settings", [{}, {"max_tokens": 60, "window": 1}], ids=str)
def test_compressors_give_equal_excerpts(settings):
    one = langchain.SubDocumentCompressor(scorer=OverlapScorer(), **settings)
    other = llama_index.SubDocumentCompressor(scorer=OverlapScorer(), **settings)
    kept = one.compress_documents([*map(document, PASSAGES)], QUESTIONS[0])
    found = other.postprocess_nodes([*map(node, PASSAGES)], query_str=QUESTIONS[0])
    assert of_documents(kept) == of_nodes(found)


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_equal(question):
    method, llm = FitRag(OverlapScorer()), ScriptedLLM()
    write = RunnableLambda(lambda prompt: llm.complete(prompt).text)
    for models in ({"reader": LongestWordReader()}, {}):
        runnable = langchain.MethodRunnable(
            method=method, retriever=RunnableLambda(documents), llm=write, **models
        )
        engine = llama_index.MethodQueryEngine(method, NodeRetriever(), llm=llm, **models)
        one, other = runnable.invoke(question), engine.query(question)
        report = other.metadata["fitrag"]
        assert str(one) == other.response
        assert [(s["port"], s["count"]) for s in report["steps"]] == steps(one.traced)
        assert one.score == report["answer"]["score"]
    assert llm.prompts[0] == llm.prompts[1]
