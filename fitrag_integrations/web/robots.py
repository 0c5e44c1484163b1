"""robots.txt by RFC 9309: groups by user agent, the longest matching rule decides.

``urllib.robotparser`` applies the first matching rule and does not know ``*`` and ``$``, so it
would read pages that a site has closed. ``Crawl-delay`` and ``Sitemap`` are ignored.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from fitrag_integrations.errors import SearchError
from fitrag_integrations.web.fetch import Allowance, Fetched, Fetcher, persist
from fitrag_integrations.web.guard import AGENT, shown

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 512_000  # RFC 9309, section 2.5
KEPT = 500  # number of sites whose rules are remembered
DAY, MINUTE = 86_400.0, 60.0


@dataclass(frozen=True)
class RobotsRules:
    """Rules for one user agent: (allowed, pattern) pairs, in any order."""

    rules: tuple[tuple[bool, str], ...] = ()

    @classmethod
    def parse(cls, text: str, agent: str = AGENT) -> RobotsRules:
        """Parse the groups that name the agent, or those for all agents (``*``) if none does."""
        groups = list(_groups(text))
        named = [rules for agents, rules in groups if agent.lower() in agents]
        general = [rules for agents, rules in groups if "*" in agents]
        chosen = (each for rules in named or general for each in rules)
        return cls(tuple((allowed, _encoded(rule)) for allowed, rule in chosen))

    def allows(self, path: str) -> bool:
        """Check whether a path, with its query, may be read; of two equal rules, allow wins."""
        target = _encoded(path)
        matching = [(len(rule), allowed) for allowed, rule in self.rules if _matches(rule, target)]
        return path == "/robots.txt" or max(matching, default=(0, True))[1]


NOTHING = RobotsRules(((False, "/"),))


Answer: TypeAlias = RobotsRules | SearchError


class Robots:
    """Cache of each site's robots.txt, fetched once a day.

    A robots.txt that answers 5xx, or cannot be fetched after ``retries`` retries, closes its site
    for a minute.
    """

    def __init__(self, retries: int = 0) -> None:
        self._retries = retries
        self._known: OrderedDict[str, tuple[float, Answer]] = OrderedDict()

    async def permit(self, at: httpx.URL, allowance: Allowance, fetcher: Fetcher) -> None:
        """Raise ``RobotsError`` if the site does not allow the page to be read.

        The time for robots.txt is subtracted from the page's ``allowance``. If it cannot be
        fetched, its ``SearchError`` is raised.
        """
        site = f"{at.scheme}://{at.netloc.decode('ascii')}"
        async with fetcher.slots.alone(site):
            until, rules = self._known.get(site, (0.0, NOTHING))
            if until <= time.monotonic():
                rules = await self._asked(site, fetcher, allowance)
        if isinstance(rules, SearchError):
            raise SearchError(str(rules), kind=rules.kind)  # a new one for each page
        if not await asyncio.to_thread(rules.allows, at.raw_path.decode("ascii")):
            failed = rules is NOTHING
            why = "cannot be read" if failed else "asks robots not to read it"
            raise RobotsError(
                f"{shown(at)} is not fetched: its robots.txt {why}", lasting=not failed
            )

    async def _asked(self, site: str, fetcher: Fetcher, allowance: Allowance) -> Answer:
        was_short = allowance.left < fetcher.guard.page_seconds / 2
        answer: Answer
        try:
            answer = await persist(lambda: _rules(site, fetcher, allowance), self._retries)
        except SearchError as error:
            answer = SearchError(str(error), kind=error.kind)
            if was_short and allowance.left <= 0:
                return answer  # the page had no time left: no reason to close the site
        failed = answer is NOTHING or isinstance(answer, SearchError)
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


async def _rules(site: str, fetcher: Fetcher, allowance: Allowance) -> RobotsRules:
    at = f"{site}/robots.txt"
    found: Fetched = await fetcher.get(at, types=(), cut=MAX_BYTES, allowance=allowance)
    if found.status >= 500:
        return NOTHING
    if not 200 <= found.status < 300:
        return RobotsRules()
    return await asyncio.to_thread(RobotsRules.parse, found.body.decode("utf-8-sig", "replace"))


def _groups(text: str) -> Iterator[tuple[set[str], list[tuple[bool, str]]]]:
    agents: set[str] = set()
    rules: list[tuple[bool, str]] = []
    is_open = False  # whether another User-agent line would join this group
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition("#")[0].partition(":"))
        if key.lower() == "user-agent":
            if not is_open:
                yield agents, rules
                agents, rules = set(), []
            agents.add(value.lower().partition("/")[0])
            is_open = True
        elif key.lower() in ("allow", "disallow"):
            is_open = False
            if value:  # an empty rule has no meaning
                rules.append((key.lower() == "allow", value))
    yield agents, rules


def _encoded(path: str) -> str:
    """Normalize a path or a pattern, so that ``%7E`` and ``~`` are equal."""
    return quote(unquote_to_bytes(path.replace("%2F", "%252F").replace("%2f", "%252F")), "/*$?=&%~")


def _matches(rule: str, path: str) -> bool:
    """Match piece by piece, in one pass over the path even for a pattern of many stars."""
    is_end = rule.endswith("$")
    first, *others = re.sub(r"\*+", "*", rule[:-1] if is_end else rule).split("*")
    if not path.startswith(first):
        return False
    if not others:
        return not is_end or path == first
    at, last = len(first), others.pop()
    for piece in others:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    if is_end:
        return len(path) - len(last) >= at and path.endswith(last)
    return path.find(last, at) >= 0
