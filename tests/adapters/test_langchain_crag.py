"""CRAG's drop-ins: retriever, refiner, router, judge and web search."""

import asyncio
import json
from typing import TypedDict

import pytest
from decision_fakes import ACTIONS, OverlapEvaluator, PageSearch
from fakes import PASSAGES, QUESTIONS
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import (
    ConfigurableField,
    RouterRunnable,
    RunnableGenerator,
    RunnableLambda,
    RunnablePassthrough,
)
from langchain_core.tools import create_retriever_tool, tool
from langchain_fakes import OverlapBase, Recorder, document_of, documents
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from pydantic import ValidationError

from fitrag_integrations.errors import InputError, SearchError, ThresholdMismatchError
from fitrag_integrations.langchain import (
    CorrectiveRetriever,
    CorrectiveRouter,
    KnowledgeRefiner,
    RetrievalJudge,
    WebSearchRetriever,
)
from fitrag_integrations.langchain.base.ports import Offer
from fitrag_integrations.methods import Crag
from fitrag_integrations.methods.crag.evaluator import ActionThresholds
from fitrag_integrations.types import Passage

CORRECT, AMBIGUOUS, INCORRECT = (
    "Who wrote the score of Amarcord?",
    "Who wrote the many films of Milan?",
    "Which ferry sails to Corran Head?",
)
PAGE = "The ferry to Corran Head leaves at noon."


def retriever(**fields):
    given = {"base": OverlapBase(), "evaluator": OverlapEvaluator(), "search": PageSearch()}
    return CorrectiveRetriever(**{**given, **fields})


def about(found):
    """Tell what was decided on the run that found these documents."""
    return found.context.to_dict()


async def test_what_is_correct_is_refined_without_the_web():
    search = PageSearch()
    found = retriever(search=search).invoke(CORRECT)
    assert search.queries == []
    assert about(found)["action"] == "correct"
    assert found[0].metadata["source_id"] == "amarcord"
    assert len({each.id for each in found}) == len(found)
    for each in found:
        source = next(passage for passage in PASSAGES if passage.id == each.metadata["source_id"])
        start = each.metadata["start_index"]
        assert source.text[start : start + len(each.page_content)] == each.page_content
        assert type(each.metadata["relevance_score"]) is float
    assert about(found)["details"]["thresholds"] == ACTIONS.to_dict()
    assert about(found)["method"] == "crag"
    assert await retriever().ainvoke(CORRECT) == found


async def test_what_is_incorrect_comes_from_the_web():
    found = await retriever().ainvoke(INCORRECT)
    assert [each.page_content for each in found] == [PAGE]
    (metadata,) = [each.metadata for each in found]
    assert about(found)["action"] == "incorrect"
    assert metadata["url"] == "https://ferries.example/"
    assert (metadata["web"], metadata["trust"]) == (True, "untrusted")
    assert about(found)["queries"] == ["ferry sails, Corran Head"]
    assert retriever().invoke(INCORRECT) == found


def test_what_is_ambiguous_comes_from_both():
    found = retriever(strip_threshold=-1.0).invoke(AMBIGUOUS)
    assert about(found)["action"] == "ambiguous"
    web = [each.metadata.get("web", False) for each in found]
    assert web == sorted(web)
    assert True in web and False in web


async def test_a_failed_search_is_told_or_raised():
    error = SearchError("the quota is spent", kind="quota")
    found = retriever(search=PageSearch(error=error)).invoke(INCORRECT)
    assert about(found)["details"]["web_error"] == {
        "kind": "quota",
        "message": "the quota is spent",
    }
    assert any("the web search failed (quota)" in note for note in about(found)["notes"])
    strict = retriever(search=PageSearch(error=error), on_web_error="raise")
    with pytest.raises(SearchError):
        strict.invoke(INCORRECT)
    with pytest.raises(SearchError):
        await strict.ainvoke(INCORRECT)


def test_without_a_search_what_is_bad_is_kept_with_a_note():
    found = retriever(search=None).invoke(INCORRECT)
    assert found
    assert "no search port was given: the web was not searched" in about(found)["notes"]


@tool
def web_tool(query: str) -> str:
    """Search the web."""
    return json.dumps([{"title": "Ferries", "url": "https://ferries.example/", "snippet": PAGE}])


async def asearch(query):
    return [Document(PAGE, metadata={"source": "https://ferries.example/"})]


@pytest.mark.parametrize(
    "search",
    [
        web_tool,
        lambda query: [{"title": "Ferries", "url": "https://ferries.example/", "snippet": PAGE}],
        RunnableLambda(lambda query: [Document(PAGE, metadata={"source": "https://a.example/"})]),
        WebSearchRetriever(search=PageSearch()),
    ],
    ids=["tool", "callable", "runnable", "retriever"],
)
async def test_anything_may_search(search):
    found = retriever(search=search).invoke(INCORRECT)
    assert [each.page_content for each in found] == [PAGE]
    assert found[0].metadata["url"].startswith("https://")
    assert await retriever(search=search).ainvoke(INCORRECT) == found


async def test_a_coroutine_may_search():
    found = await retriever(search=asearch).ainvoke(INCORRECT)
    assert found[0].metadata["url"] == "https://ferries.example/"


def test_a_model_writes_the_keywords():
    search = PageSearch()
    llm = FakeListChatModel(responses=["ferry, Corran, timetable"])
    found = retriever(search=search, llm=llm).invoke(INCORRECT)
    assert search.queries == ["ferry, Corran, timetable"]
    assert about(found)["details"]["rewrite"] == "llm"
    assert about(retriever(rewrite=False).invoke(INCORRECT))["queries"] == [INCORRECT]


async def test_a_batch_makes_joined_calls():
    evaluator, search, base = OverlapEvaluator(), PageSearch(), OverlapBase()
    whole = retriever(evaluator=evaluator, search=search, base=base)
    questions = [CORRECT, AMBIGUOUS, INCORRECT] * 4
    found = whole.batch(questions)
    assert found == [retriever().invoke(question) for question in questions]
    assert (base.batches, search.batches) == ([12], [8])
    assert len(evaluator.batches) == 3  # passages, strips of the correct, strips of the rest
    assert await whole.abatch(questions) == found


class MeetingSearch(PageSearch):
    """Answer once ``count`` searches wait at the same time."""

    def __init__(self, count):
        super().__init__()
        self.meeting = asyncio.Barrier(count)

    async def asearch(self, queries):
        await self.meeting.wait()
        return self.search(queries)


async def test_32_searches_run_side_by_side():
    whole = retriever(search=MeetingSearch(32))
    async with asyncio.timeout(60):
        found = await asyncio.gather(*(whole.ainvoke(INCORRECT) for _ in range(32)))
    assert found == [retriever().invoke(INCORRECT)] * 32


def test_crag_itself_gives_the_same():
    from fitrag_integrations.flow import run

    for question in (CORRECT, AMBIGUOUS, INCORRECT):
        ports = Offer.of(OverlapBase(), PageSearch()).to({})
        context = run(Crag(OverlapEvaluator())(question, ports)).value
        found = retriever().invoke(question)
        assert [each.page_content for each in found] == [each.text for each in context.excerpts]


async def test_hosts_take_it():
    tool = create_retriever_tool(retriever(), "notes", "Find notes.")
    assert PAGE in tool.invoke({"query": INCORRECT})
    assert PAGE in await tool.ainvoke({"query": INCORRECT})
    few = retriever().configurable_fields(top_n=ConfigurableField("top_n"))
    assert len(few.invoke(CORRECT, {"configurable": {"top_n": 1}})) == 1
    failing = retriever(base=OverlapBase(bad=CORRECT))
    assert failing.with_fallbacks([retriever()]).invoke(CORRECT) == retriever().invoke(CORRECT)
    calls = []

    def shaky(question):
        calls.append(question)
        if len(calls) < 2:
            raise ConnectionError
        return documents()

    assert retriever(base=shaky).with_retry(wait_exponential_jitter=False).invoke(CORRECT)


def test_thresholds_of_another_evaluator_are_refused():
    with pytest.raises(ThresholdMismatchError):
        retriever(thresholds="popqa")
    with pytest.raises(ValidationError, match="thresholds"):
        retriever(evaluator=OverlapEvaluator(thresholds=None))
    loose = ActionThresholds(0.9, -0.9)
    assert about(retriever(thresholds=loose).invoke(CORRECT))["action"] == "ambiguous"
    assert retriever(thresholds="popqa", allow_other_model=True).invoke(CORRECT)


def test_the_ablations_are_options():
    found = retriever(without=["correct"]).invoke(CORRECT)
    assert about(found)["action"] == "ambiguous"
    whole = retriever(refine=False).invoke(CORRECT)
    assert whole[0].page_content == PASSAGES[0].text


@pytest.mark.parametrize("question", [None, 3])
def test_a_wrong_question_is_told(question):
    with pytest.raises(InputError, match="question|query"):
        retriever().invoke(question)


# --- KnowledgeRefiner


def refiner(**fields):
    return KnowledgeRefiner(**{"evaluator": OverlapEvaluator(), **fields})


async def test_strips_come_back_in_document_order():
    given = documents()[::-1]
    found = refiner(top_n=3, threshold=-1.0).compress_documents(given, CORRECT)
    assert len(found) == 3
    places = [
        (ids.index(each.metadata["source_id"]), each.metadata["start_index"])
        for ids in [[document.id for document in given]]
        for each in found
    ]
    assert places == sorted(places)
    assert about(found)["method"] == "refine"
    assert about(found)["details"]["strip_threshold"] == -1.0
    assert given == documents()[::-1]
    again = await refiner(top_n=3, threshold=-1.0).acompress_documents(given, CORRECT)
    assert again == found


def test_the_best_strip_stays_where_none_passes():
    found = refiner(threshold=1.0).compress_documents(documents(), INCORRECT)
    assert len(found) == 1
    assert "none of" in about(found)["notes"][-1]


async def test_hosts_of_compressors_take_it():
    classic = pytest.importorskip("langchain_classic.retrievers")
    hosts = pytest.importorskip("langchain_classic.retrievers.document_compressors")
    recorder = Recorder()
    host = classic.ContextualCompressionRetriever(
        base_retriever=OverlapBase(), base_compressor=refiner()
    )
    found = host.invoke(CORRECT, {"callbacks": [recorder]})
    assert found == refiner().compress_documents(OverlapBase().invoke(CORRECT), CORRECT)
    (run,) = recorder.named("KnowledgeRefiner")
    assert recorder.parent_of(run) == "ContextualCompressionRetriever"
    pipeline = hosts.DocumentCompressorPipeline(transformers=[refiner(), refiner(top_n=1)])
    assert len(await pipeline.acompress_documents(documents(), CORRECT)) == 1


def test_as_a_step_a_batch_is_one_call():
    evaluator = OverlapEvaluator()
    given = [{"documents": documents(), "query": question} for question in QUESTIONS]
    found = refiner(evaluator=evaluator).as_runnable().batch(given)
    assert len(evaluator.batches) == 1
    assert found[1] == refiner().compress_documents(documents(), QUESTIONS[1])


# --- CorrectiveRouter and RetrievalJudge


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


async def test_the_routers_stream_passes_through():
    def slowly(inputs):
        for given in inputs:
            yield from (given["action"], " ", "it is")

    routed = router(correct=RunnableGenerator(slowly), base=OverlapBase())
    assert list(routed.stream(CORRECT)) == ["correct", " ", "it is"]
    assert [
        piece async for piece in router(correct=named("x"), base=OverlapBase()).astream(CORRECT)
    ]
    chain = RunnablePassthrough() | routed
    assert list(chain.stream(CORRECT)) == ["correct", " ", "it is"]


@pytest.mark.parametrize("how", ["invoke", "abatch", "stream"])
async def test_judging_is_a_run_of_its_own(how):
    recorder = Recorder()
    routed, config = router(base=OverlapBase()), {"callbacks": [recorder]}
    if how == "abatch":
        await routed.abatch([CORRECT], config)
    else:
        found = getattr(routed, how)(CORRECT, config)
        assert list(found) if how == "stream" else found
    for name in ("OverlapBase", "RetrievalJudge", "correct"):
        (run,) = recorder.named(name)
        assert recorder.parent_of(run) == "CorrectiveRouter"
    (judged,) = recorder.named("RetrievalJudge")
    assert judged["end"]["action"] == "correct"
    assert judged["end"]["thresholds"] == ACTIONS.to_dict()
    assert recorder.named("correct")[0]["metadata"]["fitrag"] == judged["end"]


def test_the_stock_router_takes_the_action():
    key = router(base=OverlapBase(), question_key="q").as_key()
    stock = key | RouterRunnable({n: named(n) for n in ("correct", "ambiguous", "incorrect")})
    assert stock.invoke({"q": CORRECT})["branch"] == "correct"


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


@pytest.mark.parametrize(
    "given",
    [
        CORRECT,
        None,
        {"question": CORRECT},
        {"question": " "},
        {"documents": []},
        {"question": CORRECT, "documents": None},
        {"question": CORRECT, "documents": "text"},
        {"question": CORRECT, "documents": ["text"]},
    ],
)
def test_inputs_without_documents_or_question_are_told(given):
    with pytest.raises(InputError, match="input|question|documents"):
        router().invoke(given)
    with pytest.raises(InputError, match="input|question|documents"):
        RetrievalJudge(evaluator=OverlapEvaluator()).invoke(given)


def test_what_is_ambiguous_goes_with_what_is_incorrect():
    got = router(ambiguous=None, base=OverlapBase()).invoke(AMBIGUOUS)
    assert (got["branch"], got["action"]) == ("incorrect", "ambiguous")


def test_the_router_tells_of_bad_arguments():
    with pytest.raises(ValidationError, match="incorrect"):
        CorrectiveRouter(correct=len, ambiguous=len)
    with pytest.raises(ValidationError, match="thresholds"):
        router(evaluator=OverlapEvaluator(thresholds=None))
    with pytest.raises(ValidationError, match="evaluator"):
        router(evaluator=3)


# --- WebSearchRetriever


async def test_web_documents_say_where_they_are_from():
    found = WebSearchRetriever(search=PageSearch()).invoke(INCORRECT)
    (one,) = found
    assert one.page_content.startswith(PAGE)
    assert one.metadata["url"] == one.metadata["source"] == "https://ferries.example/"
    assert (one.metadata["web"], one.metadata["trust"]) == (True, "untrusted")
    assert about(found)["queries"] == [INCORRECT]
    assert await WebSearchRetriever(search=PageSearch()).ainvoke(INCORRECT) == [one]
    keywords = WebSearchRetriever(search=PageSearch(), rewrite=True)
    assert about(keywords.invoke(INCORRECT))["queries"] == ["ferry sails, Corran Head"]


async def test_a_web_search_that_fails_is_heard_of():
    error = SearchError("the key is refused", kind="auth")
    failing = WebSearchRetriever(search=PageSearch(error=error))
    with pytest.raises(SearchError):
        failing.invoke(INCORRECT)
    with pytest.raises(SearchError):
        await failing.ainvoke(INCORRECT)
    assert WebSearchRetriever(search=lambda query: []).invoke(INCORRECT) == []


def test_a_search_is_required():
    for wrong in (None, 3, PageSearch):
        with pytest.raises(ValidationError, match="search|runnable"):
            WebSearchRetriever(search=wrong)


def test_a_batch_is_one_search():
    search = PageSearch()
    WebSearchRetriever(search=search).batch(list(QUESTIONS))
    assert search.batches == [3]


# --- LangChain's own suites

PAGES = tuple(
    Passage(f"p{i}", f"Page {i} on ferries.", source=f"https://{i}.example/") for i in range(5)
)


class TestCorrectiveRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self):
        return CorrectiveRetriever

    @property
    def retriever_constructor_params(self):
        return {"base": OverlapBase(), "evaluator": OverlapEvaluator(), "strip_threshold": -1.0}

    @property
    def retriever_query_example(self):
        return CORRECT


class TestWebSearchRetriever(TestCorrectiveRetriever):
    @property
    def retriever_constructor(self):
        return WebSearchRetriever

    @property
    def retriever_constructor_params(self):
        return {"search": PageSearch(PAGES)}


def test_a_web_search_of_this_package_searches():
    from fitrag_integrations.web import WebSearch

    hits = [{"title": "Ferries", "url": "https://ferries.example/", "snippet": PAGE}]
    search = WebSearch.from_tool(lambda query: hits)
    (found,) = WebSearchRetriever(search=search).invoke(INCORRECT)
    assert (found.page_content, found.metadata["web"]) == (PAGE, True)
    assert retriever(search=search).invoke(INCORRECT)[0].page_content == PAGE


def test_documents_come_back_unchanged_and_with_their_own_metadata():
    given = [document_of(passage) for passage in PASSAGES]
    kept = retriever(base=lambda question: given).invoke(CORRECT)
    assert given == [document_of(passage) for passage in PASSAGES]
    assert kept[0].metadata["year"] == 1973


async def test_a_graph_with_an_edge_for_each_action_and_a_checkpointer():
    class State(TypedDict, total=False):
        question: str
        documents: list[Document]
        action: str
        grades: list[float]
        went: str

    graph = StateGraph(State)
    graph.add_node("retrieve", lambda state: {"documents": OverlapBase().invoke(state["question"])})
    graph.add_node("judge", RetrievalJudge(evaluator=OverlapEvaluator()))
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "judge")
    for name in ("correct", "ambiguous", "incorrect"):
        graph.add_node(name, lambda state, name=name: {"went": name})
        graph.add_edge(name, END)
    graph.add_conditional_edges("judge", lambda state: state["action"])
    saved = InMemorySaver()
    app = graph.compile(checkpointer=saved)
    for question, action in (
        (CORRECT, "correct"),
        (AMBIGUOUS, "ambiguous"),
        (INCORRECT, "incorrect"),
    ):
        thread = {"configurable": {"thread_id": question}}
        state = await app.ainvoke({"question": question}, thread)
        assert state["went"] == state["action"] == action
        restored = app.get_state(thread).values
        assert restored == state
        assert type(restored["action"]) is str
        assert {type(grade) for grade in restored["grades"]} == {float}
