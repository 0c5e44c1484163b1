"""Google's Custom Search and SearXNG against a local server that speaks their schemas."""

import asyncio
import copy
import gc
import gzip
import json
import logging
import pickle
import sys
import traceback
import warnings
from datetime import date

import pytest
from google_server import (
    BAD_KEY,
    BROKEN,
    CLOSED,
    ECHO,
    KEY,
    NOTHING,
    SPENT,
    SPENT_403,
    found,
    refused,
)
from scripted_server import HANG, drip, serving

from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.flow import run
from fitrag_integrations.ports import Ports
from fitrag_integrations.web import (
    GoogleSearch,
    SearchHit,
    SearchProvider,
    SearxngSearch,
    WebSearch,
)
from fitrag_integrations.web.google import notice

TEXTS = "Otters", "https://otters.example/", "Otters hold hands."
OTTERS = {
    "url": TEXTS[1],
    "title": TEXTS[0],
    "content": TEXTS[2],
    "engine": "duckduckgo",
    "score": 1.5,
    "parsed_url": ["https", "otters.example", "/", "", "", ""],
}
HITS = {
    "google": SearchHit(*TEXTS),
    "searxng": SearchHit(*TEXTS, {"engine": "duckduckgo", "score": 1.5}),
}


def results(*given, **more):
    return 200, {"query": "q", "results": list(given), "unresponsive_engines": [], **more}


ONE = {"google": found(TEXTS), "searxng": results(OTTERS)}


def provider(kind, server=None, **options):
    options = {"wait": 0.0, **options}
    if kind == "searxng":
        return SearxngSearch(server.url, **options)
    with pytest.warns(FutureWarning, match="2027-01-01"):
        return GoogleSearch(KEY, "engine", endpoint=server and server.url, **options)


both = pytest.mark.parametrize("kind", HITS)


def test_google_sends_the_key_in_a_header():
    with serving(ONE["google"]) as server:
        search = provider("google", server, max_results=7)
        assert search.hits(["otters?"]) == [[HITS["google"]]]
    assert server.asked == [{"q": "otters?", "cx": "engine", "num": "7", "alt": "json"}]
    assert server.headers[0]["x-goog-api-key"] == KEY
    assert isinstance(search, SearchProvider)


def test_searxng_sends_what_was_chosen():
    options = {"language": "en", "categories": ["general", "science"], "engines": ["wikipedia"]}
    sent = {"language": "en", "categories": "general,science", "engines": "wikipedia"}
    with serving(ONE["searxng"]) as server:
        for chosen in (options, {}):
            search = provider("searxng", server, **chosen)
            assert search.hits(["otters & co"]) == [[HITS["searxng"]]]
    asked = {"q": "otters & co", "format": "json"}
    assert server.asked == [{**asked, **sent}, asked]
    assert isinstance(search, SearchProvider)


BARE = [SearchHit("", "https://a.example/", "")]


@pytest.mark.parametrize(
    ("kind", "reply", "expected"),
    [
        ("google", NOTHING, []),
        ("google", found((None, "https://a.example/", None)), BARE),
        ("searxng", results(), []),
        ("searxng", results({"url": "https://a.example/", "content": None}, "odd"), BARE),
        ("searxng", (200, {"results": 5}), []),
        ("searxng", (200, {"results": {"a": 1}}), []),
        ("searxng", (200, {"results": [[OTTERS]], "unresponsive_engines": 7}), []),
        ("searxng", (200, {"results": None, "unresponsive_engines": []}), []),
        ("searxng", results(OTTERS, unresponsive_engines=[["bing", "x"]]), [HITS["searxng"]]),
    ],
)
def test_missing_fields_are_empty_and_nothing_found_is_an_empty_list(kind, reply, expected):
    with serving(reply) as server:
        assert provider(kind, server, tries=1).hits(["q"]) == [expected]


def packed(body, encoding="gzip", end=None):
    return 200, gzip.compress(body, mtime=0)[:end], {"Content-Encoding": encoding}


LARGE = packed(b" " * 60_000_000), packed(b" " * 60_000_000, "deflate"), (200, b" " * 21_000_000)
NO_SCHEMA = "not answer in JSON of its schema"
CUT = {"tries": 1}
FAILURES = [
    ("google", CLOSED, CUT, "auth", "came too late.*2027-01-01.*SearxngSearch"),
    ("google", BAD_KEY, CUT, "auth", "answered 400: API key not valid"),
    ("google", SPENT, CUT, "quota", "answered 429: Quota exceeded.*quota is spent"),
    ("google", SPENT_403, CUT, "quota", "answered 403: Daily Limit Exceeded"),
    ("google", refused(404, "Not found.", "notFound"), CUT, "auth", "answered 404"),
    ("google", (302, b"", {"Location": "https://other.example/"}), CUT, "auth", "answered 302"),
    *(("google", (200, body), CUT, "transient", NO_SCHEMA) for body in (b"<html>", [1])),
    ("google", HANG, {"timeout": 0.1, "tries": 2}, "transient", "Timeout"),
    ("google", drip, {"timeout": 0.5, **CUT}, "transient", "no whole answer in time"),
    *((kind, body, CUT, "blocked", ".") for body in LARGE for kind in ("google", "searxng")),
    ("google", packed(b"{}", end=-9), CUT, "transient", "."),
    *(
        ("google", (status, b'{"items": ' + inside), CUT, "transient", NO_SCHEMA)
        for status in (200, 403, 500)  # a reply that takes far more memory than its bytes
        for inside in (b"[" * 100_000, b"[]," * 500_001)
    ),
    ("searxng", (403, b"<html>Forbidden</html>"), CUT, "auth", "add 'json' to search.formats"),
    ("searxng", (429, b"", {"Retry-After": "60"}), CUT, "quota", "limiter.*again after 60 s"),
    ("searxng", (429, b""), CUT, "quota", "limiter refuses more calls$"),
    ("searxng", (404, b""), CUT, "auth", "base_url is the address of its start page"),
    ("searxng", (401, b""), CUT, "auth", "answered 401: it refuses the call"),
    (
        "searxng",
        (301, b"", {"Location": "https://new.x/"}),
        CUT,
        "auth",
        "redirects to 'https://new",
    ),
    *(
        ("searxng", (200, body), CUT, "auth", "not in JSON")
        for body in (b"<html>log in</html>", [1, 2], b"[" * 200_000, b"\xff\xfe{")
    ),
    ("searxng", (200, b'{"results": ' + b"[" * 200_000), CUT, "auth", "not in JSON"),
    ("searxng", (200, b'{"results": [' + b"[]," * 500_001 + b"1]}"), CUT, "auth", "not in JSON"),
    ("searxng", (502, b""), CUT, "transient", "answered 502"),
    ("searxng", HANG, {"timeout": 0.1, "tries": 2}, "transient", "Timeout"),
    ("searxng", drip, {"timeout": 0.5, **CUT}, "transient", "did not answer"),
    (
        "searxng",
        results(unresponsive_engines=[["google", "Suspended: too many requests"]]),
        CUT,
        "quota",
        "google Suspended: too many requests",
    ),
    ("searxng", results(unresponsive_engines=[5, ["bing", 1]]), CUT, "transient", "5; bing 1"),
]


@pytest.mark.parametrize(("kind", "reply", "options", "error", "told"), FAILURES)
def test_a_failure_is_told_in_plain_words(kind, reply, options, error, told):
    with serving(reply) as server:
        (answer,) = provider(kind, server, **options).hits(["q"])
    assert isinstance(answer, SearchError) and answer.kind == error and KEY not in str(answer)
    with pytest.raises(SearchError, match=told):
        raise answer
    assert len(server.asked) == options["tries"] or reply is HANG


def test_a_reply_in_another_encoding_leaves_no_connection_open():
    with serving(packed(b"{}", "deflate")) as server:
        (answer,) = provider("google", server, **CUT).hits(["q"])
    assert "encoding" in str(answer)
    gc.collect()  # warns of a socket that is still open, and a warning fails the test


@both
def test_a_passing_fault_is_tried_again_and_a_refusal_is_not(kind):
    for replies, tries, asked in (((BROKEN, BROKEN, ONE[kind]), 3, 3), ((BROKEN,), 2, 2)):
        with serving(*replies) as server:
            (answer,) = provider(kind, server, tries=tries).hits(["q"])
        assert len(server.asked) == asked
        assert answer == [HITS[kind]] if tries == 3 else answer.kind == "transient"
    with serving(SPENT) as server:
        provider(kind, server).hits(["q"])
    assert len(server.asked) == 1


@both
def test_a_packed_reply_is_read_and_a_server_that_is_gone_is_a_passing_fault(kind):
    with serving(packed(json.dumps(ONE[kind][1]).encode())) as server:
        assert provider(kind, server).hits(["q"]) == [[HITS[kind]]]
    (answer,) = provider(kind, server, tries=1).hits(["q"])
    assert answer.kind == "transient" and "did not answer" in str(answer)


@both
def test_each_query_gets_its_own_answer_in_order_and_one_may_fail(kind):
    def reply(asked):
        title = asked["q"]
        if title == "q3":
            return b"no json"
        return found((title, *TEXTS[1:]))[1] if kind == "google" else results({"title": title})[1]

    with serving((200, reply)) as server:
        answers = provider(kind, server, tries=1).hits([f"q{i}" for i in range(20)])
    titles = [None if isinstance(a, Exception) else a[0].title for a in answers]
    assert titles == [None if i == 3 else f"q{i}" for i in range(20)]


@both
def test_it_serves_one_loop_after_another_and_inside_one(kind):
    with serving(ONE[kind]) as server:
        search = provider(kind, server)
        for _ in range(2):
            assert asyncio.run(search.ahits(["q"])) == [[HITS[kind]]]

        async def inside():
            return search.hits(["q"])

        assert asyncio.run(inside()) == [[HITS[kind]]]


@both
async def test_async_does_not_block_the_loop(kind):
    with serving(HANG) as server:
        asking = asyncio.create_task(provider(kind, server, timeout=0.3, tries=1).ahits(["q"]))
        turns = 0
        while not asking.done():
            turns += 1
            await asyncio.sleep(0.01)
        (answer,) = await asking
    assert answer.kind == "transient" and turns > 3


@both
def test_given_bare_as_a_port_it_finds_passages(kind):
    with serving(ONE[kind]) as server:
        ((passage,),) = run(Ports(search=provider(kind, server)).search.ask(["q"])).value
    assert (passage.title, passage.source, passage.text) == TEXTS
    assert (passage.metadata["provider"], passage.metadata["rank"]) == (kind, 1)
    assert passage.metadata.get("engine") == HITS[kind].metadata.get("engine")


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


def everything_about(error):
    """Give all that a log, a report or a debugger's first look would show of an exception."""
    told = [str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)]
    for linked in (error.__cause__, error.__context__):
        told += everything_about(linked) if linked is not None else []
    return told


@pytest.mark.parametrize("reply", [ONE["google"], CLOSED, ECHO, SPENT, BROKEN, (200, b"{"), HANG])
def test_the_key_shows_nowhere(reply, caplog):
    caplog.set_level(logging.DEBUG)
    for name in list(logging.root.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)  # and back again at the end
    with serving(reply) as server:
        search = provider("google", server, timeout=0.1, tries=2)
        traced = run(Ports(search=search).search.ask(["q"]))
        (answer,) = search.hits(["q"])
    told = [repr(search), repr(WebSearch(search)), repr(vars(search)), repr(answer)]
    told += [repr(traced), traced.explain(), json.dumps(traced.to_dict(full=True))]
    told += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    told += [repr(pickle.dumps(each)) for each in (search, traced, WebSearch(search))]
    for error in (traced.error, answer if isinstance(answer, Exception) else None):
        told += everything_about(error) if error is not None else []
    assert len(caplog.records) > 0
    forms = (KEY, KEY.replace("/", "%2F").replace("+", "%2B"), KEY[5:15])
    assert not [text for text in told for form in forms if form in text]
    assert reply is not ECHO or "[hidden] is not for this" in str(answer)


def test_a_bad_key_is_refused_without_showing_it():
    for key in ("two words", "new\nline\nkey", "schlüssel", 456789):
        with pytest.raises(InputError) as caught:
            GoogleSearch(key, "engine")
        assert not [text for text in everything_about(caught.value) if str(key) in text]


def test_key_and_engine_come_from_the_environment_or_a_secret(monkeypatch):
    from pydantic import SecretStr

    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_CSE_ID", raising=False)
    with pytest.raises(InputError, match="GOOGLE_API_KEY"):
        GoogleSearch(engine_id="engine")
    with pytest.raises(InputError, match="engine_id"):
        GoogleSearch(KEY)
    monkeypatch.setenv("GOOGLE_API_KEY", "from-there")
    monkeypatch.setenv("GOOGLE_CSE_ID", "engine-2")
    with serving(ONE["google"]) as server, pytest.warns(FutureWarning):
        GoogleSearch(endpoint=server.url).hits(["q"])
        GoogleSearch(SecretStr("quiet"), "engine", endpoint=server.url).hits(["q"])
    assert [sent["x-goog-api-key"] for sent in server.headers] == ["from-there", "quiet"]
    assert [asked["cx"] for asked in server.asked] == ["engine-2", "engine"]


def test_a_copy_keeps_the_key_and_a_pickle_wants_it_from_the_environment(monkeypatch):
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with serving(ONE["google"]) as server:
        search = provider("google", server)
        copied, thawed = copy.deepcopy(search), pickle.loads(pickle.dumps(search))
        assert search == copied == thawed
        assert copied.hits(["q"]) == [[HITS["google"]]]
        (answer,) = thawed.hits(["q"])
        assert answer.kind == "auth" and "GOOGLE_API_KEY" in str(answer)
        monkeypatch.setenv("GOOGLE_API_KEY", "from-there")
        assert thawed.hits(["q"]) == [[HITS["google"]]]


def test_the_notice_has_a_date_changes_on_it_and_comes_once_per_place(monkeypatch):
    assert "closed to new customers and ends for all on 2027-01-01" in notice(date(2026, 12, 31))
    assert "ended its Custom Search JSON API on 2027-01-01" in notice(date(2027, 1, 1))
    assert "WebSearch.from_tool" in notice()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            GoogleSearch(KEY, "engine")
    assert [(each.category, each.filename) for each in caught] == [(FutureWarning, __file__)]
    monkeypatch.setattr("fitrag_integrations.web.google.ENDS", date(2020, 2, 1))
    with serving(BAD_KEY) as server, pytest.warns(FutureWarning, match="ended .* on 2020-02-01"):
        (answer,) = GoogleSearch(KEY, "engine", endpoint=server.url).hits(["q"])
    assert "ended its Custom Search JSON API on 2020-02-01" in str(answer)
