"""robots.txt by RFC 9309, parsed by Protego. ``Crawl-delay`` and ``Sitemap`` are ignored."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import SearchError
from fitrag_integrations.web.fetch import Allowance, Fetched, Fetcher, persist
from fitrag_integrations.web.guard import AGENT, shown

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 512_000  # RFC 9309, section 2.5
KEPT = 500  # number of sites whose rules are remembered
DAY, MINUTE = 86_400.0, 60.0
_AGENT_LINE = re.compile(r"\s*user[-\s]*agent[\s:]+([^\s/#]*)", re.IGNORECASE)


def parse_rules(text: str, agent: str = AGENT) -> Any:
    """Parse a robots.txt for one user agent; ``can_fetch(url, agent)`` of the result decides.

    Groups of other agents are merged into one: Protego copies each rule to all agents of its group,
    so a file of many agents and many rules would cost their product.
    """
    lines = []
    for line in text.splitlines():
        if found := _AGENT_LINE.match(line):
            name = found[1].lower()
            line = f"user-agent: {name if name in (agent.lower(), '*') else '?'}"
        lines.append(line)
    return require_extra("protego", extra="web", feature="PageReader").Protego.parse(
        "\n".join(lines)
    )


class Robots:
    """Cache of each site's robots.txt, fetched once a day.

    A robots.txt that answers 5xx, or cannot be fetched after ``retries`` retries, closes its site
    for a minute.
    """

    def __init__(self, retries: int = 0) -> None:
        self._retries = retries
        self._known: OrderedDict[str, tuple[float, Any]] = OrderedDict()

    async def permit(self, at: httpx.URL, allowance: Allowance, fetcher: Fetcher) -> None:
        """Raise ``RobotsError`` if the site does not allow the page to be read.

        The time for robots.txt is subtracted from the page's ``allowance``. If it cannot be
        fetched, its ``SearchError`` is raised.
        """
        site = f"{at.scheme}://{at.netloc.decode('ascii')}"
        async with fetcher.slots.alone(site):
            until, rules = self._known.get(site, (0.0, None))
            if until <= time.monotonic():
                rules = await self._asked(site, fetcher, allowance)
        if isinstance(rules, SearchError):
            raise SearchError(str(rules), kind=rules.kind)  # a new one for each page
        if rules is None:
            raise RobotsError(
                f"{shown(at)} is not fetched: its robots.txt cannot be read", lasting=False
            )
        if not await asyncio.to_thread(rules.can_fetch, str(at), AGENT):
            raise RobotsError(
                f"{shown(at)} is not fetched: its robots.txt asks robots not to read it",
                lasting=True,
            )

    async def _asked(self, site: str, fetcher: Fetcher, allowance: Allowance) -> Any:
        """Return the site's rules, None if it fails, or the error of the network."""
        was_short = allowance.left < fetcher.guard.page_seconds / 2
        answer: Any
        try:
            answer = await persist(lambda: _rules(site, fetcher, allowance), self._retries)
        except SearchError as error:
            answer = SearchError(str(error), kind=error.kind)
            if was_short and allowance.left <= 0:
                return answer  # the page had no time left: no reason to close the site
        failed = answer is None or isinstance(answer, SearchError)
        self._known[site] = (time.monotonic() + (MINUTE if failed else DAY), answer)
        self._known.move_to_end(site)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return answer


class RobotsError(SearchError):
    """Page closed by robots.txt; ``lasting`` unless the file just could not be read."""

    def __init__(self, message: str, *, lasting: bool) -> None:
        super().__init__(message, kind="blocked")
        self.lasting = lasting


async def _rules(site: str, fetcher: Fetcher, allowance: Allowance) -> Any:
    at = f"{site}/robots.txt"
    found: Fetched = await fetcher.get(at, types=(), cut=MAX_BYTES, allowance=allowance)
    if found.status >= 500:
        return None
    body = found.body if 200 <= found.status < 300 else b""
    return await asyncio.to_thread(parse_rules, body.decode("utf-8-sig", "replace"))
