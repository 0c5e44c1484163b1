"""SearXNG against a local server that speaks its JSON."""

import asyncio
import gzip
import json
import tracemalloc

import pytest
from scripted_server import HANG, drip, serving

from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.flow import run
from fitrag_integrations.ports import Ports
from fitrag_integrations.web import SearchHit, SearchProvider, SearxngSearch, WebSearch


def found(*results, **more):
    return 200, {"query": "q", "results": list(results), "unresponsive_engines": [], **more}


OTTERS = {
    "url": "https://otters.example/",
    "title": "Otters",
    "content": "Otters hold hands.",
    "engine": "duckduckgo",
    "score": 1.5,
    "parsed_url": ["https", "otters.example", "/", "", "", ""],
}
HIT = SearchHit(
    "Otters",
    "https://otters.example/",
    "Otters hold hands.",
    {"engine": "duckduckgo", "score": 1.5},
)


def searxng(server, **options):
    return SearxngSearch(server.url, **{"wait": 0.0, **options})


def test_results_come_as_hits_and_options_are_sent():
    options = {"language": "en", "categories": ["general", "science"], "engines": ["wikipedia"]}
    with serving(found(OTTERS)) as server:
        assert searxng(server, **options).hits(["otters & co"]) == [[HIT]]
    assert server.asked == [
        {
            "q": "otters & co",
            "format": "json",
            "language": "en",
            "categories": "general,science",
            "engines": "wikipedia",
        }
    ]
    assert isinstance(searxng(server), SearchProvider)


def test_what_was_not_chosen_is_left_to_the_instance():
    with serving(found(OTTERS)) as server:
        searxng(server).hits(["otters"])
    assert server.asked == [{"q": "otters", "format": "json"}]


def test_missing_fields_are_empty_and_nothing_found_is_an_empty_list():
    with serving(found({"url": "https://a.example/", "content": None}, "odd"), found()) as server:
        assert searxng(server).hits(["q"]) == [[SearchHit("", "https://a.example/", "")]]
        assert searxng(server).hits(["q"]) == [[]]


def test_failing_engines_count_only_where_no_other_found_anything():
    failed = {"unresponsive_engines": [["google", "Suspended: too many requests"]]}
    with serving(found(OTTERS, **failed), found(**failed)) as server:
        assert searxng(server).hits(["q"]) == [[HIT]]
        (answer,) = searxng(server).hits(["q"])
    assert answer.kind == "quota" and "google Suspended: too many requests" in str(answer)
    with serving(found(unresponsive_engines=[["bing", "timeout"]])) as server:
        (answer,) = searxng(server, tries=2).hits(["q"])
    assert answer.kind == "transient" and len(server.asked) == 2


@pytest.mark.parametrize(
    ("reply", "kind", "told"),
    [
        ((403, b"<html>Forbidden</html>"), "auth", "add 'json' to search.formats"),
        ((429, b"", {"Retry-After": "60"}), "quota", "limiter.*try again after 60 s"),
        ((429, b""), "quota", "limiter refuses more calls$"),
        ((404, b""), "auth", "base_url is the address of its start page"),
        ((401, b""), "auth", "answered 401: it refuses the call"),
        ((301, b"", {"Location": "https://new.example/"}), "auth", "redirects to 'https://new"),
        ((200, b"<html>log in</html>"), "auth", "not in JSON"),
        ((200, [1, 2]), "auth", "not in JSON"),
        ((502, b""), "transient", "answered 502"),
    ],
)
def test_a_refusal_is_told_in_plain_words(reply, kind, told):
    with serving(reply) as server:
        (answer,) = searxng(server, tries=1).hits(["q"])
    assert isinstance(answer, SearchError) and answer.kind == kind
    with pytest.raises(SearchError, match=told):
        raise answer


def test_a_passing_fault_is_tried_again_and_a_refusal_is_not():
    with serving((500, b""), (503, b""), found(OTTERS)) as server:
        assert searxng(server).hits(["q"]) == [[HIT]]
    assert len(server.asked) == 3
    with serving((403, b"")) as server:
        searxng(server).hits(["q"])
    assert len(server.asked) == 1


def test_a_server_that_hangs_or_is_gone_is_a_passing_fault():
    with serving(HANG) as server:
        (answer,) = searxng(server, timeout=0.1, tries=2).hits(["q"])
    assert answer.kind == "transient" and "Timeout" in str(answer)
    (answer,) = searxng(server, tries=1).hits(["q"])
    assert answer.kind == "transient" and "ConnectError" in str(answer)


def test_each_query_gets_its_own_answer_in_order_and_one_may_fail():
    def reply(asked):
        title = asked["q"]
        return b"no json" if title == "q3" else {"results": [{**OTTERS, "title": title}]}

    with serving((200, reply)) as server:
        answers = searxng(server).hits([f"q{i}" for i in range(12)])
    titles = [None if isinstance(a, Exception) else a[0].title for a in answers]
    assert titles == [None if i == 3 else f"q{i}" for i in range(12)]


def test_it_serves_one_loop_after_another_and_inside_one():
    with serving(found(OTTERS)) as server:
        provider = searxng(server)
        for _ in range(2):
            assert asyncio.run(provider.ahits(["q"])) == [[HIT]]

        async def inside():
            return provider.hits(["q"])

        assert asyncio.run(inside()) == [[HIT]]


def test_given_bare_as_a_port_it_finds_passages():
    with serving(found(OTTERS)) as server:
        ((passage,),) = run(Ports(search=searxng(server)).search.ask(["q"])).value
    assert passage.text == "Otters hold hands." and passage.source == OTTERS["url"]
    assert passage.metadata["provider"] == "searxng"
    assert passage.metadata["engine"] == "duckduckgo"


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8888", "ftp://host/", "http://", "http://host?x=1", "http://host:0", None]
    + ["http://user:hush@host/", "http://[::1"],
)
def test_a_wrong_address_is_refused_without_showing_a_password(url):
    with pytest.raises(InputError, match="base_url") as caught:
        SearxngSearch(url)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"tries": 0}, {"at_once": 0}, {"engines": "bing"}, {"language": 1}]
)
def test_wrong_options_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        SearxngSearch("http://127.0.0.1:8888", **options)


@pytest.mark.parametrize(
    "reply",
    [
        {"results": 5},
        {"results": {"a": 1}},
        {"results": [[OTTERS]], "unresponsive_engines": 7},
        {"results": None, "unresponsive_engines": []},
    ],
)
def test_a_reply_of_another_shape_is_no_result(reply):
    with serving((200, reply)) as server:
        assert searxng(server, tries=1).hits(["q"]) == [[]]


def test_engines_of_another_shape_are_told_all_the_same():
    with serving((200, {"unresponsive_engines": [5, ["bing", 1]]})) as server:
        (answer,) = searxng(server, tries=1).hits(["q"])
    assert answer.kind == "transient" and "5; bing 1" in str(answer)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"results": ' + b"[" * 200_000,
        b'{"results": [' + b"[]," * 500_001 + b"1]}",
        b"\xff\xfe{",
    ],
)
def test_a_reply_that_cannot_be_read_is_told(body):
    with serving((200, body)) as server:
        (answer,) = searxng(server, tries=1).hits(["q"])
    assert answer.kind == "auth" and "not in JSON" in str(answer)


def test_metadata_nested_beyond_reading_is_this_querys_own_error():
    deep: dict = {}
    for _ in range(3_000):
        deep = {"a": deep}

    class Provider:
        def hits(self, queries):
            return [
                [SearchHit("t", "https://a.example/", "words", {"deep": deep})] for _ in queries
            ]

    (answer,) = WebSearch(Provider()).search(["q"])
    assert isinstance(answer, SearchError)


def test_a_bomb_is_not_unpacked():
    bomb = gzip.compress(b"0" * 300_000_000)
    tracemalloc.start()
    with serving((200, bomb, {"Content-Encoding": "gzip"})) as server:
        (answer,) = searxng(server, tries=1).hits(["q"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert answer.kind == "blocked" and "more than its size allows" in str(answer)
    assert peak < 60_000_000


def test_a_packed_reply_is_read():
    reply = gzip.compress(json.dumps({"results": [OTTERS]}).encode())
    with serving((200, reply, {"Content-Encoding": "gzip"})) as server:
        assert searxng(server).hits(["q"]) == [[HIT]]


def test_a_reply_that_drips_ends_with_the_calls_time():
    with serving(drip) as server:
        (answer,) = searxng(server, timeout=0.5, tries=1).hits(["q"])
    assert answer.kind == "transient" and "did not answer" in str(answer)
