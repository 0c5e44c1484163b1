"""FitRagRetriever, MethodRetriever and CompressingRetriever."""

import asyncio
import copy
import json

import pytest
from fakes import (
    QUESTIONS,
    EnoughOf,
    FailingScorer,
    FixedGate,
    OverlapScorer,
    SyncOverlapScorer,
    longest_pause,
)
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.load import dumpd
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_core.tools import tool
from langchain_fakes import OverlapBase, documents
from pydantic import ValidationError

from fitrag_integrations.errors import InputError
from fitrag_integrations.langchain import (
    BiLabelReranker,
    CompressingRetriever,
    FitRagRetriever,
    MethodRetriever,
    SubDocumentCompressor,
)
from fitrag_integrations.langchain.base.convert import Documents
from fitrag_integrations.methods import FitRag
from fitrag_integrations.types import Context, Excerpt

QUESTION = QUESTIONS[0]


def fitrag(**fields):
    given = {"base": OverlapBase(), "scorer": OverlapScorer(), "max_tokens": 60, "window": 1}
    return FitRagRetriever(**{**given, **fields})


def searching(question, ports):
    """Search for the question and for what the model writes about it."""
    (query,) = yield from ports.generate.ask([f"write about {question}"])
    found = yield from ports.search.ask([question, query])
    pages = [page for pages in found for page in pages]
    return Context(question, tuple(map(Excerpt.whole, pages)), (query,), method="searching")


def test_it_gives_what_the_method_keeps():
    found = fitrag().invoke(QUESTION)
    assert found[0].page_content == "Nino Rota wrote the score of the film."
    told = found[0].metadata
    assert (told["source_id"], told["start_index"]) == ("amarcord", 65)
    assert found[0].id not in {each.id for each in documents()}
    assert told["year"] == 1973
    assert told["fitrag"] == "fitrag"
    assert found.context.details["max_tokens"] == 60
    assert found.context.details["tokens_out"] <= 60


async def test_a_batch_asks_base_and_scorer_once_for_all_questions():
    base, scorer = OverlapBase(), OverlapScorer()
    retriever = fitrag(base=base, scorer=scorer)
    one_by_one = [retriever.invoke(question) for question in QUESTIONS]
    scorer.batches.clear()
    assert retriever.batch(list(QUESTIONS)) == one_by_one
    assert base.batches == [3]
    assert scorer.calls == 2  # the passages of all questions, then their windows
    assert scorer.batches[0] == 18
    assert await retriever.abatch(list(QUESTIONS)) == one_by_one
    assert base.batches == [3, 3]
    assert scorer.calls == 4
    assert len(scorer.async_batches) == 2


async def test_one_question_that_fails_leaves_the_others():
    questions = list(QUESTIONS)
    for retriever, error in (
        (fitrag(base=OverlapBase(bad=questions[1])), ConnectionError),
        (fitrag(scorer=FailingScorer(questions[1])), RuntimeError),
    ):
        good = retriever.invoke(questions[0])
        for found in (
            retriever.batch(questions, return_exceptions=True),
            await retriever.abatch(questions, return_exceptions=True),
        ):
            assert [type(each) for each in found] == [Documents, error, Documents]
            assert found[0] == good
        with pytest.raises(error):
            retriever.batch(questions)
        with pytest.raises(error):
            await retriever.abatch(questions)
        with pytest.raises(error):
            await retriever.ainvoke(questions[1])


async def test_k_is_a_field_and_an_argument():
    retriever = fitrag(max_tokens=None, k=2)
    assert len(retriever.invoke(QUESTION)) == 2
    assert len(retriever.invoke(QUESTION, k=3)) == 3
    assert len(await retriever.ainvoke(QUESTION, k=1)) == 1
    assert [len(found) for found in retriever.batch(list(QUESTIONS), k=1)] == [1, 1, 1]
    assert [len(found) for found in await retriever.abatch(list(QUESTIONS), k=1)] == [1, 1, 1]
    with pytest.raises(InputError, match="k: given 0"):
        retriever.invoke(QUESTION, k=0)


async def test_empty_batches_and_empty_bases():
    assert fitrag().batch([]) == []
    assert await fitrag().abatch([]) == []
    scorer = OverlapScorer()
    nothing = fitrag(base=RunnableLambda(lambda _: []), scorer=scorer)
    assert nothing.invoke(QUESTION) == []
    assert scorer.calls == 0


def test_a_gate_that_knows_the_answer_retrieves_nothing():
    base, gate = OverlapBase(), FixedGate(0.9)
    retriever = fitrag(base=base, gate=gate)
    assert retriever.batch(list(QUESTIONS)) == [[], [], []]
    assert gate.batches == [3]
    assert base.batches == []
    assert fitrag(gate=FixedGate(0.1)).invoke(QUESTION)


def test_fields_reach_the_method():
    assert len(fitrag(max_tokens=None, top_n=1).invoke(QUESTION)) == 1
    assert len(fitrag(max_tokens=None, detector=EnoughOf(2)).invoke(QUESTION)) == 2
    spans = fitrag(split=lambda text: [(0, len(text))] if text else [], max_tokens=None)
    assert spans.invoke(QUESTION)[0].page_content == documents()[0].page_content


def test_fields_are_configurable_at_call_time():
    retriever = fitrag(max_tokens=None).configurable_fields(top_n=ConfigurableField(id="n"))
    assert len(retriever.invoke(QUESTION)) == 6
    assert len(retriever.with_config(configurable={"n": 2}).invoke(QUESTION)) == 2
    changed = fitrag(max_tokens=None)
    changed.top_n = 1
    assert len(changed.invoke(QUESTION)) == 1


@pytest.mark.parametrize("question", [None, 3])
async def test_a_bad_question_is_told(question):
    with pytest.raises(InputError, match="question"):
        fitrag().invoke(question)
    with pytest.raises(InputError, match="question"):
        await fitrag().ainvoke(question)
    found = fitrag().batch([question, QUESTION], return_exceptions=True)
    assert [type(each) for each in found] == [InputError, Documents]


@pytest.mark.parametrize("answer", ["text", None, ["text"], {"a": 1}])
def test_a_base_that_gives_no_documents_is_told(answer):
    retriever = fitrag(base=RunnableLambda(lambda _: answer))
    with pytest.raises(InputError, match="documents"):
        retriever.invoke(QUESTION)
    found = retriever.batch([QUESTION, QUESTIONS[1]], return_exceptions=True)
    assert [type(each) for each in found] == [InputError, InputError]


def test_inputs_are_unchanged_and_reprs_short():
    given = documents()
    before = copy.deepcopy(given)
    retriever = fitrag(base=lambda _: given, max_tokens=800)
    retriever.invoke(QUESTION)
    assert given == before
    assert repr(fitrag(max_tokens=800)) == (
        "FitRagRetriever(base=OverlapBase, scorer=OverlapScorer, window=1, max_tokens=800)"
    )


async def test_64_at_once_equal_one_by_one():
    retriever = fitrag(base=OverlapBase(seconds=0.002), scorer=SyncOverlapScorer(0.001))
    questions = [f"{QUESTIONS[i % 3]} {i}" for i in range(64)]
    expected = [fitrag().invoke(question) for question in questions]
    found = await asyncio.gather(*map(retriever.ainvoke, questions))
    assert found == expected


@pytest.mark.parametrize("how", ["ainvoke", "abatch"])
async def test_the_event_loop_is_not_held(how):
    scorer = SyncOverlapScorer(0.4)
    retriever = fitrag(scorer=scorer)
    asked = QUESTION if how == "ainvoke" else list(QUESTIONS)
    _, pause = await longest_pause(getattr(retriever, how)(asked))
    assert scorer.calls == 2
    assert pause < 0.3


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


async def async_search(query):
    return search_tool.invoke(query)


class Provider:
    def search(self, queries):
        from fitrag_integrations.langchain.base.convert import to_pages

        return [to_pages(search_tool.invoke(query)) for query in queries]


@pytest.mark.parametrize(
    "search", [search_tool, search_tool.invoke, async_search, Provider(), RunnableLambda(str)]
)
async def test_a_method_may_search_and_write(search):
    retriever = MethodRetriever(
        base=OverlapBase(),
        method=searching,
        search=search,
        llm=FakeListChatModel(responses=["keywords"] * 9),
    )
    found = await retriever.ainvoke(QUESTION)
    assert len(found) == 2
    assert found[1].page_content in {"about keywords", "keywords"}
    assert found.context.queries == ("keywords",)
    assert len(await retriever.abatch(list(QUESTIONS))) == 3


def test_a_failed_search_reaches_its_own_question_only():
    def search(query):
        if "Danube" in query:
            raise TimeoutError("no answer")
        return [Document(page_content=query)]

    retriever = MethodRetriever(
        base=OverlapBase(), method=searching, search=search, llm=RunnableLambda(lambda _: "words")
    )
    found = retriever.batch(list(QUESTIONS), return_exceptions=True)
    assert [type(each) for each in found] == [Documents, TimeoutError, Documents]


def test_the_method_retriever_equals_its_own_class():
    method = FitRag(OverlapScorer(), max_tokens=60, window=1)
    general = MethodRetriever(base=OverlapBase(), method=method)
    assert general.invoke(QUESTION) == fitrag().invoke(QUESTION)
    assert repr(general) == "MethodRetriever(base=OverlapBase, method=FitRag)"


async def test_compressors_apply_in_order():
    scorer = OverlapScorer()
    reranker = BiLabelReranker(top_n=2, scorer=scorer)
    compressor = SubDocumentCompressor(window=1, scorer=scorer)
    retriever = CompressingRetriever(base=OverlapBase(), compressors=[reranker, compressor])
    found = retriever.invoke(QUESTION)
    reranked = reranker.compress_documents(OverlapBase().invoke(QUESTION), QUESTION)
    assert found == compressor.compress_documents(reranked, QUESTION)
    assert await retriever.ainvoke(QUESTION) == found
    assert retriever.invoke(QUESTION, k=1) == found[:1] == await retriever.ainvoke(QUESTION, k=1)
    assert retriever.batch(list(QUESTIONS))[0] == found
    assert found[0].metadata["retrieval_score"] == 0.75
    shown = "[BiLabelReranker, SubDocumentCompressor]"
    assert repr(retriever) == f"CompressingRetriever(base=OverlapBase, compressors={shown})"


def test_a_compressing_retriever_takes_compressors_only():
    with pytest.raises(ValidationError, match="compressors"):
        CompressingRetriever(base=OverlapBase(), compressors=[object()])
    assert CompressingRetriever(base=OverlapBase(), compressors=[]).invoke(QUESTION)
