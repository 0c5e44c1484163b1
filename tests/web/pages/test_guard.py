"""What the guard refuses, in every spelling, before and while connecting."""

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fitrag_integrations.errors import SearchError
from fitrag_integrations.web import NetworkGuard
from fitrag_integrations.web.guard import canonical_host, refusal

# The IANA special-purpose registries, typed in here once more: the oracle of the property tests.
SPECIAL_4 = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
]  # fmt: skip
SPECIAL_6 = [
    "::/128", "::1/128", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/23",
    "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/3", "5f00::/16", "fc00::/7", "fe80::/10",
    "fec0::/10", "ff00::/8",
]  # fmt: skip


def within(*networks):
    return st.sampled_from(networks).flatmap(lambda net: st.ip_addresses(network=net))


special_4 = within(*SPECIAL_4)
special_6 = within(*SPECIAL_6)


def spellings_4(address):
    """Give a URL host for an IPv4 address in every way that some resolver reads."""
    number, parts = int(address), list(address.packed)
    low16, low24 = number & 0xFFFF, number & 0xFFFFFF
    return [
        str(address),
        f"{address}.",
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(map(hex, parts)),
        ".".join(f"0{part:o}" for part in parts),
        ".".join(f"0x{part:08X}" for part in parts),
        f"{parts[0]}.{low24}",
        f"{parts[0]}.{parts[1]}.{low16}",
        f"0x{parts[0]:x}.0{low24:o}",
        str(address).replace(".", "\u3002"),
        str(address).translate({ord(str(i)): chr(0xFF10 + i) for i in range(10)}),
        f"[::ffff:{address}]",
        f"[::ffff:{number >> 16:x}:{low16:x}]",
        f"[0:0:0:0:0:FFFF:{address}]",
        f"[64:ff9b::{address}]",
        f"[::{address}]",
        f"[2002:{number >> 16:x}:{low16:x}::1]",
        f"[2001:0:{number >> 16:x}:{low16:x}::1]",
        "".join(f"%{ord(letter):02x}" for letter in str(address)),
    ]


@given(special_4)
@example(ipaddress.ip_address("127.0.0.1"))
@example(ipaddress.ip_address("169.254.169.254"))
@example(ipaddress.ip_address("0.0.0.0"))
@example(ipaddress.ip_address("255.255.255.255"))
def test_no_special_ipv4_address_is_admitted_in_any_spelling(address):
    for host in spellings_4(address):
        with pytest.raises(SearchError) as refused:
            NetworkGuard().admit(f"http://{host}/")
        assert refused.value.kind == "blocked"


@given(special_6)
@example(ipaddress.ip_address("fd00:ec2::254"))
@example(ipaddress.ip_address("::1"))
def test_no_special_ipv6_address_is_admitted_in_any_spelling(address):
    for host in (str(address), address.exploded, address.exploded.upper(), f"{address}%25eth0"):
        with pytest.raises(SearchError) as refused:
            NetworkGuard().admit(f"http://[{host}]/")
        assert refused.value.kind == "blocked"


@given(special_4 | special_6)
async def test_no_special_address_is_taken_from_the_resolver(address):
    mapped = f"::ffff:{address}" if address.version == 4 else f"{address}%eth0"
    for answer in ([str(address)], [mapped], ["93.184.216.34", str(address)]):
        guard = NetworkGuard(resolver={"site.example": answer})
        with pytest.raises(SearchError, match="is not fetched") as refused:
            await guard.addresses("site.example")
        assert refused.value.kind == "blocked"


@given(st.ip_addresses(v=4))
def test_every_other_ipv4_address_is_public(address):
    special = any(address in ipaddress.ip_network(network) for network in SPECIAL_4)
    assert (refusal(str(address)) is not None) == special


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:21f:cb07::1", "64:ff9b::5db8:d822", "::ffff:8.8.8.8"]
)
def test_public_addresses_are_not_refused(address):
    assert refusal(address) is None


@given(st.ip_addresses(v=4))
def test_every_numeric_spelling_is_read_as_the_address(address):
    for host in spellings_4(address)[:11]:
        assert canonical_host(host) == str(address)


@pytest.mark.parametrize(
    "host", ["", ".", "a..b", "1.2.3.4.5", "1.2.3.256", "08.1", "0x1g.1", "a b"]
)
def test_what_is_no_host_is_none(host):
    with pytest.raises(ValueError):
        canonical_host(host)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://site.example/",
        "file:///etc/passwd",
        "gopher://site.example/",
        "javascript:alert(1)",
        "//site.example/",
        "site.example",
        "",
        "http://",
        "http:///path",
        "http://user@site.example/",
        "http://user:word@site.example/",
        "http://public.example\\@127.0.0.1/",
        "http://site.example:22/",
        "http://site.example:0/",
        "http://site.example:99999/",
        "http://site example/",
        "http://site\n.example/",
        "http://\ud800.example/",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://METADATA.google.internal./",
    ],
)
def test_such_urls_are_not_admitted(url):
    with pytest.raises(SearchError) as refused:
        NetworkGuard().admit(url)
    assert refused.value.kind == "blocked"


def test_urls_come_out_in_one_spelling():
    guard = NetworkGuard()
    assert str(guard.admit("HTTP://Site.Example.:80/a?b=c#d")) == "http://site.example/a?b=c"
    assert str(guard.admit("https://bücher.example/ä")) == "https://xn--bcher-kva.example/%C3%A4"


def test_domains_stand_for_their_subdomains():
    guard = NetworkGuard(
        allow_domains=["Example.org", "*.Bücher.example"], deny_domains=["bad.example.org"]
    )
    guard.admit("https://example.org/")
    guard.admit("https://en.example.org/")
    guard.admit("https://www.xn--bcher-kva.example/")
    refused = "bad.example.org very.bad.example.org notexample.org example.org.evil.example"
    for host in refused.split():
        with pytest.raises(SearchError, match="host is"):
            guard.admit(f"https://{host}/")


async def test_an_allowed_network_opens_itself_and_no_metadata():
    guard = NetworkGuard(
        allow_addresses=["10.20.0.0/16", "169.254.0.0/16", "fd00::/8", "100.64.0.0/10"]
    )
    guard.admit("http://10.20.1.2/")
    outside, metadata = "10.21.1.2", "169.254.169.254 [fd00:ec2::254] 100.100.100.200 168.63.129.16"
    for host in (outside, *metadata.split()):
        with pytest.raises(SearchError, match="is not fetched"):
            guard.admit(f"http://{host}/")


async def test_a_resolver_may_be_a_callable_or_async_and_may_know_nothing():
    async def later(host):
        return ["93.184.216.34"]

    for resolver in (later, lambda host: ["93.184.216.34"], {"site.example": ("93.184.216.34",)}):
        assert list(await NetworkGuard(resolver=resolver).addresses("site.example")) == [
            "93.184.216.34"
        ]
    for resolver in ({}, lambda host: [], {"site.example": []}):
        with pytest.raises(SearchError, match="does not resolve") as unknown:
            await NetworkGuard(resolver=resolver).addresses("site.example")
        assert unknown.value.kind == "transient"
    with pytest.raises(SearchError, match="not an address"):
        await NetworkGuard(resolver={"site.example": ["nonsense"]}).addresses("site.example")


async def test_the_systems_own_lookup_is_checked_too():
    with pytest.raises(SearchError, match="localhost is not fetched: .* loopback"):
        await NetworkGuard().addresses("localhost")


def test_redirects_never_lead_from_https_to_http():
    guard = NetworkGuard()
    start = guard.admit("https://site.example/a/b?c")
    assert str(guard.follow(start, "../d")) == "https://site.example/d"
    assert str(guard.follow(start, "//other.example/e")) == "https://other.example/e"
    with pytest.raises(SearchError, match="from https to http"):
        guard.follow(start, "http://site.example/")
    with pytest.raises(SearchError, match="loopback"):
        guard.follow(start, "https://[::1]/")


def test_messages_hold_no_query_and_no_line_break():
    with pytest.raises(SearchError) as refused:
        NetworkGuard().admit("http://127.0.0.1/a%0Ab?key=SECRET")
    assert "SECRET" not in str(refused.value) and "\n" not in str(refused.value)
