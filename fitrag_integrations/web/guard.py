"""Network guard: which URLs may be fetched, from which addresses, and how much of them.

URLs from a search engine or a page are untrusted. Every fetch shares one set of limits, which
``Fetcher`` applies to each hop. The guard resolves a name when the connection is made, and the
connection goes to the address that was checked, so DNS rebinding has no effect. Addresses are
public or not by the IANA special-purpose registries (RFC 6890 and its updates). An IPv4 address
inside an IPv6 one (mapped, or behind NAT64) is judged as the IPv4 address; 6to4 and Teredo, which
are obsolete, are refused.

The guard protects this package's own fetches only; it is not a firewall.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from fitrag_integrations import __version__
from fitrag_integrations.core.checks import (
    Checked,
    Count,
    Seconds,
    Size,
    check_callable,
    check_many,
    check_number,
    check_text,
    check_whole,
)
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.core.http import Limits
from fitrag_integrations.errors import InputError, SearchError, raise_if, refuse_if

if TYPE_CHECKING:
    import httpx

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

METADATA_ADDRESSES = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",  # Azure's, which is a public address
            "192.0.0.192",
        ),
    )
)
"""Where cloud machines read their credentials: always refused."""

METADATA_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "instance-data"})

_UNICAST = IPv6Network("2000::/3")  # all unicast addresses that are assigned so far
_NAT64 = IPv6Network("64:ff9b::/96")
# Special addresses that Python 3.11 considers public, and tunnels.
_ALSO_SPECIAL = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2002::/16", "3fff::/20"))
)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def canonical_host(host: str) -> str:
    """Normalize a host name or address as browsers and resolvers do.

    Names become lower case without the trailing dot; ``0x7f.1``, ``2130706433``, ``0177.0.0.1``
    and ``::ffff:7f00:1`` all become ``127.0.0.1``. Expects ASCII (IDNA already applied); raises
    ``ValueError`` otherwise.
    """
    name = host.lower().removesuffix(".")
    if ":" in name:
        return str(reached(IPv6Address(name)))
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(socket.inet_aton(name)))
        except OSError:
            raise ValueError("not an IPv4 address") from None
    raise_if(
        len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels),
        ValueError,
        f"not a host name: {host[:80]!r}",
    )
    return name


def reached(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if not isinstance(address, IPv6Address):
        return address
    return (
        IPv4Address(int(address) & 0xFFFFFFFF)
        if address in _NAT64
        else address.ipv4_mapped or address
    )


def refusal(address: str, allowed: Iterable[Network] = ()) -> str | None:
    """Return the reason to refuse an address, or None if it is public or allowed.

    ``allowed`` networks open private ones on purpose; the metadata addresses stay shut.
    """
    bare, _, zone = address.partition("%")
    if not is_address(bare):
        return "not an address"
    found = reached(ip_address(bare))
    if found in METADATA_ADDRESSES:
        return "a cloud metadata address"
    if not zone and any(found in network for network in allowed):
        return None
    for name in ("unspecified", "loopback", "multicast", "link_local", "reserved", "private"):
        if getattr(found, f"is_{name}"):
            return f"a {name.replace('_', '-')} address"
    special = zone or any(found in network for network in _ALSO_SPECIAL)
    public = found.is_global and (found.version == 4 or found in _UNICAST) and not special
    return None if public else "not a public address"


def within(host: str, domains: Sequence[str]) -> bool:
    """Check whether a host is one of the domains or a subdomain of one."""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def is_address(host: str) -> bool:
    """Check whether a normalized host is an address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


AGENT = "fitrag-integrations"
USER_AGENT = f"{AGENT}/{__version__} (a library; its user chose this page)"
Addresses: TypeAlias = Sequence[str]
Resolver: TypeAlias = (
    Mapping[str, Addresses] | Callable[[str], Addresses] | Callable[[str], Awaitable[Addresses]]
)


def _check_each(field: str, given: object, read: Callable[[str], str], allowed: str) -> object:
    """Require texts that can be read; a ``ValueError`` of ``read`` names the one that cannot."""
    known = []
    for text in check_many(field, given, str):
        try:
            known.append(read(text))
        except ValueError:
            raise InputError.of(field, given=text, allowed=allowed) from None
    return tuple(known)


def _domain(text: str) -> str:
    bare = text.strip().removeprefix("*").removeprefix(".")
    return canonical_host(bare.encode("idna").decode("ascii"))


def _check_agent(field: str, given: object) -> str:
    agent = check_text(field, given, blank=False)
    refuse_if(not agent.isprintable(), field, agent, "printable text")
    return agent


_Domains: TypeAlias = Annotated[
    Sequence[str], partial(_check_each, read=_domain, allowed="host names")
]
_Networks: TypeAlias = Annotated[
    Sequence[str],
    partial(
        _check_each, read=lambda t: ip_network(t) and t, allowed="networks such as 10.20.0.0/16"
    ),
]

_Ports: TypeAlias = Annotated[
    Sequence[int],
    lambda field, given: tuple(
        check_whole(field, port, low=1, high=65535) for port in check_many(field, given, int)
    ),
]
_Resolving: TypeAlias = Annotated[
    Resolver,
    lambda field, given: given if isinstance(given, Mapping) else check_callable(field, given),
]


@dataclass(frozen=True, kw_only=True)
class NetworkGuard(Checked, Limits):
    """Limits of every fetch; the defaults suit the open web.

    Only public addresses are connected to: a name is refused if one of its addresses is private,
    loopback, link-local, reserved or a cloud metadata address. No cookie, referer or authorization
    is sent or stored, and no proxy of the environment is used.

    Args:
        allow_domains: The only domains to fetch from, with their subdomains; empty allows all.
        deny_domains: Domains that are never fetched from, with their subdomains.
        allow_addresses: Networks of an intranet that may be read, e.g. ``["10.20.0.0/16"]``.
            Anybody who can pass a URL to the reader can then have it read any page in them.
        ports: Accepted ports of a URL.
        resolver: Mapping or callable from a name to its addresses, used instead of DNS; its
            answers are checked in the same way.
        max_redirects: Maximum number of redirects, each checked like the first URL; none may lead
            from https to http.
        max_bytes: Maximum size of a body as sent.
        max_decoded_bytes: Maximum size of a body after decompression.
        max_ratio: Maximum ratio of the two.
        read_seconds: Maximum time without a byte.
        page_seconds: Maximum time for a page with its redirects, without the wait for a slot.
        per_host: Maximum number of concurrent requests to one host.
        robots: Whether to obey robots.txt (RFC 9309).
        user_agent: User agent that is sent, and looked for in robots.txt.

    Raises:
        InputError: If an option is out of range.

    Example:
        >>> PageReader(NetworkGuard(allow_domains=["wikipedia.org"], max_bytes=1_000_000))
    """

    allow_domains: _Domains = ()
    deny_domains: _Domains = ()
    allow_addresses: _Networks = ()
    ports: _Ports = (80, 443)
    resolver: _Resolving | None = field(default=None, repr=False, hash=False)
    max_redirects: Size = 5
    max_bytes: Count = 5_000_000
    max_decoded_bytes: Count = 10_000_000
    max_ratio: Annotated[float, partial(check_number, low=1e-3)] = 100.0
    read_seconds: Seconds = 10.0
    page_seconds: Seconds = 20.0
    per_host: Count = 2
    robots: bool = True
    user_agent: Annotated[str, _check_agent] = USER_AGENT

    def admit(self, url: str | httpx.URL) -> httpx.URL:
        """Return ``url`` as it will be fetched: with a normalized host and no fragment.

        Names are resolved later, when connecting.

        Raises:
            SearchError: "blocked" if scheme, user, port, host or domain is not allowed.
        """
        library = require_extra("httpx", extra="web", feature="NetworkGuard")
        try:
            parsed: httpx.URL = library.URL(url)
            host = canonical_host(parsed.raw_host.decode("ascii"))
            known = parsed.copy_with(host=host, fragment=None)
        except (library.InvalidURL, ValueError) as error:
            raise SearchError("not a URL that can be fetched", kind="blocked") from error
        usual = 443 if known.scheme == "https" else 80
        port = usual if known.port is None else known.port
        why = refusal(host, map(ip_network, self.allow_addresses)) if is_address(host) else None
        objections = {
            "neither http nor https": known.scheme not in ("http", "https"),
            "it carries a user name": known.userinfo,
            "its port is not allowed": port not in self.ports,
            "its host is denied": host in METADATA_NAMES or within(host, self.deny_domains),
            "its host is not among those allowed": self.allow_domains
            and not within(host, self.allow_domains),
            f"its host is {why}": why,
        }
        for objection, holds in objections.items():
            raise_if(
                holds, SearchError, f"{shown(known)} is not fetched: {objection}", kind="blocked"
            )
        return known

    def follow(self, origin: httpx.URL, location: str) -> httpx.URL:
        """Check a redirect as ``admit`` checks a URL.

        Args:
            origin: URL that redirects.
            location: Target, which may be relative to ``origin``.

        Raises:
            SearchError: "blocked" as in ``admit``, and for a redirect from https to http.
        """
        library = require_extra("httpx", extra="web", feature="NetworkGuard")
        try:
            target = origin.join(location)
        except (library.InvalidURL, ValueError) as error:
            raise SearchError(
                f"{shown(origin)} redirects to what is not a URL", kind="blocked"
            ) from error
        raise_if(
            origin.scheme == "https" and target.scheme == "http",
            SearchError,
            f"{shown(origin)} redirects from https to http",
            kind="blocked",
        )
        return self.admit(target)

    async def addresses(self, host: str) -> Sequence[str]:
        """Resolve a host without blocking the event loop, and check every address it has.

        Raises:
            SearchError: "blocked" if one address is refused, "transient" if there is none.
        """
        found = await self._resolved(host)
        for address in found:
            why = refusal(address, map(ip_network, self.allow_addresses))
            raise_if(why, SearchError, f"{host} is not fetched: {address} is {why}", kind="blocked")
        raise_if(not found, SearchError, f"{host}: the name does not resolve", kind="transient")
        return found

    async def _resolved(self, host: str) -> Sequence[str]:
        if is_address(host):
            return (host,)
        if isinstance(self.resolver, Mapping):
            return tuple(self.resolver.get(host, ()))
        try:
            if self.resolver is None:
                loop = asyncio.get_running_loop()
                records = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                return tuple(dict.fromkeys(str(record[4][0]) for record in records))
            answer: Any = await asyncio.to_thread(cast(Callable[[str], Any], self.resolver), host)
            return tuple(await answer if isawaitable(answer) else answer)
        except (OSError, UnicodeError):
            return ()


def shown(url: httpx.URL) -> str:
    """Return a URL for a message: shortened, and without its query, which may hold a key."""
    path = url.raw_path.partition(b"?")[0]  # still percent-encoded, so without line breaks
    return f"{url.scheme}://{(url.netloc + path).decode('ascii', 'replace')}"[:200]
