"""A search port over any provider or tool: order, pages, snippets, failures, and real async."""

import asyncio
import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from fitrag_integrations.errors import InputError, PortError, SearchError
from fitrag_integrations.flow import arun_many, run
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.web import SearchHit, SearchProvider, WebSearch


def hit(name, snippet="", host="example.org"):
    return SearchHit(name.title(), f"https://{host}/{name}", snippet)


def page(url, *paragraphs, final=None, title="from the page"):
    return SimpleNamespace(
        url=url,
        final_url=final or url,
        title=title,
        paragraphs=paragraphs,
        fetched_at="2026-03-04T05:06:07+00:00",
    )


class Provider:
    """Give the answers it holds, by query."""

    name = "fake"

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def hits(self, queries):
        self.asked.append(list(queries))
        return [self.answers[query] for query in queries]


class Pages:
    """Give the pages it holds, by URL; raises nothing by itself."""

    def __init__(self, *pages, **failing):
        self.pages, self.asked = {each.url: each for each in pages}, []
        self.failing = {f"https://example.org/{name}": error for name, error in failing.items()}

    async def aread(self, urls):
        self.asked.append(list(urls))
        return [self.failing.get(url) or self.pages.get(url) or page(url) for url in urls]


def texts(passages):
    return [passage.text for passage in passages]


def test_results_are_passages_labelled_as_web_and_untrusted():
    search = WebSearch(Provider(q=[hit("a", "text of a"), hit("b", "text of b")]))
    before = datetime.now(UTC).date().isoformat()
    ((first, second),) = search.search(["q"])
    assert (first.id, first.source) == ("https://example.org/a",) * 2
    assert (first.text, first.title) == ("text of a", "A")
    today = first.metadata["retrieved_at"]
    assert before <= today <= datetime.now(UTC).date().isoformat()
    assert first.metadata == {
        "web": True,
        "url": "https://example.org/a",
        "trust": "untrusted",
        "provider": "fake",
        "rank": 1,
        "retrieved_at": today,
        "snippet": True,
    }
    assert second.metadata["rank"] == 2
    json.dumps(second.to_dict())


def test_preferred_domains_come_first_and_the_rest_keeps_its_order_up_to_the_limit():
    hits = [
        hit("a", "a"),
        hit("b", "b", "en.wikipedia.org"),
        hit("c", "c", "notwikipedia.org"),
        hit("d", "d", "WIKIPEDIA.org."),
        hit("e", "e", "wikipedia.org.evil.example"),
    ]
    provider = Provider(q=hits)
    assert texts(WebSearch(provider).search(["q"])[0]) == ["b", "d", "a", "c", "e"]
    assert texts(WebSearch(provider, prefer=()).search(["q"])[0]) == ["a", "b", "c", "d", "e"]
    ((first, *_),) = WebSearch(provider).search(["q"])
    assert first.metadata["rank"] == 2  # the provider's
    hits = [hit(f"h{i}", f"text {i}") for i in range(9)] + [hit("w", "w", "wikipedia.org")]
    best = texts(WebSearch(Provider(q=hits)).search(["q"])[0])
    assert best == ["w", "text 0", "text 1", "text 2", "text 3"]
    assert len(WebSearch(Provider(q=hits), max_results=2).search(["q"])[0]) == 2


def test_a_url_counts_once_per_query_also_with_a_fragment():
    again = SearchHit("A", "https://example.org/a#part", "other words")
    answers = Provider(q=[hit("a", "one"), again, hit("a", "two")], r=[hit("a", "one")])
    first, second = WebSearch(answers).search(["q", "r"])
    assert texts(first) == texts(second) == ["one"]


def test_pages_are_read_in_one_call_each_url_once():
    provider = Provider(q=[hit("a", "sa"), hit("b", "sb")], r=[hit("b", "sb"), hit("c", "sc")])
    urls = [f"https://example.org/{name}" for name in "abc"]
    pages = Pages(*(page(url, f"page {url[-1]}", "more") for url in urls))
    first, second = WebSearch(provider, pages=pages).search(["q", "r"])
    assert pages.asked == [urls] and provider.asked == [["q", "r"]]
    assert texts(first) == ["page a\n\nmore", "page b\n\nmore"]
    assert texts(second) == ["page b\n\nmore", "page c\n\nmore"]
    assert "snippet" not in first[0].metadata
    assert first[0].metadata["retrieved_at"] == "2026-03-04"


def test_pages_that_fail_in_the_middle_shift_nothing():
    names = "abcdef"
    provider = Provider(q=[hit(name, f"snippet {name}") for name in names])
    pages = Pages(
        *(page(f"https://example.org/{name}", f"page {name}") for name in "adf"),
        b=SearchError("429 from the host", kind="quota"),
        e=TimeoutError("too slow"),
    )  # and c is read but blank
    (passages,) = WebSearch(provider, pages=pages, max_results=6).search(["q"])
    assert texts(passages) == ["page a", "snippet b", "snippet c", "page d", "snippet e", "page f"]
    assert [passage.title for passage in passages] == list("ABCDEF")
    assert [passage.source[-1] for passage in passages] == list(names)
    assert [passage.metadata.get("page_error") for passage in passages] == [
        None,
        {"kind": "quota", "message": "429 from the host"},
        {"kind": "empty", "message": "the page has no text"},
        None,
        {"kind": "transient", "message": "TimeoutError: too slow"},
        None,
    ]
    snippets = [passage.metadata.get("snippet") for passage in passages]
    assert snippets == [None, True, True, None, True, None]


def test_what_has_neither_page_nor_snippet_is_left_out_and_counted():
    provider = Provider(q=[hit("a", "sa"), hit("b", "  "), hit("c", "sc")], r=[hit("b")])
    first, second = WebSearch(provider, pages=Pages()).search(["q", "r"])
    assert texts(first) == ["sa", "sc"]
    assert [passage.metadata["left_out"] for passage in first] == [1, 1]
    assert isinstance(second, SearchError) and second.kind == "empty"
    assert "1 results, none with a text" in str(second)


def test_a_page_reader_that_breaks_leaves_the_snippets():
    class Broken:
        def __init__(self, error):
            self.error = error

        async def aread(self, urls):
            if self.error is not None:
                raise self.error
            return []

    for error, told in (
        (RuntimeError("no reader today"), "RuntimeError: no reader today"),
        (None, "ValueError"),  # it gave too few
        (ExceptionGroup("several", [OSError("no net")]), "OSError: no net"),
    ):
        ((passage,),) = WebSearch(Provider(q=[hit("a", "sa")]), pages=Broken(error)).search(["q"])
        assert passage.text == "sa" and told in passage.metadata["page_error"]["message"]


def test_a_page_error_may_fail_its_query_instead():
    pages = Pages(page("https://example.org/a", "page a"), b=SearchError("refused", kind="blocked"))
    provider = Provider(q=[hit("a", "sa")], r=[hit("b", "sb")])
    good, bad = WebSearch(provider, pages=pages, on_page_error="raise").search(["q", "r"])
    assert texts(good) == ["page a"]
    assert isinstance(bad, SearchError) and bad.kind == "blocked"


def test_redirects_and_titles_of_pages_are_told():
    untitled = SearchHit("", "https://example.org/a", "")
    pages = Pages(page(untitled.url, "text", final="https://example.org/b", title="The page"))
    ((passage,),) = WebSearch(Provider(q=[untitled]), pages=pages).search(["q"])
    assert passage.title == "The page" and passage.source == untitled.url
    assert passage.metadata["final_url"] == "https://example.org/b"


def test_web_text_is_cleaned():
    dirty = SearchHit("Ot\u200bters\n", "https://example.org/a", "hold\u202e <b>hands</b>")
    ((passage,),) = WebSearch(Provider(q=[dirty])).search(["q"])
    assert passage.title == "Otters" and passage.text == "hold hands"
    pages = Pages(page(dirty.url, "first\u200b one", " ", "second"))
    ((passage,),) = WebSearch(Provider(q=[dirty]), pages=pages).search(["q"])
    assert passage.text == "first one\n\nsecond"


def test_nothing_found_is_an_empty_list_and_an_error_is_its_querys_alone():
    spent = SearchError("no more today", kind="quota")
    search = WebSearch(Provider(q=[], r=spent, s=[hit("a", "sa")], t=3))
    nothing, failed, good, odd = search.search(["q", "r", "s", "t"])
    assert nothing == [] and failed is spent and texts(good) == ["sa"]
    assert isinstance(odd, InputError)


def test_a_provider_may_answer_in_dicts_passages_or_through_search():
    class Recorded:
        def search(self, queries):
            return [
                [Passage("p", "text", "T", "https://example.org/p", {"score": 2.0, "web": False})]
                for _ in queries
            ]

    ((passage,),) = WebSearch(Recorded()).search(["q"])
    assert (passage.text, passage.title, passage.id) == ("text", "T", "https://example.org/p")
    assert passage.metadata["score"] == 2.0 and passage.metadata["web"] is True
    dicts = [{"title": "T", "link": "https://example.org/p", "snippet": "text", "position": 3}]
    ((passage,),) = WebSearch(Provider(q=dicts)).search(["q"])
    assert passage.source == "https://example.org/p" and passage.metadata["position"] == 3


def test_wrong_queries_and_too_few_answers_are_told():
    provider = Provider(q=[])
    for queries in ("q", [""], [3]):
        with pytest.raises(InputError, match="quer"):
            WebSearch(provider).search(queries)
    assert WebSearch(provider).search([]) == [] and provider.asked == []
    with pytest.raises(PortError, match="fake got 2 queries but returned 1 answers"):
        WebSearch(SimpleNamespace(name="fake", hits=lambda queries: [[]])).search(["q", "q"])


def test_a_provider_is_known_by_its_method_and_a_search_pickles():
    assert isinstance(Provider(), SearchProvider)
    search = WebSearch(Provider(q=[hit("a", "sa")]), max_results=3)
    thawed = pickle.loads(pickle.dumps(search))
    assert thawed.max_results == 3 and texts(thawed.search(["q"])[0]) == ["sa"]
    assert SearchHit.from_dict(hit("a", "sa").to_dict()) == hit("a", "sa")


def test_the_plain_call_works_where_a_loop_is_running():
    class Async:
        async def ahits(self, queries):
            await asyncio.sleep(0)
            return [[hit("a", "sa")] for _ in queries]

    async def inside():
        return WebSearch(Async()).search(["q"])

    assert texts(asyncio.run(inside())[0]) == ["sa"]
    assert texts(run(Ports(search=WebSearch(Async())).search.ask(["q"])).value[0]) == ["sa"]


def asking(question, ports):
    """Ask the web one question and keep what it found."""
    (found,) = yield from ports.search.ask([question])
    return Context(question, tuple(Excerpt.whole(passage) for passage in found))


class Together:
    """Tool whose calls end once sixteen of them have begun, and which counts those at once."""

    def __init__(self):
        self.barrier, self.lock = threading.Barrier(16), threading.Lock()
        self.running = self.most = 0

    def __call__(self, query):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.barrier.wait(30)
        with self.lock:
            self.running -= 1
        return [{"title": query, "url": f"https://example.org/{query}", "snippet": f"on {query}"}]


class TogetherAsync(Together):
    async def __call__(self, query):
        return await asyncio.to_thread(super().__call__, query)


@pytest.mark.parametrize("kind", [Together, TogetherAsync])
async def test_searches_run_at_once_and_leave_the_loop_free(kind):
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(40))
    tool, questions = kind(), [f"q{i}" for i in range(32)]
    ports = Ports(search=WebSearch.from_tool(tool))
    found = await arun_many([asking(question, ports) for question in questions])
    assert [each.value.excerpts[0].text for each in found] == [f"on {q}" for q in questions]
    assert tool.most == 16


@pytest.mark.allow_hosts(["127.0.0.1", "127.0.0.2", "::1"])
def test_with_the_page_reader_what_the_guard_refuses_is_answered_by_its_snippet(web):
    from hostile_server import WORDS, redirect

    from fitrag_integrations.web import PageReader

    private = f"http://private.example:{web.private.port}/secret"
    site = web.site({"/c": redirect(private)})
    addresses = [
        f"http://site.example:{site.port}/good",
        "http://169.254.169.254/latest/meta-data/",
        f"http://site.example:{site.port}/c",
        "javascript:alert(1)",
        "http://[::1",
    ]
    hits = [SearchHit(f"T{i}", url, f"snippet {i}") for i, url in enumerate(addresses)]
    search = WebSearch(Provider(q=hits), pages=PageReader(web.guard(robots=False)))
    (passages,) = search.search(["q"])
    assert texts(passages) == [WORDS, "snippet 1", "snippet 2", "snippet 3", "snippet 4"]
    kinds = [passage.metadata.get("page_error", {}).get("kind") for passage in passages]
    assert kinds == [None, *["blocked"] * 4]
    assert web.private.paths() == []
