"""Fetching: which connection is made, what is sent, what is followed."""

import asyncio
import gzip

import pytest
from hostile_server import PUBLIC, page, redirect, send, serving, slowly

from fitrag_integrations.errors import SearchError
from fitrag_integrations.web.fetch import Fetcher, PinnedNetwork, Slots

pytestmark = pytest.mark.allow_hosts(["127.0.0.1", "127.0.0.2", "::1"])


def fetcher(guard, total=8):
    return Fetcher(guard, Slots(total, guard.per_host))


async def get(guard, url, **options):
    async with fetcher(guard) as web:
        return await web.get(url, **options)


async def refused(guard, url, **options):
    with pytest.raises(SearchError) as error:
        await get(guard, url, **options)
    return error.value


async def test_the_name_is_asked_for_at_the_address_that_was_checked(web):
    site = web.site()
    found = await get(web.guard(), f"http://Site.Example.:{site.port}/good?q=1#part")
    assert found.status == 200 and b"old mill" in found.body
    assert site.asked == [(f"site.example:{site.port}", "/good?q=1")]


class Recorder:
    """Stand below the guard and note the addresses it connects to."""

    def __init__(self):
        self.connected = []

    async def connect_tcp(self, host, port, **options):
        self.connected.append(host)
        raise OSError("nothing is sent in this test")


async def test_only_checked_addresses_are_connected_to(web):
    answers = [["93.184.216.34"], ["127.0.0.1"], ["93.184.216.34", "10.0.0.1"]]
    guard = web.guard(resolver=lambda host: answers.pop(0))
    below = Recorder()
    network = PinnedNetwork(guard, below)
    with pytest.raises(OSError, match="nothing is sent"):
        await network.connect_tcp("site.example", 80)
    for _ in range(2):
        with pytest.raises(SearchError, match="is not fetched"):
            await network.connect_tcp("site.example", 80)
    assert below.connected == ["93.184.216.34"]
    with pytest.raises(SearchError, match="unix sockets"):
        await network.connect_unix_socket("/run/any.sock")


async def test_the_next_address_is_tried_where_one_is_closed(web):
    site = web.site()
    guard = web.guard(
        allow_addresses=[PUBLIC, "127.0.0.1"],
        resolver={"site.example": ["127.0.0.1", PUBLIC]},
        ports=[site.port],
    )
    assert (await get(guard, f"http://site.example:{site.port}/good")).status == 200


async def test_nothing_personal_is_sent_or_kept(web, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{web.private.port}")
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{web.private.port}")
    site = web.site({"/start": lambda r: send(r, 302, Location="/good", Set_Cookie="a=b")})
    await get(web.guard(), f"http://site.example:{site.port}/start")
    assert web.private.asked == []
    for headers in site.headers:
        assert set(headers) == {"host", "user-agent", "accept", "accept-encoding"}
        assert headers["user-agent"].startswith("fitrag-integrations/0.")
        assert "a library; its user chose this page" in headers["user-agent"]


async def test_redirects_are_followed_up_to_the_limit(web):
    hops = {f"/{i}": redirect(f"/{i + 1}", status) for i, status in enumerate((301, 302, 303, 307))}
    site = web.site({**hops, "/4": redirect("good", 308)})
    at = f"http://site.example:{site.port}"
    found = await get(web.guard(), f"{at}/0")
    assert str(found.url) == f"{at}/good"
    error = await refused(web.guard(max_redirects=4), f"{at}/0")
    assert error.kind == "blocked" and "more than 4 redirects" in str(error)


async def test_lists_hold_on_every_hop(web):
    site = web.site({}, "site.example", "other.example")
    site.routes["/away"] = redirect(f"http://other.example:{site.port}/good")
    away = f"http://site.example:{site.port}/away"
    assert (await get(web.guard(), away)).status == 200
    for lists in ({"allow_domains": ["site.example"]}, {"deny_domains": ["other.example"]}):
        assert (await refused(web.guard(**lists), away)).kind == "blocked"
    seen = []

    async def permit(url, allowance):
        seen.append(url.host)

    await get(web.guard(), away, permit=permit)
    assert seen == ["site.example", "other.example"]


@pytest.mark.parametrize(
    "location", ["ftp://site.example/", "http://[", "http://a:b@site.example/"]
)
async def test_redirects_to_what_is_not_fetched_are_refused(web, location):
    site = web.site({"/start": redirect(location)})
    assert (await refused(web.guard(), f"http://site.example:{site.port}/start")).kind == "blocked"


async def test_only_pages_are_read(web):
    routes = {
        "/pdf": page("x", Content_Type="application/pdf"),
        "/plain": page("x", Content_Type="text/plain; charset=utf-8"),
        "/brotli": page("x", Content_Encoding="br"),
        "/twice": page(gzip.compress(gzip.compress(b"x")), Content_Encoding="gzip, gzip"),
        "/broken": page(gzip.compress(b"x" * 1000)[:-12], Content_Encoding="gzip"),
        "/nonsense": page(b"not packed at all", Content_Encoding="gzip"),
        "/packed": page(gzip.compress(b"words"), Content_Encoding="gzip"),
    }
    site = web.site(routes)
    at = f"http://site.example:{site.port}"
    for path in ("/pdf", "/brotli", "/twice"):
        assert (await refused(web.guard(), at + path)).kind == "blocked"
    for path in ("/broken", "/nonsense"):
        assert (await refused(web.guard(), at + path)).kind == "transient"
    assert (await get(web.guard(), f"{at}/plain")).body == b"x"
    assert (await get(web.guard(), f"{at}/packed")).body == b"words"


async def test_bodies_are_bounded_as_sent_and_as_unpacked(web):
    routes = {
        "/long": page("a" * 3000),
        "/packed": page(gzip.compress(b"a" * 30_000), Content_Encoding="gzip"),
        "/dense": page(gzip.compress(b"a" * 3_000_000), Content_Encoding="gzip"),
    }
    site = web.site(routes)
    at = f"http://site.example:{site.port}"
    assert len((await get(web.guard(max_bytes=3000), f"{at}/long")).body) == 3000
    assert "larger than allowed" in str(await refused(web.guard(max_bytes=2999), f"{at}/long"))
    assert len((await get(web.guard(max_decoded_bytes=30_000), f"{at}/packed")).body) == 30_000
    error = await refused(web.guard(max_decoded_bytes=29_999), f"{at}/packed")
    assert error.kind == "blocked" and "once unpacked" in str(error)
    assert "more than its size allows" in str(await refused(web.guard(), f"{at}/dense"))
    assert len((await get(web.guard(max_ratio=5000), f"{at}/dense")).body) == 3_000_000
    assert len((await get(web.guard(), f"{at}/dense", cut=500)).body) == 500


async def test_a_host_sees_few_requests_at_once_and_others_do_not_wait_for_it(web):
    slow = slowly(page("words"))
    one, two = web.site({"/slow": slow}, "one.example"), web.site({"/slow": slow}, "two.example")
    async with Fetcher(web.guard(per_host=2), Slots(8, 2)) as client:
        urls = [
            f"http://{name}.example:{site.port}/slow" for name, site in (("one", one), ("two", two))
        ]
        await asyncio.gather(*(client.get(url) for url in urls * 6))
    assert one.most <= 2 and two.most <= 2 and one.most + two.most > 2
    assert len(one.asked) == len(two.asked) == 6


async def test_answers_that_are_no_page_come_without_a_body(web):
    site = web.site({"/gone": page("x" * 10_000, status=410)})
    found = await get(web.guard(), f"http://site.example:{site.port}/gone")
    assert (found.status, found.body) == (410, b"")


async def test_a_closed_port_is_a_passing_failure(web):
    with serving(web.site(), PUBLIC) as closed:
        port = closed.port
    error = await refused(web.guard(ports=[port]), f"http://site.example:{port}/good")
    assert error.kind == "transient"
