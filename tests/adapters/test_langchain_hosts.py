"""Hosts of LangChain run these components unmodified."""

import pytest
from fakes import QUESTIONS, OverlapScorer
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_fakes import OverlapBase, Recorder, documents

from fitrag_integrations.langchain import BiLabelReranker, FitRagRetriever, SubDocumentCompressor

QUESTION = QUESTIONS[0]


def fitrag():
    return FitRagRetriever(base=OverlapBase(), scorer=OverlapScorer(), window=1, top_n=3)


def best_of(retriever):
    return retriever.invoke(QUESTION)[0].page_content


@pytest.fixture
def classic():
    return pytest.importorskip("langchain_classic.retrievers")


@pytest.fixture
def compressors():
    return pytest.importorskip("langchain_classic.retrievers.document_compressors")


async def test_contextual_compression_retriever(classic):
    recorder = Recorder()
    reranker = BiLabelReranker(top_n=2, scorer=OverlapScorer())
    retriever = classic.ContextualCompressionRetriever(
        base_retriever=OverlapBase(), base_compressor=reranker
    )
    found = retriever.invoke(QUESTION, {"callbacks": [recorder]})
    base = OverlapBase().invoke(QUESTION)
    assert found == reranker.compress_documents(base, QUESTION)
    assert await retriever.ainvoke(QUESTION) == found
    (run,) = recorder.named("BiLabelReranker")
    assert recorder.parent_of(run) == "ContextualCompressionRetriever"


async def test_document_compressor_pipeline(classic, compressors):
    recorder, scorer = Recorder(), OverlapScorer()
    reranker = BiLabelReranker(top_n=2, scorer=scorer)
    compressor = SubDocumentCompressor(window=1, scorer=scorer)
    pipeline = compressors.DocumentCompressorPipeline(transformers=[reranker, compressor])
    found = pipeline.compress_documents(documents(), QUESTION, callbacks=[recorder])
    reranked = reranker.compress_documents(documents(), QUESTION)
    assert found == compressor.compress_documents(reranked, QUESTION)
    assert await pipeline.acompress_documents(documents(), QUESTION) == found
    assert len(recorder.named("SubDocumentCompressor")) == 1


def test_the_stock_cross_encoder_reranker(compressors):
    reranker = BiLabelReranker(scorer=OverlapScorer())
    stock = compressors.CrossEncoderReranker(model=reranker.as_cross_encoder(), top_n=3)
    given = [Document(page_content=each.page_content) for each in documents()]
    expected = reranker.compress_documents(given, QUESTION)[:3]
    found = stock.compress_documents(given, QUESTION)
    assert [each.page_content for each in found] == [each.page_content for each in expected]


async def test_a_chain_with_pipes():
    prompt = ChatPromptTemplate.from_template("{context} -- {question}")
    chain = (
        RunnableParallel(context=fitrag(), question=RunnablePassthrough())
        | prompt
        | RunnableLambda(lambda value: value.to_string())
    )
    text = chain.invoke(QUESTION)
    assert "Nino Rota wrote the score" in text
    assert text.endswith(f"-- {QUESTION}")
    assert await chain.ainvoke(QUESTION) == text
    assert chain.batch(list(QUESTIONS))[0] == text


def test_retries_and_fallbacks():
    failing = FitRagRetriever(base=OverlapBase(bad=QUESTION), scorer=OverlapScorer(), window=1)
    assert best_of(failing.with_fallbacks([fitrag()])) == best_of(fitrag())
    calls = []

    def shaky(question):
        calls.append(question)
        if len(calls) < 2:
            raise ConnectionError
        return documents()

    retried = FitRagRetriever(base=shaky, scorer=OverlapScorer(), window=1)
    assert retried.with_retry(wait_exponential_jitter=False).invoke(QUESTION)
    assert len(calls) == 2
