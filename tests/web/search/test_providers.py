"""SearXNG against a local server that speaks its schema."""

import asyncio
import gc
import gzip
import json
import sys

import pytest
from scripted_server import HANG, drip, serving

from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.flow import run
from fitrag_integrations.ports import Ports
from fitrag_integrations.web import (
    SearchHit,
    SearchProvider,
    SearxngSearch,
    WebSearch,
)

TEXTS = "Otters", "https://otters.example/", "Otters hold hands."
OTTERS = {
    "url": TEXTS[1],
    "title": TEXTS[0],
    "content": TEXTS[2],
    "engine": "duckduckgo",
    "score": 1.5,
    "parsed_url": ["https", "otters.example", "/", "", "", ""],
}
HIT = SearchHit(*TEXTS, {"engine": "duckduckgo", "score": 1.5})
BROKEN, SPENT = (503, b""), (429, b"")


def results(*given, **more):
    return 200, {"query": "q", "results": list(given), "unresponsive_engines": [], **more}


ONE = results(OTTERS)


def provider(server, **options):
    return SearxngSearch(server.url, **{"wait": 0.0, **options})


def test_searxng_sends_what_was_chosen():
    options = {"language": "en", "categories": ["general", "science"], "engines": ["wikipedia"]}
    sent = {"language": "en", "categories": "general,science", "engines": "wikipedia"}
    with serving(ONE) as server:
        for chosen in (options, {}):
            search = provider(server, **chosen)
            assert search.hits(["otters & co"]) == [[HIT]]
    asked = {"q": "otters & co", "format": "json"}
    assert server.asked == [{**asked, **sent}, asked]
    assert isinstance(search, SearchProvider)


BARE = [SearchHit("", "https://a.example/", "")]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (results(), []),
        (results({"url": "https://a.example/", "content": None}, "odd"), BARE),
        ((200, {"results": 5}), []),
        ((200, {"results": {"a": 1}}), []),
        ((200, {"results": [[OTTERS]], "unresponsive_engines": 7}), []),
        ((200, {"results": None, "unresponsive_engines": []}), []),
        (results(OTTERS, unresponsive_engines=[["bing", "x"]]), [HIT]),
    ],
)
def test_missing_fields_are_empty_and_nothing_found_is_an_empty_list(reply, expected):
    with serving(reply) as server:
        assert provider(server, tries=1).hits(["q"]) == [expected]


def packed(body, encoding="gzip", end=None):
    return 200, gzip.compress(body, mtime=0)[:end], {"Content-Encoding": encoding}


LARGE = packed(b" " * 60_000_000), packed(b" " * 60_000_000, "deflate"), (200, b" " * 21_000_000)
CUT = {"tries": 1}
FAILURES = [
    *((body, CUT, "blocked", ".") for body in LARGE),
    (packed(b"{}", end=-9), CUT, "transient", "."),
    ((403, b"<html>Forbidden</html>"), CUT, "auth", "add 'json' to search.formats"),
    ((429, b"", {"Retry-After": "60"}), CUT, "quota", "limiter.*again after 60 s"),
    ((429, b""), CUT, "quota", "limiter refuses more calls$"),
    ((404, b""), CUT, "auth", "base_url is the address of its start page"),
    ((401, b""), CUT, "auth", "answered 401: it refuses the call"),
    (
        (301, b"", {"Location": "https://new.x/"}),
        CUT,
        "auth",
        "redirects to 'https://new",
    ),
    *(
        ((200, body), CUT, "auth", "not in JSON")
        for body in (b"<html>log in</html>", [1, 2], b"[" * 200_000, b"\xff\xfe{")
    ),
    ((200, b'{"results": ' + b"[" * 200_000), CUT, "auth", "not in JSON"),
    ((200, b'{"results": [' + b"[]," * 500_001 + b"1]}"), CUT, "auth", "not in JSON"),
    ((502, b""), CUT, "transient", "answered 502"),
    (HANG, {"timeout": 0.1, "tries": 2}, "transient", "Timeout"),
    (drip, {"timeout": 0.5, **CUT}, "transient", "did not answer"),
    (
        results(unresponsive_engines=[["google", "Suspended: too many requests"]]),
        CUT,
        "quota",
        "google Suspended: too many requests",
    ),
    (results(unresponsive_engines=[5, ["bing", 1]]), CUT, "transient", "5; bing 1"),
]


@pytest.mark.parametrize(("reply", "options", "error", "told"), FAILURES)
def test_a_failure_is_told_in_plain_words(reply, options, error, told):
    with serving(reply) as server:
        (answer,) = provider(server, **options).hits(["q"])
    assert isinstance(answer, SearchError) and answer.kind == error
    with pytest.raises(SearchError, match=told):
        raise answer
    assert len(server.asked) == options["tries"] or reply is HANG


def test_a_reply_in_another_encoding_leaves_no_connection_open():
    with serving(packed(b"{}", "deflate")) as server:
        (answer,) = provider(server, **CUT).hits(["q"])
    assert "encoding" in str(answer)
    gc.collect()  # warns of a socket that is still open, and a warning fails the test


def test_a_passing_fault_is_tried_again_and_a_refusal_is_not():
    for replies, tries, asked in (((BROKEN, BROKEN, ONE), 3, 3), ((BROKEN,), 2, 2)):
        with serving(*replies) as server:
            (answer,) = provider(server, tries=tries).hits(["q"])
        assert len(server.asked) == asked
        assert answer == [HIT] if tries == 3 else answer.kind == "transient"
    with serving(SPENT) as server:
        provider(server).hits(["q"])
    assert len(server.asked) == 1


def test_a_packed_reply_is_read_and_a_server_that_is_gone_is_a_passing_fault():
    with serving(packed(json.dumps(ONE[1]).encode())) as server:
        assert provider(server).hits(["q"]) == [[HIT]]
    (answer,) = provider(server, tries=1).hits(["q"])
    assert answer.kind == "transient" and "did not answer" in str(answer)


def test_each_query_gets_its_own_answer_in_order_and_one_may_fail():
    def reply(asked):
        title = asked["q"]
        if title == "q3":
            return b"no json"
        return results({"title": title})[1]

    with serving((200, reply)) as server:
        answers = provider(server, tries=1).hits([f"q{i}" for i in range(20)])
    titles = [None if isinstance(a, Exception) else a[0].title for a in answers]
    assert titles == [None if i == 3 else f"q{i}" for i in range(20)]


def test_it_serves_one_loop_after_another_and_inside_one():
    with serving(ONE) as server:
        search = provider(server)
        for _ in range(2):
            assert asyncio.run(search.ahits(["q"])) == [[HIT]]

        async def inside():
            return search.hits(["q"])

        assert asyncio.run(inside()) == [[HIT]]


async def test_async_does_not_block_the_loop():
    with serving(HANG) as server:
        asking = asyncio.create_task(provider(server, timeout=0.3, tries=1).ahits(["q"]))
        turns = 0
        while not asking.done():
            turns += 1
            await asyncio.sleep(0.01)
        (answer,) = await asking
    assert answer.kind == "transient" and turns > 3


def test_given_bare_as_a_port_it_finds_passages():
    with serving(ONE) as server:
        ((passage,),) = run(Ports(search=provider(server)).search.ask(["q"])).value
    assert (passage.title, passage.source, passage.text) == TEXTS
    assert (passage.metadata["provider"], passage.metadata["rank"]) == ("searxng", 1)
    assert passage.metadata.get("engine") == HIT.metadata.get("engine")


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8888", "ftp://host/", "http://", "http://host?x=1", "http://host:0", None]
    + ["http://user:hush@host/", "http://[::1"],
)
def test_a_wrong_address_is_refused_without_showing_a_password(url):
    with pytest.raises(InputError, match="base_url") as caught:
        SearxngSearch(url)
    assert "hush" not in str(caught.value)


def test_metadata_nested_beyond_reading_is_this_querys_own_error():
    deep: dict = {}
    for _ in range(3 * sys.getrecursionlimit()):  # a library may have raised it
        deep = {"a": deep}

    class Provider:
        def hits(self, queries):
            return [[SearchHit(*TEXTS, {"deep": deep})] for _ in queries]

    (answer,) = WebSearch(Provider()).search(["q"])
    assert isinstance(answer, SearchError)
