"""CRAG's retriever, refiner and web search, in both frameworks and in every way of asking."""

import asyncio
import json

import pytest
from decision_fakes import ACTIONS, OverlapEvaluator, PageSearch
from fakes import PASSAGES, QUESTIONS
from frameworks import BOTH, told
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.errors import SearchError, ThresholdMismatchError
from fitrag_integrations.types import Passage
from fitrag_integrations.web import WebSearch

CORRECT = QUESTIONS[0]
AMBIGUOUS = "Who baked bread for the emperor?"
INCORRECT = "When does the ferry to Corran Head leave?"
THREE = (CORRECT, AMBIGUOUS, INCORRECT)
URL = "https://ferries.example/"
PAGE = "The ferry to Corran Head leaves at noon."
HIT = {"title": "Ferries", "url": URL, "snippet": PAGE}
QUOTA = SearchError("the quota is spent", kind="quota")


def corrective(framework, **fields):
    made = {"base": framework.base(), "evaluator": OverlapEvaluator(), "search": PageSearch()}
    return framework.ours.CorrectiveRetriever(**{**made, **fields})


def web(framework, search=None, **fields):
    return framework.ours.WebSearchRetriever(search=search or PageSearch(), **fields)


def refiner(framework, **fields):
    return framework.ours.KnowledgeRefiner(**{"evaluator": OverlapEvaluator(), **fields})


def text_of(source):
    return next(passage.text for passage in PASSAGES if passage.id == source)


async def test_what_is_correct_is_refined_without_the_web(framework):
    search = PageSearch()
    pieces, context = await framework.in_every_way(corrective(framework, search=search), CORRECT)
    assert search.queries == []
    assert (context.action, context.method) == ("correct", "crag")
    assert context.details["thresholds"] == ACTIONS.to_dict()
    assert pieces[0].metadata["source_id"] == "amarcord"
    assert len({piece.id for piece in pieces}) == len(pieces)
    for piece in pieces:
        source = text_of(piece.metadata["source_id"])
        assert source[piece.start : piece.start + len(piece.text)] == piece.text
        assert type(piece.metadata["relevance_score"]) is float
        assert piece.metadata["retrieval_score"] == 0.5 and "web" not in piece.metadata


async def test_what_is_incorrect_comes_from_the_web(framework):
    (piece, *_), context = await framework.in_every_way(corrective(framework), INCORRECT)
    assert (piece.text, piece.start) == (PAGE, 0)
    assert [piece.metadata[name] for name in ("web", "url", "trust")] == [True, URL, "untrusted"]
    assert json.loads(json.dumps(piece.metadata)) == piece.metadata
    assert (context.action, context.queries) == ("incorrect", (INCORRECT,))


async def test_what_is_ambiguous_comes_from_both(framework):
    made = corrective(framework, strip_threshold=-1.0)
    pieces, context = await framework.in_every_way(made, AMBIGUOUS)
    assert context.action == "ambiguous"
    marked = [piece.metadata.get("web", False) for piece in pieces]
    assert marked == sorted(marked) and set(marked) == {False, True}


async def test_a_failed_search_degrades_in_the_open_or_is_raised(framework):
    _, context = await framework.in_every_way(
        corrective(framework, search=PageSearch(error=QUOTA)), INCORRECT
    )
    told = {"kind": "quota", "message": "the quota is spent"}
    assert context.details["web_error"] == told
    assert any("the web search failed (quota)" in note for note in context.notes)
    strict = corrective(framework, search=PageSearch(error=QUOTA), on_web_error="raise")
    with pytest.raises(SearchError):
        framework.ask(strict, INCORRECT)
    with pytest.raises(SearchError):
        await framework.aask(strict, INCORRECT)


async def test_without_a_search_what_is_bad_is_kept_with_a_note(framework):
    pieces, context = await framework.in_every_way(corrective(framework, search=None), INCORRECT)
    assert pieces
    assert "no search port was given: the web was not searched" in context.notes


@tool
def web_tool(query: str) -> str:
    """Search the web."""
    return json.dumps([HIT])


async def coroutine(query):
    return [HIT]


LANGCHAIN, LLAMA_INDEX = BOTH
SEARCHES = {
    "tool": (LANGCHAIN, web_tool),
    "callable": (LANGCHAIN, lambda query: [HIT]),
    "runnable": (LANGCHAIN, RunnableLambda(lambda q: [Document(PAGE, metadata={"source": URL})])),
    "retriever": (LANGCHAIN, langchain.WebSearchRetriever(search=PageSearch())),
    "ours": (LANGCHAIN, WebSearch.from_tool(lambda query: [HIT])),
    "dicts": (LLAMA_INDEX, lambda query: [HIT]),
    "LlamaIndex's tool": (
        LLAMA_INDEX,
        FunctionTool.from_defaults(lambda query: [HIT], name="search", description="Searches."),
    ),
    "node": (
        LLAMA_INDEX,
        lambda query: NodeWithScore(node=TextNode(id_="n", text=PAGE, metadata={"url": URL})),
    ),
    "LlamaIndex's retriever": (LLAMA_INDEX, llama_index.WebSearchRetriever(PageSearch())),
    "json": (LLAMA_INDEX, lambda query: json.dumps({"results": [{"url": URL, "body": PAGE}]})),
}


@pytest.mark.parametrize("name", SEARCHES)
async def test_anything_may_search(name):
    framework, search = SEARCHES[name]
    for made in (corrective(framework, search=search), web(framework, search)):
        ((piece, *_), _) = await framework.in_every_way(made, INCORRECT)
        assert piece.text.startswith(PAGE)
        assert (piece.metadata["web"], piece.metadata["url"]) == (True, URL)
        assert piece.metadata["trust"] == "untrusted"


async def test_a_coroutine_may_search(framework):
    found = await framework.aask(corrective(framework, search=coroutine), INCORRECT)
    assert framework.pieces(found)[0].metadata["url"] == URL


async def test_a_model_writes_the_keywords(framework):
    llm = framework.says("ferry, Corran, timetable")
    _, context = await framework.in_every_way(corrective(framework, llm=llm), INCORRECT)
    assert context.queries == ("ferry, Corran, timetable",)
    assert context.details["rewrite"] == "llm"
    made = corrective(framework, llm=llm, without=["rewrite"])
    _, context = await framework.in_every_way(made, INCORRECT)
    assert context.queries == (INCORRECT,)


async def test_a_batch_makes_joined_calls(framework):
    questions = THREE * 4
    alone = [framework.pieces(framework.ask(corrective(framework), each)) for each in questions]
    for is_async in (False, True):
        evaluator, search = OverlapEvaluator(), PageSearch()
        made = corrective(framework, evaluator=evaluator, search=search)
        many = framework.amany(made, questions) if is_async else framework.many(made, questions)
        found = await many if is_async else many
        assert [framework.pieces(each) for each in found] == alone
        assert search.batches == [8]
        assert evaluator.batches[0] == 12 * 4
        assert len(evaluator.batches) == 3  # passages, strips of the correct, strips of the rest
    search = PageSearch()
    assert len(framework.many(web(framework, search), QUESTIONS)) == 3
    assert len(await framework.amany(web(framework, search), QUESTIONS)) == 3
    assert search.batches == [3, 3]


@pytest.mark.parametrize("together", [False, True])
async def test_searches_run_side_by_side(framework, together):
    meeting = asyncio.Barrier(8)

    async def search(query):
        await meeting.wait()  # nobody is answered before eight have asked
        return [HIT]

    made, questions = corrective(framework, search=search), [INCORRECT + "?" * n for n in range(32)]
    async with asyncio.timeout(60):
        found = await (
            framework.amany(made, questions)
            if together
            else asyncio.gather(*(framework.aask(made, question) for question in questions))
        )
    assert len(found) == 32 and all(found)


def test_thresholds_of_another_evaluator_are_refused(framework):
    with pytest.raises(ThresholdMismatchError):
        corrective(framework, thresholds="popqa")
    with pytest.raises(ValueError, match="thresholds"):
        corrective(framework, evaluator=OverlapEvaluator(thresholds=None))
    assert framework.ask(corrective(framework, thresholds="popqa", allow_other_model=True), CORRECT)


# --- KnowledgeRefiner


@pytest.mark.parametrize(
    "settings", [{}, {"top_n": 1}, {"threshold": -1.0, "top_n": None}, {"max_tokens": 40}], ids=str
)
async def test_refiners_of_both_keep_equal_strips(settings):
    for question in (*QUESTIONS, *THREE[1:]):
        found = [told(await each.kept(refiner(each, **settings), question)) for each in BOTH]
        assert found[0] == found[1]


async def test_strips_come_in_document_order(framework):
    made = refiner(framework, top_n=3, sentences=1, threshold=-1)
    pieces = await framework.kept(made, CORRECT)
    assert [piece.text for piece in pieces] == [
        "Amarcord is a film by Federico Fellini.",
        "Nino Rota wrote the score of the film.",
        "The film is set in a small town by the sea.",
    ]
    for piece in pieces:
        assert PASSAGES[0].text[piece.start :].startswith(piece.text)
        assert (piece.metadata["source_id"], piece.metadata["fitrag"]) == ("amarcord", "refine")
    found = framework.keep(made, framework.given(), CORRECT)
    details = framework.context(made, found).details
    assert (details["strips"], details["kept"], details["strip_threshold"]) == (15, 3, -1.0)
    turned = await framework.kept(
        refiner(framework, threshold=-1), CORRECT, framework.given(PASSAGES[::-1])
    )
    ids = [passage.id for passage in PASSAGES[::-1]]
    places = [(ids.index(piece.metadata["source_id"]), piece.start) for piece in turned]
    assert places == sorted(places) and len({place for place, _ in places}) > 1
    assert len(await framework.kept(refiner(framework, sentences=1), CORRECT)) == 2


def test_the_best_strip_stays_where_none_passes(framework):
    made = refiner(framework, threshold=1.0)
    found = framework.keep(made, framework.given(), INCORRECT)
    assert len(found) == 1
    assert "none of" in framework.context(made, found).notes[-1]


async def test_a_web_page_is_cut_at_its_paragraphs(framework):
    text = f"{PAGE}\n\nThis site sets no cookies."
    page = Passage("page", text, "Ferries", URL, {"web": True, "url": URL})
    made = refiner(framework, top_n=None, threshold=-1)
    pieces = await framework.kept(made, INCORRECT, framework.given([page]))
    assert [piece.text for piece in pieces] == text.split("\n\n")
    assert pieces[0].metadata["web"] is True


# --- WebSearchRetriever


async def test_web_pages_say_where_they_are_from(framework):
    (piece,), context = await framework.in_every_way(web(framework), INCORRECT)
    assert piece.text.startswith(PAGE)
    told = {"url": URL, "title": "Ferries", "web": True, "trust": "untrusted"}
    assert {**told, "fitrag": "web_search"}.items() <= piece.metadata.items()
    assert "relevance_score" not in piece.metadata
    assert context.queries == (INCORRECT,)
    assert context.details == {"rewrite": "question", "web_results": 1, "page_errors": {}}


async def test_a_web_search_that_fails_raises(framework):
    broken = web(framework, PageSearch(error=QUOTA))
    with pytest.raises(SearchError, match="the quota is spent"):
        framework.ask(broken, INCORRECT)
    with pytest.raises(SearchError, match="the quota is spent"):
        await framework.aask(broken, INCORRECT)
    assert framework.ask(web(framework, lambda query: []), INCORRECT) == []
