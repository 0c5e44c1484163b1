"""The network guard: what may be fetched from the web, from where, and how much of it.

Addresses that come from a search engine, or from a page, are a stranger's. A guard is a set of
limits that everybody who fetches shares; ``Fetcher`` keeps to it on every hop. A name is resolved
by the guard at the moment of connecting, and the connection goes to the very address that was
checked, so that a name server that changes its answer in between changes nothing.

What it leaves out: a firewall. It protects this package's own fetches and nothing else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from fitrag_integrations import __version__
from fitrag_integrations.core.checks import (
    check_callable,
    check_many,
    check_number,
    check_text,
    check_whole,
)
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError, SearchError
from fitrag_integrations.web.pages.addresses import (
    METADATA_NAMES,
    Network,
    canonical_host,
    is_address,
    read_domain,
    read_network,
    refusal,
    within,
)

if TYPE_CHECKING:
    import httpx

AGENT = "fitrag-integrations"
USER_AGENT = f"{AGENT}/{__version__} (a library; its user chose this page)"
Addresses: TypeAlias = Sequence[str]
Resolver: TypeAlias = (
    Mapping[str, Addresses] | Callable[[str], Addresses] | Callable[[str], Awaitable[Addresses]]
)


@dataclass(frozen=True, kw_only=True)
class NetworkGuard:
    """Set the limits of every fetch; the defaults suit the open web.

    ``allow_domains``, where given, are the only ones fetched from, and ``deny_domains`` never are;
    a domain stands for its subdomains too. ``ports`` are the ports of a URL that are accepted.

    Only public addresses are connected to: a name with a single private, loopback, link-local,
    reserved or metadata address among its addresses is refused. ``allow_addresses`` names the
    networks of an intranet that may be read all the same (``["10.20.0.0/16"]``): whoever can
    place a URL before the reader can then have any page in them read. ``resolver``, a mapping or
    a callable from a name to its addresses, takes the place of DNS and is checked like it.

    ``max_redirects`` hops are followed, each checked like the first, none from https to http.
    ``max_bytes`` bounds a body as sent, ``max_decoded_bytes`` once decompressed, ``max_ratio``
    the one by the other. ``read_seconds`` is the longest silence, ``page_seconds`` the time for
    a page with its redirects, waiting for a turn not counted. ``per_host`` requests run at once
    against one host. ``robots`` keeps to robots.txt (RFC 9309), where ``user_agent`` is looked for.

    No cookie, referer or authorization is sent or kept, and no proxy of the environment is used.
    """

    allow_domains: Sequence[str] = ()
    deny_domains: Sequence[str] = ()
    allow_addresses: Sequence[str] = ()
    ports: Sequence[int] = (80, 443)
    resolver: Resolver | None = field(default=None, repr=False, hash=False)
    max_redirects: int = 5
    max_bytes: int = 5_000_000
    max_decoded_bytes: int = 10_000_000
    max_ratio: float = 100.0
    read_seconds: float = 10.0
    page_seconds: float = 20.0
    per_host: int = 2
    robots: bool = True
    user_agent: str = USER_AGENT

    def __post_init__(self) -> None:
        for name, given in (
            ("allow_domains", self.allow_domains),
            ("deny_domains", self.deny_domains),
        ):
            domains = check_many(name, given, str)
            object.__setattr__(self, name, tuple(read_domain(name, domain) for domain in domains))
        networks = check_many("allow_addresses", self.allow_addresses, str)
        object.__setattr__(self, "allow_addresses", networks)
        _ = self._networks  # raises for what is none
        ports = check_many("ports", self.ports, int)
        checked = tuple(check_whole("ports", port, low=1, high=65535) for port in ports)
        object.__setattr__(self, "ports", checked)
        check_whole("max_redirects", self.max_redirects, low=0)
        check_whole("max_bytes", self.max_bytes, low=1)
        check_whole("max_decoded_bytes", self.max_decoded_bytes, low=1)
        check_whole("per_host", self.per_host, low=1)
        check_number("max_ratio", self.max_ratio, low=1e-3)
        check_number("read_seconds", self.read_seconds, low=1e-3)
        check_number("page_seconds", self.page_seconds, low=1e-3)
        if not isinstance(self.resolver, Mapping):
            check_callable("resolver", self.resolver)
        if not check_text("user_agent", self.user_agent, blank=False).isprintable():
            raise InputError.of("user_agent", given=self.user_agent, allowed="printable text")

    def admit(self, url: str | httpx.URL) -> httpx.URL:
        """Give ``url`` as it will be fetched: host in its usual spelling, no fragment.

        Raises ``SearchError`` of kind "blocked" where scheme, user, port, host or domain is not
        allowed. Names are not resolved here: that is done when connecting.
        """
        library = require_extra("httpx", extra="web", feature="NetworkGuard")
        try:
            parsed: httpx.URL = library.URL(url)
            host = canonical_host(parsed.raw_host.decode("ascii"))
            known = parsed.copy_with(host=host, fragment=None)
        except (library.InvalidURL, ValueError) as error:
            raise SearchError("not a URL that can be fetched", kind="blocked") from error
        why = self._objection(known, host)
        if why:
            raise SearchError(f"{shown(known)} is not fetched: {why}", kind="blocked")
        return known

    def follow(self, origin: httpx.URL, location: str) -> httpx.URL:
        """Admit a redirect from ``origin`` to ``location``, which may be relative to it.

        Raises ``SearchError`` of kind "blocked" as ``admit`` does, and from https to http.
        """
        library = require_extra("httpx", extra="web", feature="NetworkGuard")
        try:
            target = origin.join(location)
        except (library.InvalidURL, ValueError) as error:
            message = f"{shown(origin)} redirects to what is not a URL"
            raise SearchError(message, kind="blocked") from error
        if origin.scheme == "https" and target.scheme == "http":
            message = f"{shown(origin)} redirects from https to http"
            raise SearchError(message, kind="blocked")
        return self.admit(target)

    async def addresses(self, host: str) -> Sequence[str]:
        """Resolve a host and check every address it has; the event loop stays free.

        Raises ``SearchError``: "blocked" where one address is refused, "transient" where the name
        has none.
        """
        found = await self._looked_up(host)
        for address in found:
            why = refusal(address, self._networks)
            if why:
                message = f"{host} is not fetched: {address} is {why}"
                raise SearchError(message, kind="blocked")
        if not found:
            raise SearchError(f"{host}: the name does not resolve", kind="transient")
        return found

    @property
    def _networks(self) -> list[Network]:
        return [read_network("allow_addresses", text) for text in self.allow_addresses]

    def _objection(self, url: httpx.URL, host: str) -> str | None:
        if url.scheme not in ("http", "https"):
            return "neither http nor https"
        if url.userinfo:
            return "it carries a user name"
        usual = 443 if url.scheme == "https" else 80
        if (usual if url.port is None else url.port) not in self.ports:
            return "its port is not allowed"
        if host in METADATA_NAMES or within(host, self.deny_domains):
            return "its host is denied"
        if self.allow_domains and not within(host, self.allow_domains):
            return "its host is not among those allowed"
        why = refusal(host, self._networks) if is_address(host) else None
        return why and f"its host is {why}"

    async def _looked_up(self, host: str) -> Sequence[str]:
        if is_address(host):
            return (host,)
        try:
            return tuple(await _look_up(host) if self.resolver is None else await self._asked(host))
        except (OSError, UnicodeError):
            return ()

    async def _asked(self, host: str) -> Addresses:
        if isinstance(self.resolver, Mapping):
            return self.resolver.get(host, ())
        answer: Any = await asyncio.to_thread(cast(Callable[[str], Any], self.resolver), host)
        found: Addresses = await answer if isawaitable(answer) else answer
        return found


async def _look_up(host: str) -> Addresses:
    loop = asyncio.get_running_loop()
    records = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(record[4][0]) for record in records))


def shown(url: httpx.URL) -> str:
    """Write a URL for a message: without its query, which may hold a key, and not too long."""
    path = url.raw_path.partition(b"?")[0]  # still percent-encoded, so without line breaks
    return f"{url.scheme}://{(url.netloc + path).decode('ascii', 'replace')}"[:200]
