"""The service over the embedded models, asked as its clients ask."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from threading import get_ident

import httpx
import pytest
import uvicorn
from closed_book import GATE
from starlette.testclient import TestClient

from fitrag_integrations import InputError, Passage, PortError, rerank
from fitrag_integrations.commands.serve import Settings, create_app, door
from fitrag_integrations.commands.serve.connections import (
    CONNECTIONS,
    HEADER_SECONDS,
    REPLY_SECONDS,
    UNREAD_SECONDS,
)
from fitrag_integrations.commands.serve.door import (
    BODY_SECONDS,
    DEPTH,
    ELEMENTS,
    HEADER_BYTES,
    HEALTHCHECK_SECONDS,
    HELD,
    READING,
    Door,
    Metrics,
)
from fitrag_integrations.commands.serve.serve import ServePlan
from fitrag_integrations.commands.serve.service import CHARACTERS, TEXTS
from fitrag_integrations.core import http, jsonl
from fitrag_integrations.models import BiLabelScorer, RemoteScorer
from fitrag_integrations.models.remote import client as remote_client
from fitrag_integrations.models.remote import scorer as remote_scorer
from fitrag_integrations.retrieval.corpus import extract, files

LIMITS = (
    # what, how much, option, what happens beyond it
    ("open connections of a process", f"{CONNECTIONS:,}, or half of the files it may open", "",
     f"the longest without a header is closed, else a reply unread for {UNREAD_SECONDS:g} s"),
    ("header of a request", f"{HEADER_SECONDS:g} s and {HEADER_BYTES:,} bytes", "",
     "closed; 400 or 431"),
    ("body of a request", f"{Settings.payload:,} bytes", "--payload", "413"),
    ("time for the whole body", f"{BODY_SECONDS:g} s, or the deadline", "", "408"),
    ("bodies that arrive at once", f"{READING} times the concurrency", "", "429"),
    ("bytes of bodies that arrive at once", f"{HELD} times those of one body", "", "429"),
    ("values, lists and objects of a body", f"{ELEMENTS:,}", "", "413"),
    ("lists and objects within each other", f"{DEPTH}", "", "413"),
    ("requests being answered", f"{Settings.concurrency}", "--concurrency", "429"),
    ("documents or passages of a request", f"{Settings.documents:,}", "--documents", "422"),
    ("characters of a document, passage or other text", f"{CHARACTERS:,}", "", "422"),
    *((f"characters of a {name}", f"{most:,}", "", "422") for name, most in TEXTS.items()),
    ("sentences of a request for `relevant_spans`", f"{Settings.sentences:,}", "--sentences",
     "422"),
    ("time for an answer", f"{Settings.deadline:g} s", "--deadline", "504"),
    ("time in which a reply is read", f"{REPLY_SECONDS:g} s", "", "closed"),
    ("time to end after SIGTERM", "the deadline and 1 s", "--deadline", "requests are canceled"),
    ("silence of one of several processes", f"{HEALTHCHECK_SECONDS} s", "", "killed, replaced"),
)  # fmt: skip


def limits_table():
    """Return the limits of the service as a table in Markdown, as the documentation shows it."""
    head = ["| | at most | option | beyond it |", "| --- | --- | --- | --- |"]
    rows = [
        f"| {what} | {most} | {f'`{option}`' if option else ''} | {beyond} |"
        for what, most, option, beyond in LIMITS
    ]
    return "\n".join([*head, *rows])


KEY = "sk-serve-0123456789"
HEADERS = {"Authorization": f"Bearer {KEY}"}
QUESTION = "Where does the Danube rise?"
TEXTS = [
    "The Rhine ends in the North Sea.",
    "Lunch is at noon. The Danube rises in the Black Forest. It is long.",
    "🙂 Rivers carry water. Nobody knows where.",
]
ROUTES = {"/rerank", "/v1/rerank", "/v2/rerank", "/compress", "/route", "/gate"}


@pytest.fixture(scope="module")
def client():
    settings = Settings(api_key=KEY, documents=50, gate=str(GATE))
    with TestClient(create_app(settings), headers=HEADERS) as made:
        yield made


def test_a_service_without_a_gate_says_how_to_get_one():
    reply = TestClient(create_app(Settings())).post("/gate", json={"question": QUESTION})
    assert reply.status_code == 404 and "--gate FOLDER" in reply.json()["error"]


@pytest.fixture(scope="module")
def scores():
    scorer = BiLabelScorer.embedded()
    yield scorer.score([(QUESTION, Passage(str(i), text)) for i, text in enumerate(TEXTS)])
    scorer.unload()


def asked(client, path, **body):
    reply = client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_texts_are_answered_as_tei_does(client, scores):
    rows = asked(client, "/rerank", query=QUESTION, texts=TEXTS, return_text=True)
    assert [row["index"] for row in rows][0] == 1
    assert {row["index"]: row["text"] for row in rows} == dict(enumerate(TEXTS))
    for row in rows:
        assert row["score"] == pytest.approx(scores[row["index"]].combine() / 2, abs=1e-4)
    assert rows == sorted(rows, key=lambda row: -row["score"])


def test_the_order_and_the_scores_are_those_of_the_reranker(client):
    texts = [
        "Who leaks? Nobody knows.",
        "The permit for the north pump expires in May.",
        "Serial FX-2041 is a valve of the south hall; it leaks a little.",
        "| valve | hall |\n| --- | --- |\n| FX-2041 | south |\n| FX-2042 | north |",
        "Valves are checked twice a year; leaking ones are exchanged.",
    ]
    for question in ("Where is FX-2041?", "Which valve leaks?"):
        best = rerank(question, texts, top_n=None, deduplicate=False)
        expected = list(zip(best.indices, [one.score for one in best], strict=True))
        for path, more in (("/v1/rerank", {}), ("/v2/rerank", {"relevant_spans": {}})):
            found = asked(client, path, query=question, documents=texts, **more)["results"]
            assert [row["index"] for row in found] == list(best.indices)
            shown = [(row["index"], row["relevance_score"]) for row in found]
            assert sorted(shown, key=lambda row: -row[1]) == shown
            assert dict(shown) == pytest.approx(dict(expected), abs=1e-4)


def test_documents_are_answered_as_jina_and_vllm_do(client):
    found = asked(client, "/v1/rerank", model="m", query=QUESTION, top_n=1, return_documents=True,
                  documents=[*TEXTS[:2], {"text": TEXTS[2], "title": "Rivers"}])  # fmt: skip
    assert found["model"] == "m"
    ((row),) = found["results"]
    assert (row["index"], row["document"]["text"]) == (1, TEXTS[1])
    every = asked(client, "/rerank", query=QUESTION, documents=TEXTS, top_n=0)
    assert len(every["results"]) == 3


def test_a_blank_document_is_last_and_says_why(client):
    texts, reason = ["", *TEXTS, " \n"], "blank document: not scored"
    for path, body in (
        ("/rerank", {"texts": texts}),
        ("/rerank", {"documents": texts}),
        ("/v1/rerank", {"documents": [{"text": text} for text in texts]}),
        ("/v2/rerank", {"documents": texts, "relevant_spans": {}}),
    ):
        found = asked(client, path, query=QUESTION, **body)
        rows = found if isinstance(found, list) else found["results"]
        assert [(row["index"], row.get("reason")) for row in rows[-2:]] == [
            (0, reason),
            (4, reason),
        ]
        assert all("reason" not in row for row in rows[:-2])
        assert rows[-1].get("score", rows[-1].get("relevance_score")) == 0.0
    alone, passages = (
        asked(client, "/compress", question=QUESTION, passages=[{"text": t} for t in given])
        for given in (TEXTS, texts)
    )
    moved = [one | {"passage": one["passage"] + 1} for one in alone["excerpts"]]
    assert passages["excerpts"] == moved
    assert passages["notes"][0] == "2 of 5 passages left out: no text"
    graded = asked(client, "/route", question=QUESTION, passages=[{"text": t} for t in texts[:2]])
    assert graded["grades"][0] == -1.0 and graded["notes"] == ["passages[0]: blank, graded -1"]


def test_fields_of_every_client_are_taken_and_those_of_their_replies_sent(client):
    plain = asked(client, "/v1/rerank", query=QUESTION, documents=TEXTS)
    assert plain["object"] == "rerank" and plain["id"] and plain["created"] > 1e9
    assert plain["usage"]["total_tokens"] == plain["usage"]["prompt_tokens"] > 30
    more = {"top_n": None, "max_chunks_per_doc": 10, "truncate_prompt_tokens": -1, "model": None,
            "user": "u", "not a field": None, "return_documents": None}  # fmt: skip
    again = asked(client, "/v1/rerank", query=QUESTION, documents=TEXTS, **more)
    assert again["results"] == plain["results"]
    found = asked(client, "/v2/rerank", query=QUESTION, documents=TEXTS, return_documents=True)
    assert [row["document"]["text"] for row in found["results"]][0] == TEXTS[1]
    for raw in ({"raw_scores": True}, {"use_activation": False}):
        logits = asked(client, "/v2/rerank", query=QUESTION, documents=TEXTS, **raw)["results"]
        assert logits[-1]["relevance_score"] < 0 < logits[0]["relevance_score"]
    titled = [{"title": "The Danube rises in the Black Forest", "text": text} for text in TEXTS]
    body = {"query": QUESTION, "documents": titled}
    assert asked(client, "/v1/rerank", **body, rank_fields=["text"])["results"] == plain["results"]
    assert asked(client, "/v1/rerank", **body)["results"] != plain["results"]


def test_relevant_spans_are_code_points_of_the_document(client):
    wanted = {"mode": "enabled", "threshold": 0.5, "max_spans": 2}
    found = asked(client, "/v2/rerank", model="m", query=QUESTION, documents=TEXTS,
                  relevant_spans=wanted)  # fmt: skip
    best = found["results"][0]
    (span,) = best["relevant_spans"]
    text = TEXTS[best["index"]][span["start"] : span["end"]]
    assert text == "The Danube rises in the Black Forest."
    assert all("relevant_spans" in row for row in found["results"])


def test_rows_are_answered_as_the_verbs_do(client):
    passages = [{"text": text} for text in TEXTS]
    kept = asked(client, "/compress", question=QUESTION, passages=passages)
    best = max(kept["excerpts"], key=lambda e: e["score"])
    assert "Black Forest" in TEXTS[best["passage"]][best["start"] : best["end"]]
    assert TEXTS[best["passage"]][best["start"] : best["end"]] == best["text"]
    assert kept["tokens_out"] <= kept["tokens_in"] <= 64  # so few are all kept
    assert kept["offsets"] == "codepoints"
    smiling = [{"text": "\U0001f600 " + text} for text in TEXTS]
    found = asked(client, "/compress", question=QUESTION, passages=smiling, offsets="utf16")
    assert found["offsets"] == "utf16"
    for one in found["excerpts"]:
        units = smiling[one["passage"]]["text"].encode("utf-16-le")
        assert units[2 * one["start"] : 2 * one["end"]].decode("utf-16-le") == one["text"]
    routed = asked(client, "/route", question=QUESTION, passages=passages)
    assert routed["action"] == "correct" and len(routed["grades"]) == 3
    assert asked(client, "/gate", question=QUESTION)["retrieve"] is True


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["\x00", "\u200b", "?"],
        [TEXTS[0]] * 6,
        ["x" * 20_000],
        ["rain " * 5000],
        [None],
        [7],
    ],
    ids=["none", "blank", "signs", "duplicates", "long word", "long sentence", "null", "number"],
)
def test_bad_documents_are_answered_or_refused_by_name(client, texts):
    asking = {
        "/rerank": {"query": QUESTION, "texts": texts},
        "/v2/rerank": {"query": QUESTION, "documents": texts, "relevant_spans": {}},
        "/compress": {"question": QUESTION, "passages": [{"text": text} for text in texts]},
    }
    for path, body in asking.items():
        reply = client.post(path, json=body)
        assert reply.status_code in (200, 422), (path, reply.text)
        if reply.status_code == 422:
            assert any(name in reply.text for name in ("passages", "documents", "texts"))
        elif path == "/compress":
            kept = reply.json()
            assert kept["notes"] or len(kept["excerpts"]) == len(texts)


@pytest.mark.parametrize("path", sorted(ROUTES | {"/info", "/metrics", "/docs", "/no"}))
@pytest.mark.parametrize("header", ["", "Bearer wrong", f"Basic {KEY}", KEY, f"Bearer{KEY}"])
def test_the_key_is_asked_for_on_every_route(client, path, header):
    reply = client.request("POST" if path in ROUTES else "GET", path,
                           headers={"Authorization": header})  # fmt: skip
    assert reply.status_code == 401
    assert KEY not in reply.text


def test_a_field_has_the_name_of_any_route(client):
    rows = [{"question": QUESTION, "passages": TEXTS}, {"query": QUESTION, "passages": TEXTS}]
    kept = [
        asked(client, "/compress", **row)
        for row in (*rows, {"query": QUESTION, "documents": TEXTS})
    ]
    assert kept[0] == kept[1] == kept[2] and kept[0]["excerpts"]
    given = [{"query": QUESTION, "texts": TEXTS}, {"question": QUESTION, "texts": TEXTS}]
    first, second = (asked(client, "/rerank", **body) for body in given)
    assert first == second
    assert asked(client, "/gate", query=QUESTION) == asked(client, "/gate", question=QUESTION)
    both = client.post("/rerank", json={"query": "a", "question": "b", "texts": TEXTS})
    assert both.status_code == 422 and "question" in both.json()["error"]


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain"])
@pytest.mark.parametrize("path", ["/rerank", "/compress", "/gate"])
def test_a_body_without_the_content_type_of_json_gets_a_sentence(client, path, kind):
    body = json.dumps({"query": QUESTION, "texts": TEXTS}).encode()
    reply = client.post(path, content=body, headers={"Content-Type": kind} if kind else {})
    assert reply.status_code == 415
    assert "send Content-Type: application/json" in reply.json()["error"]
    assert (kind or "no content type") in reply.json()["error"]


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_scheme_of_the_key_is_written_in_any_case(client, scheme):
    assert client.get("/info", headers={"Authorization": f"{scheme} {KEY}"}).status_code == 200


def test_what_is_there_is_told_and_the_key_is_not(client):
    asked(client, "/rerank", query=QUESTION, texts=TEXTS)
    health = client.get("/health", headers={"Authorization": "Bearer wrong"})  # probes have none
    assert (health.status_code, health.json()) == (200, {"status": "ready"})
    info = client.get("/info").json()
    assert info["limits"]["documents"] == 50 and "MiniLM" in info["model_id"]
    figures = client.get("/metrics").text
    assert 'fitrag_requests_total{route="/rerank",status="200"}' in figures
    client.get("/" + "x" * 50)
    assert "xxxx" not in client.get("/metrics").text
    assert KEY not in figures + json.dumps(info)


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/rerank", {"query": QUESTION, "texts": TEXTS, "top_k": 1}, "top_k"),
        ("/rerank", {"query": QUESTION}, "documents"),
        ("/rerank", {"query": QUESTION, "texts": TEXTS, "documents": TEXTS}, "documents"),
        ("/rerank", {"query": QUESTION, "texts": []}, "documents"),
        ("/rerank", {"query": QUESTION, "texts": ["x"] * 51}, "at 50|1 to 50"),
        ("/v2/rerank", {"query": QUESTION, "documents": [3]}, "documents.0"),
        ("/compress", {"question": QUESTION}, "passages"),
        ("/route", {"question": "q", "passages": [{"text": "x " * 1_000_001}]}, "at most 2000000"),
        ("/gate", {"question": " "}, "question"),
        ("/rerank", {"query": "q", "documents": [{"text": "a"}], "rank_fields": ["body"]}, "title"),
        ("/rerank", {"query": "q", "documents": ["a"], "rank_fields": ["title"]}, "rank_fields"),
        ("/gate", {"question": "q", "draft": "x" * 20_001}, "draft has 20001 characters"),
        ("/gate", {"question": "q " * 25_001}, "question has 50002 characters"),
        ("/rerank", {"query": "q", "documents": [{"text": "a", "title": "t" * 2001}]}, "title has"),
        ("/compress", {"question": "q", "passages": ["x" * 2_000_001]}, "passages[0] has 2000001"),
    ],
)
def test_a_wrong_request_is_told_the_field(client, path, body, told):
    reply = client.post(path, json=body)
    assert reply.status_code == 422
    assert any(part in reply.json()["message"] for part in told.split("|"))
    assert reply.json()["detail"] == reply.json()["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/rerank", {"query": "q", "texts": ["a"], "\ud800": 1}),
        ("/rerank", {"query": "\ud800 q", "texts": ["a"]}),
        ("/rerank", {"query": "q", "texts": ["\ud800 a"], "return_text": True}),
        (
            "/v1/rerank",
            {"query": "q", "documents": [{"text": "\ud800 a"}], "return_documents": True},
        ),
        ("/v2/rerank", {"query": "q", "documents": ["\ud800 a"], "relevant_spans": {"\ud800": 1}}),
        ("/compress", {"question": "q", "passages": [{"text": "\ud800 a", "title": "\ud800"}]}),
        ("/compress", {"question": "q", "passages": [{"text": 1, "\ud800": "\ud800"}]}),
        ("/compress", {"question": "q", "passages": "\ud800"}),
        ("/compress", {"question": "\ud800 q", "passages": [{"text": "a"}], "offsets": "\ud800"}),
        ("/route", {"question": "\ud800 q", "passages": [{"text": "\ud800 a", "id": "\ud800"}]}),
        ("/gate", {"question": "\ud800 q", "id": "\ud800"}),
    ],
    ids=str,
)
def test_half_a_surrogate_pair_is_answered_or_refused(client, path, body):
    reply = client.post(
        path, content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert reply.status_code in (200, 422)


def test_a_body_too_large_is_refused_before_it_is_read():
    with TestClient(create_app(Settings(payload=1000))) as client:
        body = json.dumps({"query": QUESTION, "texts": ["x" * 2000]}).encode()
        assert client.post("/rerank", content=body).status_code == 413
        chunks = (body[i : i + 100] for i in range(0, len(body), 100))  # no Content-Length
        assert client.post("/rerank", content=chunks).status_code == 413
        assert client.post("/rerank", json={"query": "a", "texts": ["b"]}).status_code == 200


async def at_once():
    return {"type": "http.request", "body": b"{}"}


async def through(door, path="/rerank", receive=at_once, **scope):
    """Send one request through a door; gives status and headers."""
    sent = []

    async def send(message):
        sent.append(message)

    await door({"type": "http", "path": path, "headers": [], **scope}, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


async def ready(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def test_a_crowd_is_told_to_come_back_and_a_slow_answer_ends():
    release = asyncio.Event()

    async def slow(scope, receive, send):
        if "health" not in scope["path"]:
            await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    door = Door(slow, Settings(concurrency=2, deadline=0.2), Metrics())
    waiting = [asyncio.create_task(through(door)) for _ in range(2)]
    await asyncio.sleep(0)
    status, headers = await through(door)
    assert (status, headers[b"retry-after"]) == (429, b"1")
    for prefix in ("", "/api", "/he"):  # as of --root-path, or where the application is mounted
        assert (await through(door, f"{prefix}/health", root_path=prefix))[0] == 200
    assert (await through(door, "/health", root_path="/he"))[0] == 200
    assert [status for status, _ in await asyncio.gather(*waiting)] == [504, 504]
    release.set()
    assert (await through(door))[0] == 200  # the places are free again


COSTLY = {
    "numbers": b'{"query": "q", "documents": [' + b"1," * 3_500_000 + b"1]}",
    "some numbers": b'{"query": "q", "documents": [' + b"1," * 90_000 + b"1]}",
    "numbers as texts": b'{"query": "q", "texts": [' + b"1," * 90_000 + b"1]}",
    "lists": b'{"query": "q", "documents": [' + b"[]," * 2_000_000 + b"1]}",
    "objects": b'{"query": "q", "documents": [' + b"{}," * 90_000 + b"{}]}",
    "blank texts": b'{"query": "q", "documents": [' + b'"",' * 90_000 + b'""]}',
    "deep": b'{"query": "q", "documents": ' + b"[" * 99_000 + b"]" * 99_000 + b"}",
    "quotes": b'{"query": "q", "documents": ["' + b'\\"' * 3_000_000,
    "fields": b"{" + b",".join(b'"%d": 1' % i for i in range(90_000)) + b"}",
    "UTF-16": ('{"query": "q", "texts": ["\u2201", ' + "1," * 1_000_000 + "1]}").encode("utf-16"),
    "surrogate": b'{"query": "q", "documents": ["a"], "model": "\\ud800"}',
}


@pytest.mark.parametrize("body", COSTLY.values(), ids=COSTLY)
def test_a_costly_body_is_refused_before_it_is_taken_apart(client, body, monkeypatch):
    threads = []
    check = jsonl.check_size
    monkeypatch.setattr(
        jsonl, "check_size", lambda *a, **k: threads.append(get_ident()) or check(*a, **k)
    )
    reply = client.post("/v2/rerank", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code in (400, 413, 422)
    assert len(reply.content) < 1000  # one error, not one for each element
    if len(body) > ELEMENTS:  # the event loop stays free
        assert threads and client.portal.call(get_ident) not in threads


async def test_a_long_document_with_spans_keeps_nobody_waiting():
    app = create_app(Settings(deadline=2.0, sentences=50_000))
    text = "The Danube rises in the Black Forest, e.g. near Furtwangen. " * 10_000
    body = {"query": QUESTION, "documents": [text], "relevant_spans": {}}
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://s", timeout=None) as client,
    ):
        asking = asyncio.create_task(client.post("/v2/rerank", json=body))
        answered = 0
        while not asking.done():  # other requests are answered meanwhile
            answered += (await client.get("/health")).status_code == 200
            await asyncio.sleep(0.01)
    assert asking.result().status_code in (200, 504) and answered > 3


def begun(size):
    """Send so much of a body, and no more."""
    parts = iter([{"type": "http.request", "body": b"x" * size, "more_body": True}])

    async def receive():
        return next(parts, None) or await asyncio.Event().wait()

    return receive


@pytest.mark.parametrize(
    ("limits", "size", "statuses"),
    [
        ({"concurrency": 2}, 1, [408] * 6),  # which hold no slot
        ({"payload": 1000}, 900, [408] * 35 + [429] * 5),  # whose bytes are bounded together
    ],
)
async def test_bodies_that_never_end_are_bounded_and_hold_nobody_up(limits, size, statuses):
    door = Door(ready, Settings(deadline=0.5, **limits), Metrics())
    slow = [asyncio.create_task(through(door, receive=begun(size))) for _ in statuses]
    await asyncio.sleep(0)
    assert size > 1 or (await through(door))[0] == 200
    assert sorted(status for status, _ in await asyncio.gather(*slow)) == statuses
    assert (await through(door))[0] == 200


def test_too_many_sentences_are_refused_before_they_are_judged():
    settings = Settings(sentences=20)
    with TestClient(create_app(settings)) as asking:
        body = {"query": QUESTION, "relevant_spans": {}}
        fits = asking.post("/v2/rerank", json={**body, "documents": [TEXTS[0]] * 3})
        reply = asking.post(
            "/v2/rerank", json={**body, "documents": ["One. " * 2 + "Two is two."] * 30}
        )
    assert fits.status_code == 200 and reply.status_code == 422
    assert "with relevant_spans this server takes at most 20" in reply.json()["error"]


def test_the_documented_limits_are_those_of_the_code():
    text = (Path(__file__).parents[3] / "docs" / "limits.md").read_text(encoding="utf-8")
    assert limits_table() in text
    limits, mebi, gibi = http.Limits(), 1 << 20, 1 << 30
    for row in (
        f"| files of a folder | {files.MOST_FILES:,} |",
        f"| a text, an HTML page or a PDF | {files.MOST_BYTES / mebi:g} MiB, and "
        f"{extract.CHARACTERS / mebi:g} Mi characters |",
        f"| a line of JSON Lines or of a table | {files.MOST_LINE / mebi:g} MiB |",
        f"| what an archive unpacks to | {files.RATIO} times its size, or "
        f"{files.UNPACKED / gibi:g} GiB where that is more |",
        f" | {extract.SECONDS:g} s a file, {extract.MEMORY / gibi:g} GiB of memory |",
        f"| bytes, as sent and once unpacked | {limits.max_bytes / mebi:g} MiB |",
        f" | {limits.max_ratio:g}, from {http.RATIO_FROM / 1e6:g} MB on |",
        f" | {http.VALUES:,} and {http.DEPTH} |",
        f" | {remote_client.ERROR_BYTES:,} and {remote_client.SHOWN} |",
        f"| failed attempts in a row | {remote_client.FAILURES} |",
        f"| requests of a call that are split in halves | {remote_scorer.SPLITS} |",
    ):
        assert row in text
    assert limits.max_decoded_bytes == limits.max_bytes


def test_a_service_that_is_reachable_without_a_key_warns(monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(uvicorn, "run", lambda app, **options: None)
    ServePlan(host="0.0.0.0").run()
    assert "FITRAG_SERVE_API_KEY" in capsys.readouterr().err
    ServePlan().run()
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"FITRAG_SERVE_API_KEY": " "}, "FITRAG_SERVE_API_KEY"),
        ({"FITRAG_SERVE_DOCUMENT": "3"}, "FITRAG_SERVE_DOCUMENT"),
        ({"FITRAG_SERVE_DEADLINE": "soon"}, "a number"),
        ({"FITRAG_SERVE_CONCURRENCY": "0"}, "concurrency"),
    ],
)
def test_a_wrong_setting_is_named(given, told):
    with pytest.raises(InputError, match=told):
        Settings.from_environment(given)


@pytest.mark.parametrize(
    "name",
    ["SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_8000_TCP_ADDR", "DOCS_SERVICE_PORT"],
)
def test_what_kubernetes_sets_for_a_service_is_no_setting(name, caplog, monkeypatch):
    # a server that ran before it may have set the logger up
    monkeypatch.setattr(door.log, "handlers", [caplog.handler])
    monkeypatch.setattr(door.log, "disabled", False)
    caplog.set_level("INFO", door.log.name)
    given = {f"FITRAG_SERVE_{name}": "tcp://10.0.0.1:8000", "FITRAG_SERVE_DOCUMENTS": "7"}
    assert Settings.from_environment(given).documents == 7
    assert f"FITRAG_SERVE_{name} is ignored" in caplog.text


def test_settings_come_back_from_the_environment():
    given = Settings(api_key=KEY, model="folder", deadline=2.5, documents=7)
    again = Settings.from_environment(given.to_environment())
    assert (again.model, again.deadline, again.documents) == ("folder", 2.5, 7)
    assert again.api_key.reveal() == KEY
    assert KEY not in repr(given)


@pytest.fixture(scope="module")
def process():
    """Run the service as a program, on a port of its own."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    app = "fitrag_integrations.commands.serve:create_app"
    words = [sys.executable, "-m", "uvicorn", "--factory", app, "--port", str(port)]
    settings = Settings(api_key=KEY).to_environment()
    with subprocess.Popen(words, env={**os.environ, **settings}) as running:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                request = urllib.request.Request(f"{url}/health", headers=HEADERS)
                urllib.request.urlopen(request, timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        yield running, url
        running.kill()


@pytest.mark.parametrize("dialect", ["tei", "jina", "cohere", "infinity"])
def test_our_own_client_finds_every_score(process, scores, dialect):
    _, url = process
    remote = RemoteScorer(url, dialect=dialect, model="m", api_key=KEY)
    pairs = [(QUESTION, Passage(str(i), text)) for i, text in enumerate(TEXTS)]
    found = remote.score(pairs * 20)
    expected = [score.combine() / 2 for score in scores] * 20
    assert [score.has_answer for score in found] == pytest.approx(expected, abs=1e-4)
    refused = RemoteScorer(url, dialect=dialect, model="m", api_key="sk-another-key").score(pairs)
    assert all(isinstance(one, PortError) and "401" in str(one) for one in refused)
