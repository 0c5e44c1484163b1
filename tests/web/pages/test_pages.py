"""Reading pages: order, paragraphs, robots.txt, the cache, sync and async."""

import asyncio
import json

import pytest
from hostile_server import GOOD, WORDS, in_turn, page, redirect, silence, slowly

from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.web import Page, PageCache, PageReader
from fitrag_integrations.web.extract import extract

pytestmark = pytest.mark.allow_hosts(["127.0.0.1", "127.0.0.2", "::1"])

ARTICLE = f"""<html><head><title> The mill &amp; its <b>river</b></title></head><body>
<nav><a href="/">Home</a> <a href="/all">All pages</a></nav>
<article><h1>The mill</h1><p>{WORDS}</p><p>A second paragraph, with a <a href="/x">link</a> and
a line that goes on.</p><ul><li>rye</li><li>barley</li></ul>
<table><tr><th>year</th><th>sacks</th></tr><tr><td>1911</td><td>340</td></tr></table></article>
<footer>All rights reserved</footer></body></html>"""


def at(site, path):
    return f"http://site.example:{site.port}{path}"


async def test_a_page_is_its_paragraphs_in_order(web):
    site = web.site({"/start": redirect("/article"), "/article": page(ARTICLE)})
    (found,) = await PageReader(web.guard()).aread([at(site, "/start")])
    assert (found.url, found.final_url) == (at(site, "/start"), at(site, "/article"))
    assert found.title.startswith("The mill &")
    assert found.paragraphs[:3] == (
        "The mill",
        WORDS,
        "A second paragraph, with a link and a line that goes on.",
    )
    assert "| 1911 | 340 |" in found.paragraphs
    assert found.text == "\n\n".join(found.paragraphs) and "---" not in found.text
    assert Page.from_dict(json.loads(json.dumps(found.to_dict()))) == found


async def test_plain_text_is_cut_at_blank_lines(web):
    text = "First line\ngoes on.\n\n  Second\tparagraph.\r\n\r\nThird <b>one</b>."
    site = web.site({"/text": page(text, Content_Type="text/plain")})
    (found,) = await PageReader(web.guard()).aread([at(site, "/text")])
    assert found.paragraphs == ("First line goes on.", "Second paragraph.", "Third one .")


async def test_answers_are_in_the_order_asked_and_each_page_is_read_once(web):
    site = web.site({f"/{i}": page(GOOD.replace("mill", f"mill {i}")) for i in range(4)})
    paths = ["/2", "/0", "/missing", "/2", "/3", "/1", "/missing"]
    found = await PageReader(web.guard()).aread([at(site, path) for path in paths])
    titles = [each.title[-1] if isinstance(each, Page) else None for each in found]
    assert titles == ["2", "0", None, "2", "3", "1", None]
    assert found[2] is found[6] and found[2].kind == "empty"
    assert sorted(site.paths()) == ["/0", "/1", "/2", "/3", "/missing"]


def test_reading_waits_with_and_without_a_loop(web):
    site = web.site()
    reader = PageReader(web.guard())

    async def inside():
        return reader.read([at(site, "/good")])

    assert isinstance(reader.read([at(site, "/good")])[0], Page)
    assert isinstance(asyncio.run(inside())[0], Page)
    assert isinstance(asyncio.run(reader.aread([at(site, "/good")]))[0], Page)
    assert reader.read([]) == []


async def test_several_batches_share_the_limits(web):
    site = web.site({"/slow": slowly(page(GOOD))})
    reader = PageReader(web.guard(per_host=8, robots=False), max_concurrency=2)
    await asyncio.gather(*(reader.aread([at(site, f"/slow?{i}")]) for i in range(6)))
    assert site.most <= 2 and len(site.paths()) == 6


async def test_robots_are_heard_once_on_every_hop_and_remembered(web, tmp_path):
    closed = page("User-agent: fitrag-integrations\nDisallow: /closed", Content_Type="text/plain")
    site = web.site({"/robots.txt": closed, "/closed": page(GOOD), "/to": redirect("/closed")})
    cache = PageCache(tmp_path)
    urls = [at(site, path) for path in ("/good", "/closed", "/to")]
    good, *others = await PageReader(web.guard(), cache).aread(urls)
    assert isinstance(good, Page) and [error.kind for error in others] == ["blocked"] * 2
    assert all("asks robots not to read it" in str(error) for error in others)
    assert site.paths() == ["/good", "/to"] or site.paths() == ["/to", "/good"]
    assert [path for _, path in site.asked].count("/robots.txt") == 1
    site.asked.clear()
    again = await PageReader(web.guard(), cache).aread(urls[:2])
    assert isinstance(again[0], Page) and again[1].kind == "blocked" and site.asked == []
    (found,) = await PageReader(web.guard(robots=False), cache).aread(urls[1:2])
    assert isinstance(found, Page) and site.paths() == ["/closed"]


@pytest.mark.parametrize(("status", "read"), [(404, True), (403, True), (500, False), (503, False)])
async def test_robots_that_fail_close_the_site_and_missing_ones_do_not(web, tmp_path, status, read):
    site = web.site({"/robots.txt": in_turn(page("", status=status))})
    cache = PageCache(tmp_path)
    (found,) = await PageReader(web.guard(), cache).aread([at(site, "/good")])
    assert isinstance(found, Page) == read
    if not read:
        assert found.kind == "blocked" and "cannot be read" in str(found)
        assert cache.get(at(site, "/good")) is None


async def test_the_cache_saves_a_second_visit_and_keeps_no_failure(web, tmp_path):
    site = web.site({"/later": in_turn(page("", status=404), page(GOOD))})
    guard, cache = web.guard(), PageCache(tmp_path)
    first = await PageReader(guard, cache).aread([at(site, "/good#a"), at(site, "/later")])
    second = await PageReader(guard, cache).aread([at(site, "/good#b"), at(site, "/later")])
    assert first[1].kind == "empty" and isinstance(second[1], Page)
    assert second[0].url.endswith("#b") and second[0].text == first[0].text
    assert sorted(site.paths()) == ["/good", "/later", "/later"]
    (denied,) = await PageReader(web.guard(deny_domains=["site.example"]), cache).aread(
        [at(site, "/good")]
    )
    assert denied.kind == "blocked"


async def test_what_is_denied_today_is_not_taken_from_the_cache(web, tmp_path):
    site = web.site({}, "site.example", "other.example")
    site.routes["/away"] = redirect(f"http://other.example:{site.port}/good")
    cache = PageCache(tmp_path)
    (found,) = await PageReader(web.guard(), cache).aread([at(site, "/away")])
    assert "other.example" in found.final_url
    guard = web.guard(deny_domains=["other.example"])
    (denied,) = await PageReader(guard, cache).aread([at(site, "/away")])
    assert denied.kind == "blocked"


async def test_pages_without_words_are_empty(web):
    bodies = ["", " ", "<html></html>", "<html><body><script>x()</script></body></html>", "\0\0"]
    site = web.site({f"/{i}": page(body) for i, body in enumerate(bodies)})
    found = await PageReader(web.guard()).aread([at(site, f"/{i}") for i in range(len(bodies))])
    assert [error.kind for error in found] == ["empty"] * len(bodies)


async def test_messages_hold_no_query(web):
    site = web.site({"/slow": silence})
    urls = [at(site, path + "?key=SECRET") for path in ("/slow", "/missing")]
    found = await PageReader(web.guard(page_seconds=1.0), retries=0).aread(urls)
    assert all(isinstance(error, SearchError) for error in found)
    assert not any("SECRET" in f"{error!r}{error.__cause__!r}" for error in found)


async def test_a_reader_may_be_stopped(web):
    site = web.site({"/hang": silence})
    reader = PageReader(web.guard())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await reader.aread([at(site, "/hang"), at(site, "/good")])
    assert isinstance((await reader.aread([at(site, "/good")]))[0], Page)


async def test_the_loop_goes_on_while_pages_are_taken_apart(web, monkeypatch):
    body = "".join(f"<p>{i}: {WORDS} {WORDS}</p>" for i in range(250))
    site = web.site({"/large": page(f"<html><body><article>{body}</article></body></html>")})
    loop, turned = asyncio.get_running_loop(), []

    def watched(*given):
        found = extract(*given)
        turned.append(asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "a turn"), loop).result(30))
        return found

    monkeypatch.setattr("fitrag_integrations.web.pages.extract", watched)
    found = await PageReader(web.guard()).aread([at(site, f"/large?{i}") for i in range(3)])
    assert all(isinstance(each, Page) for each in found) and turned == ["a turn"] * 3


@pytest.mark.parametrize("urls", ["http://site.example/", [None], [b"http://site.example/"], 3])
async def test_wrong_urls_are_told(urls):
    with pytest.raises(InputError, match="urls"):
        await PageReader().aread(urls)
