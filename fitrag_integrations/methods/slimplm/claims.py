"""Parse the claims and queries of SlimPLM's rewriter: tags, JSON or lines.

Each reading yields events in the order of the text: what a part is, and its body; `parsed` puts the
parts together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from fitrag_integrations.methods.prompts import (
    REWRITE,
    REWRITE_PAPER,
    REWRITE_RELEASED,
)
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.values.excerpt import unique
from fitrag_integrations.values.prompt import PromptTemplate
from fitrag_integrations.values.slimplm import Lead, Leads

REWRITES: Mapping[str, PromptTemplate] = MappingProxyType(
    {"instruct": REWRITE, "paper": REWRITE_PAPER, "released": REWRITE_RELEASED}
)


Event: TypeAlias = tuple[str, str]  # claim, question, search, query, or "" for a part between

OPEN = "a closing mark was missing"
CUT = "the last item was cut off"
AS_JSON = "JSON was written in place of the grammar"
AS_LINES = "labelled lines were written in place of the grammar"

_KINDS = {
    **dict.fromkeys(("claim", "fact", "statement"), "claim"),
    **dict.fromkeys(("question", "subquestion"), "question"),
    **dict.fromkeys(("search", "needsearch", "needssearch", "searchneeded"), "search"),
    **dict.fromkeys(("query", "searchquery", "searchword", "searchwords", "searchterm"), "query"),
    **dict.fromkeys(("claims", "questions", "queries", "task", "timeliness", "known"), ""),
}
_MEMBERS = {"claims": "claim", "facts": "claim", "questions": "question"}
_NAME = r"([A-Za-z]{3,11}(?:[ _-]?[A-Za-z]{4,8})?)"
_TAG = re.compile(rf"<[ \t]{{0,3}}(/?)[ \t]{{0,3}}{_NAME}[ \t_]{{0,3}}\d{{0,3}}(?=[\s(>:=]|\Z)")
_LINE = re.compile(
    rf"(?m)^[ \t*#>•-]{{0,12}}(?:\d{{1,3}}[.)][ \t*]{{0,4}})?{_NAME}"
    r"[ \t]{0,3}\d{0,3}[*_]{0,2}[ \t]?[:=]"
)
_PAIR = re.compile(
    rf"[\"']{_NAME}\d{{0,3}}[\"']\s{{0,20}}:\s{{0,20}}"
    r"(?:\"((?:[^\"\\]|\\.)*)\"?|'((?:[^'\\\n]|\\.)*)'?|(true|false)\b)",
    re.IGNORECASE,
)


ParsedReply: TypeAlias = tuple[str, list[Event], list[str]]  # grammar, events and repairs


def readings(body: str) -> Iterator[ParsedReply]:
    """Parse a text in each form it may have, the expected ones first."""
    if "<" in body:
        yield by_tags(body)
    if "{" in body or "[" in body:
        yield "json", list(_by_json(body)), [AS_JSON]
    lines: list[Event] = []  # such as `Claim 1: ...`
    for line in _LINE.finditer(body):
        if _name(line[1]) in _KINDS:
            rest = body[line.end() : line.end() + 2000].partition("\n")[0]
            lines.append((_KINDS[_name(line[1])], rest.strip(" \t*_\"'`")))
    yield "lines", lines, [AS_LINES]


def by_tags(body: str) -> ParsedReply:
    """Split at the tags of either grammar; the text between two tags is the body of the first."""
    tags = [tag for tag in _TAG.finditer(body) if _name(tag[2]) in _KINDS]
    ends = [*(tag.start() for tag in tags), len(body)][1:]
    events, repairs, bracketed = [], [], False
    for tag, end in zip(tags, ends, strict=True):
        kind, inside = _KINDS[_name(tag[2])], body[tag.end() : end].strip()
        if kind and not tag[1]:
            bracketed = bracketed or inside.startswith("(")
            value, closed = _inner(inside)
            events.append((kind, value))
            if not closed:
                repairs.append(CUT if end == len(body) else OPEN)
        elif not kind:
            events.append(("", ""))
    return "released" if bracketed else "paper", events, repairs


def _inner(inside: str) -> tuple[str, bool]:
    """Strip the marks of a tag's body, and return whether it was closed."""
    if inside.startswith(">"):
        return inside[1:].strip(), True
    if not inside.startswith("("):
        return inside.lstrip(":=").removesuffix(">").strip(), inside.endswith(">")
    depth, last = 0, -1
    for at, sign in enumerate(inside):
        depth += (sign == "(") - (sign == ")")
        if sign == ")" and inside[at + 1 : at + 4].lstrip().startswith(">"):
            last = at
            if depth <= 0:  # brackets within the text are in pairs
                break
    if last >= 0:
        return inside[1:last].strip(), True
    rest = inside[1:].removesuffix(">").rstrip()
    return (rest.removesuffix(")") if depth <= 0 else rest).strip(), False


def _by_json(body: str) -> Iterator[Event]:
    """Walk through the first value; where it is no JSON, read its pairs one by one."""
    start = min(at for at in (body.find("{"), body.find("[")) if at >= 0)
    try:
        value, _ = json.JSONDecoder().raw_decode(body, start)
        yield from list(_walked(value, ""))
    except (ValueError, RecursionError):
        for name, double, single, word in _PAIR.findall(body):
            if _name(name) in _KINDS:
                yield _KINDS[_name(name)], re.sub(r"\\(.)", r"\1", double or single or word)


def _walked(value: object, member: str) -> Iterator[Event]:
    if isinstance(value, str | bool):
        yield member or "query", str(value)
    elif isinstance(value, list):
        for each in value:
            yield from _walked(each, member)
    elif isinstance(value, dict):
        named = [(_name(name), each) for name, each in value.items()]
        order = ("claim", "question", "search", "query")
        own = [(kind, each) for name, each in named if (kind := _KINDS.get(name, ""))]
        for kind, each in sorted(own, key=lambda one: order.index(one[0])):
            yield from _walked(each, kind)
        for name, each in named:
            if not _KINDS.get(name, "") and isinstance(each, list | dict):
                yield "", ""
                yield from _walked(each, _MEMBERS.get(name, ""))


def _name(written: object) -> str:
    return re.sub(r"[^a-z]", "", str(written).casefold())


MOST_CHARACTERS = 60_000  # of all that was written
MOST_LEADS = 64
MOST_READ = 4000  # of one part
LONGEST_TEXT, LONGEST_QUERY = 1000, 300  # a longer query is prose
# What a model that runs on makes up: the next question, with its answer or cut off before it.
_INVENTED = re.compile(
    r"^[ \t*#>]*question:[^\n]*(?=\s*(?:\Z|[*#]*(?:answer|output|passages?|heuristic answer):))",
    re.IGNORECASE | re.MULTILINE,
)
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]")
_PLACEHOLDER = re.compile(r"\W?(?:sub)?(?:claim|query|question)[ _]?\d{0,2}\W?", re.IGNORECASE)
_SAYS = re.compile(r"\W*(true|yes|(false|no))\b(?!\s*/)", re.IGNORECASE)
NO_QUERY = "a claim or question stands in for the query it lacks"
TOO_LONG = "a query as long as prose was left out"
TOO_MANY = f"more than {MOST_LEADS} claims and questions: the others were left out"
REPEATED = "repeated claims or questions were left out"


def parse_claims(text: object) -> Leads:
    """Parse a rewriter's output; `grammar` is empty if it has neither claims nor queries.

    A lead that requires a search but has no query is used as its own query, and so is a question
    without a query. A further question with its answer, as the prompt shows them, is none of the
    rewriter's: the text ends before it.
    """
    if not isinstance(text, str):
        return Leads()
    body = _UNPRINTABLE.sub(" ", strip_thoughts(text[:MOST_CHARACTERS]))
    body = _INVENTED.split(body, 1)[0]
    for grammar, events, repairs in readings(body):
        leads, mended = _leads(events)
        if leads:
            return Leads(
                tuple(lead for kind, lead in leads if kind == "question"),
                tuple(lead for kind, lead in leads if kind == "claim"),
                grammar,
                tuple(dict.fromkeys((*repairs, *mended))),
            )
    return Leads()


@dataclass
class _Open:
    """A claim or question that is still being read."""

    kind: str
    text: str
    query: str | None = None
    search: bool | None = None


def _leads(events: Iterable[Event]) -> tuple[list[tuple[str, Lead]], list[str]]:
    found = [(one.kind, *_closed(one)) for one in _gathered(events)]
    repairs = [each for _, _, mended in found for each in mended]
    leads = [(kind, lead) for kind, lead, _ in found if lead.text or lead.query]
    kept = unique(leads, lambda one: (one[0], one[1].text.casefold(), one[1].query.casefold()))
    if len(kept) < len(leads):
        repairs.append(REPEATED)
    if len(kept) > MOST_LEADS:
        repairs.append(TOO_MANY)
    return kept[:MOST_LEADS], repairs


def _gathered(events: Iterable[Event]) -> list[_Open]:
    """Attach each query, and each search flag, to the claim or question before it."""
    found: list[_Open] = []
    current: _Open | None = None
    for kind, body in events:
        if kind in ("claim", "question"):
            current = _Open(kind, _line(body, whole=True))
            found.append(current)
        elif not kind:
            current = None
        elif kind == "search" and current is not None:
            said = _SAYS.match(body)
            current.search = None if said is None else said[2] is None
        elif kind == "query":
            if current is not None and current.query is None:
                current.query = _line(body)
            elif query := _line(body):  # one query more, or one of its own
                current = replace(current or _Open("question", ""), query=query)
                found.append(current)
    return found


def _closed(one: _Open) -> tuple[Lead, list[str]]:
    text, query, repairs = one.text[:LONGEST_TEXT], one.query or "", []
    unsaid = one.kind == "question" and one.query is None and one.search is None
    is_query = one.search is True or unsaid
    if len(query) > LONGEST_QUERY:
        query, repairs = "", [TOO_LONG]
    elif not query and is_query and text and len(text) <= LONGEST_QUERY:
        query, repairs = text, [NO_QUERY]
    return Lead(text, query, one.search), repairs


def _line(body: str, *, whole: bool = False) -> str:
    """Return a query's first line, or a text's first paragraph on one; a placeholder is none."""
    lines = [line.strip() for line in body.strip()[:MOST_READ].split("\n")]
    paragraph = lines[: lines.index("")] if "" in lines else lines
    text = " ".join(paragraph) if whole else lines[0]
    return "" if not _WORD.search(text) or _PLACEHOLDER.fullmatch(text) else text
