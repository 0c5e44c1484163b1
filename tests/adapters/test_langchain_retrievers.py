"""FitRagRetriever, MethodRetriever and CompressingRetriever."""

import asyncio
import json

import pytest
from fakes import QUESTIONS, OverlapScorer
from langchain_core.language_models import FakeListChatModel
from langchain_core.load import dumpd
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_fakes import OverlapBase

from fitrag_integrations import langchain as lc
from fitrag_integrations.errors import InputError
from fitrag_integrations.types import Context, Excerpt

QUESTION = QUESTIONS[0]


def fitrag(**fields):
    given = {"base": OverlapBase(), "scorer": OverlapScorer(), "max_tokens": 60, "window": 1}
    return lc.FitRagRetriever(**{**given, **fields})


def searching(question, ports):
    """Search for the question and for what the model writes about it."""
    (query,) = yield from ports.generate.ask([f"write about {question}"])
    found = yield from ports.search.ask([question, query])
    pages = [page for pages in found for page in pages]
    return Context(question, tuple(map(Excerpt.whole, pages)), (query,), method="searching")


async def test_a_batch_asks_the_base_once():
    base = OverlapBase()
    fitrag(base=base).batch(list(QUESTIONS))
    await fitrag(base=base).abatch(list(QUESTIONS))
    assert base.batches == [3, 3]
    assert (fitrag(base=base) | RunnableLambda(len)).batch(list(QUESTIONS))
    assert base.batches == [3, 3, 3]  # also as a step of a chain


async def test_k_is_a_field_and_an_argument():
    retriever = fitrag(max_tokens=None, k=2)
    assert len(retriever.invoke(QUESTION)) == 2
    assert len(retriever.invoke(QUESTION, k=3)) == 3
    assert len(await retriever.ainvoke(QUESTION, k=1)) == 1
    assert [len(found) for found in retriever.batch(list(QUESTIONS), k=1)] == [1, 1, 1]
    assert [len(found) for found in await retriever.abatch(list(QUESTIONS), k=1)] == [1, 1, 1]
    with pytest.raises(InputError, match="k` must be"):
        retriever.invoke(QUESTION, k=0)


def test_a_base_is_checked_also_when_it_is_set_later():
    retriever = fitrag()
    with pytest.raises(ValueError, match="`base` must be a Runnable or a callable, got 3"):
        retriever.base = 3
    assert isinstance(retriever.base, OverlapBase)
    retriever.base = lambda query: []
    assert retriever.invoke(QUESTION) == []


async def test_a_deadline_is_kept():
    retriever = fitrag(base=OverlapBase(seconds=5.0))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(retriever.ainvoke(QUESTION), 0.2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(retriever.abatch(list(QUESTIONS)), 0.2)


def test_models_and_bases_stay_out_of_what_is_written():
    retriever = fitrag()
    assert not {"base", "scorer", "gate"} & retriever.model_dump().keys()
    assert dumpd(retriever)["kwargs"]["base"]["type"] == "not_implemented"
    metadata = [document.metadata for document in retriever.invoke(QUESTION)]
    assert json.loads(json.dumps(metadata)) == metadata


@tool
def search_tool(query: str) -> list[dict]:
    """Search."""
    return [{"title": query, "url": f"http://x/{len(query)}", "snippet": f"about {query}"}]


async def test_a_method_may_search_and_write():
    retriever = lc.MethodRetriever(
        base=OverlapBase(),
        method=searching,
        search=search_tool,
        llm=FakeListChatModel(responses=["keywords"] * 9),
    )
    found = await retriever.ainvoke(QUESTION)
    assert len(found) == 2
    assert found[1].page_content == "about keywords"
    assert found.context.queries == ("keywords",)
    assert len(await retriever.abatch(list(QUESTIONS))) == 3


async def test_compressors_apply_in_order():
    scorer = OverlapScorer()
    reranker = lc.BiLabelReranker(top_n=2, scorer=scorer)
    compressor = lc.SubDocumentCompressor(window=1, scorer=scorer)
    retriever = lc.CompressingRetriever(base=OverlapBase(), compressors=[reranker, compressor])
    found = retriever.invoke(QUESTION)
    reranked = reranker.compress_documents(OverlapBase().invoke(QUESTION), QUESTION)
    assert found == compressor.compress_documents(reranked, QUESTION)
    assert await retriever.ainvoke(QUESTION) == found
    assert retriever.invoke(QUESTION, k=1) == found[:1] == await retriever.ainvoke(QUESTION, k=1)
    assert retriever.batch(list(QUESTIONS))[0] == found
    assert found[0].metadata["retrieval_score"] == 0.75
    shown = "[BiLabelReranker, SubDocumentCompressor]"
    assert repr(retriever) == f"CompressingRetriever(base=OverlapBase, compressors={shown})"
