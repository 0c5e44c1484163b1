"""Google's Custom Search against a local server that speaks its schema."""

import asyncio
import copy
import gzip
import json
import logging
import pickle
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
from fitrag_integrations.web import GoogleSearch, SearchHit, SearchProvider, WebSearch
from fitrag_integrations.web.google import notice

TWO = found(
    ("Otters", "https://otters.example/", "Otters hold hands."),
    ("Beavers", "https://beavers.example/", "Beavers build dams."),
)


def google(server=None, **options):
    with pytest.warns(FutureWarning, match="2027-01-01"):
        return GoogleSearch(
            KEY, "engine", endpoint=server and server.url, **{"wait": 0.0, **options}
        )


def test_results_come_as_hits_and_the_key_travels_in_a_header():
    with serving(TWO) as server:
        provider = google(server, max_results=7)
        assert provider.hits(["otters?"]) == [
            [
                SearchHit("Otters", "https://otters.example/", "Otters hold hands."),
                SearchHit("Beavers", "https://beavers.example/", "Beavers build dams."),
            ]
        ]
    assert server.asked == [{"q": "otters?", "cx": "engine", "num": "7", "alt": "json"}]
    assert server.headers[0]["x-goog-api-key"] == KEY
    assert isinstance(provider, SearchProvider)


def test_each_query_gets_its_own_answer_in_order():
    def about(asked):
        return found((asked["q"], f"https://example.org/{asked['q']}", "text"))[1]

    with serving((200, about)) as server:
        answers = google(server).hits([f"q{i}" for i in range(20)])
    assert [[hit.title for hit in hits] for hits in answers] == [[f"q{i}"] for i in range(20)]


def test_nothing_found_is_an_empty_list_and_missing_fields_are_empty():
    with serving(NOTHING, found((None, "https://a.example/", None))) as server:
        provider = google(server)
        assert provider.hits(["q"]) == [[]]
        assert provider.hits(["q"]) == [[SearchHit("", "https://a.example/", "")]]


@pytest.mark.parametrize(
    ("reply", "kind", "told"),
    [
        (CLOSED, "auth", "came too late.*2027-01-01.*SearxngSearch"),
        (BAD_KEY, "auth", "answered 400: API key not valid"),
        (SPENT, "quota", "answered 429: Quota exceeded.*quota is spent"),
        (SPENT_403, "quota", "answered 403: Daily Limit Exceeded"),
        (refused(404, "Requested entity was not found.", "notFound"), "auth", "answered 404"),
        ((302, b"", {"Location": "https://elsewhere.example/"}), "auth", "answered 302"),
        ((200, b"<html>hello</html>"), "transient", "not answer in JSON"),
        ((200, [1]), "transient", "not answer in JSON"),
    ],
)
def test_a_refusal_is_told_in_plain_words(reply, kind, told):
    with serving(reply) as server:
        (answer,) = google(server, tries=1).hits(["q"])
    assert isinstance(answer, SearchError) and answer.kind == kind
    with pytest.raises(SearchError, match=told):
        raise answer
    assert len(server.asked) == 1


def test_a_passing_fault_is_tried_again():
    with serving(BROKEN, BROKEN, TWO) as server:
        (hits,) = google(server).hits(["q"])
    assert len(hits) == 2 and len(server.asked) == 3


def test_a_lasting_fault_ends_after_the_last_try_and_a_refusal_after_the_first():
    with serving(BROKEN) as server:
        (answer,) = google(server, tries=2).hits(["q"])
    assert answer.kind == "transient" and len(server.asked) == 2
    with serving(SPENT) as server:
        google(server).hits(["q"])
    assert len(server.asked) == 1


def test_a_server_that_hangs_is_left_after_the_timeout():
    with serving(HANG) as server:
        (answer,) = google(server, timeout=0.1, tries=2).hits(["q"])
    assert answer.kind == "transient" and "Timeout" in str(answer)


@pytest.mark.parametrize(
    ("body", "headers", "kind"),
    [
        (gzip.compress(b" " * 60_000_000, mtime=0), {"Content-Encoding": "gzip"}, "blocked"),
        (gzip.compress(b" " * 60_000_000, mtime=0), {"Content-Encoding": "deflate"}, "blocked"),
        (b" " * 21_000_000, {}, "blocked"),
        (gzip.compress(b"{}", mtime=0)[:-9], {"Content-Encoding": "gzip"}, "transient"),
    ],
)
def test_a_reply_too_large_or_broken_is_refused(body, headers, kind):
    with serving((200, body, headers)) as server:
        (answer,) = google(server, tries=1).hits(["q"])
    assert answer.kind == kind and KEY not in str(answer)


@pytest.mark.parametrize("status", [200, 403, 500])
@pytest.mark.parametrize("inside", [b"[" * 100_000, b"[]," * 500_001], ids=["deep", "wide"])
def test_a_reply_that_takes_far_more_memory_than_its_bytes_is_not_parsed(status, inside):
    with serving((status, b'{"items": ' + inside, {})) as server:
        (answer,) = google(server, tries=1).hits(["q"])
    assert answer.kind == "transient" and "JSON of its schema" in str(answer)


def test_a_reply_that_drips_ends_with_the_calls_time():
    with serving(drip) as server:
        (answer,) = google(server, timeout=0.5, tries=1).hits(["q"])
    assert answer.kind == "transient" and "no whole answer in time" in str(answer)


def test_a_packed_reply_is_unpacked():
    packed = gzip.compress(json.dumps(TWO[1]).encode())
    with serving((200, packed, {"Content-Encoding": "gzip"})) as server:
        (hits,) = google(server).hits(["q"])
    assert len(hits) == 2


def test_a_server_that_is_not_there_is_a_passing_fault():
    with serving(TWO) as server:
        pass
    (answer,) = google(server, tries=1).hits(["q"])
    assert answer.kind == "transient" and "did not answer" in str(answer)


def test_one_query_failing_leaves_the_others():
    def reply(asked):
        return TWO[1] if asked["q"] == "good" else {"items": "no list"}

    with serving((200, reply)) as server:
        good, bad, again = google(server).hits(["good", "bad", "good"])
    assert len(good) == len(again) == 2
    assert bad.kind == "transient" and "not answer in JSON of its schema" in str(bad)


def everything_about(error):
    """Give all that a log, a report or a debugger's first look would show of an exception."""
    told = [str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)]
    for linked in (error.__cause__, error.__context__):
        told += everything_about(linked) if linked is not None else []
    return told


@pytest.mark.parametrize("reply", [TWO, CLOSED, ECHO, SPENT, BROKEN, (200, b"{"), HANG])
def test_the_key_shows_nowhere(reply, caplog):
    caplog.set_level(logging.DEBUG)
    for name in list(logging.root.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)  # and back again at the end
    with serving(reply) as server:
        provider = google(server, timeout=0.1, tries=2)
        traced = run(Ports(search=provider).search.ask(["q"]))
        (answer,) = provider.hits(["q"])
    told = [repr(provider), repr(WebSearch(provider)), repr(vars(provider)), repr(answer)]
    told += [repr(traced), traced.explain(), json.dumps(traced.to_dict(full=True))]
    told += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    told += [repr(pickle.dumps(each)) for each in (provider, traced, WebSearch(provider))]
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


def test_key_and_engine_come_from_the_environment(monkeypatch):
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_CSE_ID", raising=False)
    with pytest.raises(InputError, match="GOOGLE_API_KEY"):
        GoogleSearch(engine_id="engine")
    with pytest.raises(InputError, match="engine_id"):
        GoogleSearch(KEY)
    monkeypatch.setenv("GOOGLE_API_KEY", "from-there")
    monkeypatch.setenv("GOOGLE_CSE_ID", "engine-2")
    with serving(TWO) as server:
        with pytest.warns(FutureWarning):
            GoogleSearch(endpoint=server.url).hits(["q"])
        assert server.headers[0]["x-goog-api-key"] == "from-there"
        assert server.asked[0]["cx"] == "engine-2"


def test_a_secret_of_pydantic_will_do():
    from pydantic import SecretStr

    with serving(TWO) as server, pytest.warns(FutureWarning):
        GoogleSearch(SecretStr("quiet"), "engine", endpoint=server.url).hits(["q"])
    assert server.headers[0]["x-goog-api-key"] == "quiet"


def test_a_copy_keeps_the_key_and_a_pickle_wants_it_from_the_environment(monkeypatch):
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with serving(TWO) as server:
        provider = google(server)
        copied, thawed = copy.deepcopy(provider), pickle.loads(pickle.dumps(provider))
        assert provider == copied == thawed
        assert len(copied.hits(["q"])[0]) == 2
        (answer,) = thawed.hits(["q"])
        assert answer.kind == "auth" and "GOOGLE_API_KEY" in str(answer)
        monkeypatch.setenv("GOOGLE_API_KEY", "from-there")
        assert len(thawed.hits(["q"])[0]) == 2


def test_the_notice_has_a_date_and_changes_on_it():
    assert "closed to new customers and ends for all on 2027-01-01" in notice(date(2026, 12, 31))
    assert "ended its Custom Search JSON API on 2027-01-01" in notice(date(2027, 1, 1))
    assert "WebSearch.from_tool" in notice()


def test_after_the_end_each_refusal_says_so(monkeypatch):
    monkeypatch.setattr("fitrag_integrations.web.google.ENDS", date(2020, 2, 1))
    with serving(BAD_KEY) as server, pytest.warns(FutureWarning, match="ended .* on 2020-02-01"):
        (answer,) = GoogleSearch(KEY, "engine", endpoint=server.url).hits(["q"])
    assert "ended its Custom Search JSON API on 2020-02-01" in str(answer)


def test_the_notice_comes_once_per_place_and_points_at_it():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            GoogleSearch(KEY, "engine")
    assert [(warning.category, warning.filename) for warning in caught] == [
        (FutureWarning, __file__)
    ]


@pytest.mark.parametrize(
    "options", [{"max_results": 11}, {"timeout": 0}, {"tries": 0}, {"at_once": 0}, {"wait": -1}]
)
def test_wrong_numbers_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        GoogleSearch(KEY, "engine", **options)


async def test_async_does_not_block_the_loop():
    with serving(HANG) as server:
        asking = asyncio.create_task(google(server, timeout=0.3, tries=1).ahits(["q"]))
        turns = 0
        while not asking.done():
            turns += 1
            await asyncio.sleep(0.01)
        (answer,) = await asking
    assert answer.kind == "transient" and turns > 3


def test_given_bare_as_a_port_it_finds_passages():
    with serving(TWO) as server:
        ((first, second),) = run(Ports(search=google(server)).search.ask(["q"])).value
    assert (first.text, first.title, first.source) == (
        "Otters hold hands.",
        "Otters",
        "https://otters.example/",
    )
    assert first.metadata["provider"] == "google" and second.metadata["rank"] == 2
