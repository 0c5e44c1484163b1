"""Tools of either framework, and plain functions, as search providers."""

import asyncio
import contextvars
import json
import threading
from functools import partial
from types import SimpleNamespace

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import Tool, tool
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool, ToolOutput

from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.web import WebSearch
from fitrag_integrations.web.search import SearchHit, hits_of

URL = "https://otters.example/"
RESULT = {"title": "Otters", "url": URL, "snippet": "Otters hold hands."}
HIT = SearchHit("Otters", URL, "Otters hold hands.")
THREADS = []


def plain(query):
    THREADS.append(threading.get_ident())
    return [RESULT]


async def coroutine(query):
    THREADS.append(threading.get_ident())
    return [RESULT]


class Called:
    async def __call__(self, query):
        return await coroutine(query)


class Retriever(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("Otters hold hands.", metadata={"title": "Otters", "source": URL})]


@tool
def langchain_sync(query: str) -> list:
    """Search the web."""
    return plain(query)


@tool
async def langchain_async(query: str) -> str:
    """Search the web."""
    return json.dumps({"results": await coroutine(query)})


def nodes(query: str) -> list:
    node = TextNode(text="Otters hold hands.", metadata={"title": "Otters", "url": URL})
    return [NodeWithScore(node=node, score=0.5)]


async def llama_async(query: str) -> list:
    return await coroutine(query)


TOOLS = {
    "function": plain,
    "coroutine function": coroutine,
    "partial": partial(coroutine),
    "async callable": Called(),
    "langchain tool": langchain_sync,
    "langchain async tool": langchain_async,
    "langchain Tool": Tool("web", plain, "Search the web."),
    "runnable": RunnableLambda(plain),
    "retriever": Retriever(),
    "llama_index tool": FunctionTool.from_defaults(nodes),
    "llama_index async tool": FunctionTool.from_defaults(async_fn=llama_async),
}


@pytest.mark.parametrize("name", TOOLS)
def test_every_kind_of_tool_will_do_sync_and_async(name):
    search = WebSearch.from_tool(TOOLS[name])
    THREADS.clear()

    async def both():
        loop = threading.get_ident()
        return loop, await search.asearch(["otters?", "again"])

    loop, found = asyncio.run(both())
    for (passage,) in [*found, *search.search(["otters?", "again"])]:
        assert (passage.title, passage.source) == ("Otters", URL)
        assert passage.text == "Otters hold hands."
    if name in ("function", "langchain tool", "langchain Tool", "runnable"):
        assert THREADS and loop not in THREADS  # what has no async side stays off the loop's thread
    if TOOLS[name] is coroutine:
        assert THREADS[:2] == [loop, loop]


def test_a_tool_is_known_by_its_own_name():
    assert WebSearch.from_tool(TOOLS["langchain Tool"]).name == "web"
    assert WebSearch.from_tool(TOOLS["llama_index tool"]).name == "nodes"
    assert WebSearch.from_tool(plain).name == "plain"
    assert WebSearch.from_tool(Called()).name == "Called"


def test_a_query_that_fails_leaves_the_others():
    def moody(query):
        if query == "bad":
            raise RuntimeError("no")
        return [RESULT]

    good, bad, again = WebSearch.from_tool(moody).search(["good", "bad", "again"])
    assert len(good) == len(again) == 1 and isinstance(bad, RuntimeError)


def test_context_variables_reach_the_tool():
    who = contextvars.ContextVar("who", default="nobody")

    def asked(query):
        return [who.get()]

    who.set("somebody")
    search = WebSearch.from_tool(asked)
    for found in (search.search(["q", "r"]), asyncio.run(search.asearch(["q", "r"]))):
        assert [passages[0].text for passages in found] == ["somebody"] * 2


def test_at_once_bounds_the_calls():
    for at_once in (1, 3):
        now, most, lock = [], [], threading.Lock()
        gate = threading.Barrier(at_once)

        def busy(query, now=now, most=most, lock=lock, gate=gate):
            with lock:
                now.append(query)
                most.append(len(now))
            gate.wait(5)
            with lock:
                now.remove(query)
            return [RESULT]

        found = WebSearch.from_tool(busy, at_once=at_once).search([f"q{i}" for i in range(6)])
        assert max(most) == at_once
        assert not [each for each in found if isinstance(each, Exception)]


@pytest.mark.parametrize(
    "found",
    [
        [HIT],
        RESULT,
        [RESULT],
        {"results": [RESULT]},
        {"organic": [{"title": "Otters", "link": URL, "snippet": "Otters hold hands."}]},
        json.dumps([RESULT]),
        iter([RESULT]),
        Document("Otters hold hands.", metadata={"title": "Otters", "source": URL}),
        [Document("Otters hold hands.", metadata={"snippet": "no", "title": "Otters", "url": URL})],
        SimpleNamespace(results=[SimpleNamespace(title="Otters", url=URL, text=HIT.snippet)]),
        SimpleNamespace(tool_call_id="1", status="success", content=json.dumps([RESULT])),
        ToolOutput(content="", tool_name="t", raw_input={}, raw_output=[RESULT]),
        ToolOutput(content=json.dumps([RESULT]), tool_name="t", raw_input={}, raw_output=None),
        NodeWithScore(node=TextNode(text=HIT.snippet, metadata={"title": "Otters", "url": URL})),
    ],
)
def test_results_are_read_whatever_they_are_called(found):
    (hit,) = hits_of(found)
    assert (hit.title, hit.url, hit.snippet) == ("Otters", URL, "Otters hold hands.")


def test_other_words_of_the_service_are_kept():
    (hit,) = hits_of([{**RESULT, "score": 0.9, "published": "2020"}])
    assert hit.metadata == {"score": 0.9, "published": "2020"}


def test_texts_are_results_without_an_address():
    assert hits_of("Otters hold hands.") == [SearchHit("", "", "Otters hold hands.")]
    assert hits_of(" ") == hits_of([]) == hits_of("[]") == []


@pytest.mark.parametrize(
    "found",
    [
        {"error": "401 Unauthorized"},
        {"error": ValueError("no key"), "results": []},
        ToolOutput(content="401", tool_name="t", raw_input={}, raw_output=None, is_error=True),
        SimpleNamespace(tool_call_id="1", status="error", content="401"),
    ],
)
def test_an_error_that_a_tool_reports_is_no_result(found):
    with pytest.raises(SearchError, match="401|no key"):
        hits_of(found)


@pytest.mark.parametrize("found", [None, 3, [3], [None]])
def test_anything_else_is_refused(found):
    with pytest.raises(InputError, match="search result"):
        hits_of(found)
