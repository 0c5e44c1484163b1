"""What a stranger sends is read in one pass: no header and no page costs more than its length."""

import time
from contextlib import suppress

import pytest

from fitrag_integrations.core.http import Limits, Meter
from fitrag_integrations.core.http import retry_after as wait_asked
from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.web.extract import decode, extract
from fitrag_integrations.web.fetch import _check_type, parse_rules
from fitrag_integrations.web.guard import AGENT, NetworkGuard, canonical_host
from fitrag_integrations.web.pages import _LOGIN
from fitrag_integrations.web.search import hits_of

PATIENCE = 4.0  # one pass takes some tenths of a second, the square of it minutes
SIZES = (100_000, 200_000)


def _httpx():
    return pytest.importorskip("httpx")


def _tolerant(call, *expected):
    with suppress(*expected):
        call()


def content_type(text):
    decode(b"\xff words", f"text/html; charset={text}")
    extract(b"words", f"text/plain; charset={text}")


def meta(text):
    head = f"<meta {text[:100]} charset={text}".encode()
    decode(b"<meta " * 30 + head + b"\xff", "text/html")


def type_checked(text):
    headers = _httpx().Headers({"content-type": f"text/html{text}"})
    _tolerant(lambda: _check_type(headers, ("text/html",)), SearchError)


def encoding(text):
    _tolerant(lambda: Meter(f"gzip{text}", Limits()), SearchError)


def retry_after(text):
    wait_asked(text)
    wait_asked(f"Sun, {text}")


def host(text):
    _tolerant(lambda: canonical_host(text), ValueError)
    _tolerant(lambda: NetworkGuard(allow_domains=[text[:60_000]]), InputError)


def address(text):
    _tolerant(lambda: NetworkGuard().admit(f"http://a.example/{text}"), SearchError)


def redirect(text):
    origin = _httpx().URL("http://a.example/")
    _tolerant(lambda: NetworkGuard().follow(origin, text), SearchError)


def allows(robots, path):
    return parse_rules(robots).can_fetch(f"http://a.example{path}", AGENT)


def robots_text(text):
    allows(f"User-agent: *\nDisallow: /{text}", "/words")


def robots_path(text):
    allows("User-agent: *\nDisallow: /*a*aa*b$", f"/{text}")


HEADERS = [content_type, meta, type_checked, encoding, retry_after, host, address, redirect]
TEXTS = [robots_text, robots_path, _LOGIN.search, lambda text: hits_of([text])]
UNITS = [" ", "\t", "a", "\n", "=", ";", "charset=", "charset ", '"', "<meta ", "/log", "*a", "%2"]
UNITS += ["&", "&#", "<", "<a ", "<|", "[", "a.", "-", "(", "1", "0x", "..", "/../", "a\n\n"]
UNITS += ["@", " ("]


@pytest.mark.parametrize("read", [*HEADERS, *TEXTS], ids=lambda call: getattr(call, "__name__", ""))
def test_repeated_input_costs_no_more_than_its_length(read):
    for unit in UNITS:
        for size in SIZES:
            text = unit * (size // len(unit))
            started = time.thread_time()
            read(text)
            spent = time.thread_time() - started
            assert spent < PATIENCE, f"{unit!r} at {size} took {spent:.1f} s"


@pytest.mark.parametrize("agents", [True, False])
def test_robots_of_many_agents_and_rules_cost_no_more_than_their_length(agents):
    lines = [f"User-agent: a{i}" for i in range(10_000)] if agents else ["User-agent: *"]
    text = "\n".join([*lines, *(f"Disallow: /{i}" for i in range(10_000))])
    started = time.thread_time()
    assert allows(text, "/words")
    assert time.thread_time() - started < PATIENCE


WORDS = "lorem ipsum dolor sit amet "
PAGES = [
    ("<br hidden>", 1),
    ("<span hidden>x</span>", 2),
    ("<b>x</b>", 2),
    ("<span>x</span>", 2),
    ("<a href='/x'>x</a>", 2),
    ("<i>", 1),
    ("<x-y>x</x-y>", 2),
    ("<!-- x -->", 1),
]


@pytest.mark.parametrize(("unit", "tags"), PAGES)
def test_a_page_of_one_repeated_tag_is_taken_apart_in_time(unit, tags):
    body = (unit + WORDS) * (18_000 // tags)
    html = f"<html><body><article><p>{body}</p></article></body></html>".encode()
    extract(b"<p>words</p>", "text/html")  # so that no import is counted
    started = time.thread_time()
    extract(html, "text/html")
    assert time.thread_time() - started < PATIENCE


def test_hidden_elements_go_and_the_words_behind_them_stay():
    html = (
        "<html><body><article><p>One <b hidden>HIDDEN</b>two<i hidden>HIDDEN</i> three "
        "<u>four</u> five <b hidden>HIDDEN <i hidden>HIDDEN</i></b>six and some more words.</p>"
        "</article></body></html>"
    )
    (found,) = extract(html.encode(), "text/html").paragraphs
    assert found == "One two three four five six and some more words."


def test_a_crowd_of_inline_elements_leaves_every_word_in_its_place():
    body = "".join(f"<span>w{i}<b>b{i}</b></span> t{i} " for i in range(2_000))
    html = f"<html><body><article><p>{body}</p><p>The end is here.</p></article></body></html>"
    text = " ".join(extract(html.encode(), "text/html").paragraphs)
    assert text.split() == [w for i in range(2_000) for w in (f"w{i}b{i}", f"t{i}")] + [
        *("The", "end", "is", "here.")
    ]


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("text/html; charset=cp1251", "cp1251"),
        ('text/html; Charset = "cp1251"; x=y', "cp1251"),
        ("text/html; x=charset; charset='cp1251'", "cp1251"),
        ("text/html; charset=Cyrillic", "iso8859-5"),
        ("text/html; charset=latin1", "cp1252"),
        ("text/html; charset", "utf-8"),
    ],
)
def test_declared_encodings_are_read(declared, name):
    body = "слова".encode("cp1251")
    assert decode(body, declared) == body.decode(name, "replace")
    page = f'<head><META http-equiv=x content="{declared}"></head>'.encode() + body
    assert decode(page, "text/html").endswith(body.decode(name, "replace"))
