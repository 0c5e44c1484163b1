"""Read the claims and queries a rewriter wrote (SlimPLM, section 3.3), whatever became of them.

A pure function that never raises. It reads the grammar of the paper and that of the released
weights, and mends what language models do to them: closers left out, other spellings, a last item
cut off, JSON, plain labelled lines. What was mended it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fitrag_integrations._claims import GRAMMARS, Lead, Leads, render
from fitrag_integrations.methods.claim_forms import Event, readings

__all__ = ["GRAMMARS", "Lead", "Leads", "parse_claims", "render"]

MOST_CHARACTERS = 60_000  # of all that was written
MOST_LEADS = 64
MOST_READ = 4000  # of one part
LONGEST_TEXT, LONGEST_QUERY = 1000, 300  # a longer query is prose

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_WORD = re.compile(r"[^\W_]")
_PLACEHOLDER = re.compile(r"\W?(?:sub)?(?:claim|query|question)[ _]?\d{0,2}\W?", re.IGNORECASE)
_SAYS = re.compile(r"\W*(true|yes|(false|no))\b(?!\s*/)", re.IGNORECASE)

NO_QUERY = "a claim or question stands in for the query it lacks"
TOO_LONG = "a query as long as prose was left out"
TOO_MANY = f"more than {MOST_LEADS} claims and questions: the others were left out"
REPEATED = "repeated claims or questions were left out"


def parse_claims(text: object) -> Leads:
    """Read what a rewriter wrote; `grammar` is empty where there is no claim and no query in it.

    A lead that asks for a search and has no query is its own query, and so is a question without
    one.
    """
    if not isinstance(text, str):
        return Leads()
    body = _UNPRINTABLE.sub(" ", _THOUGHT.sub(" ", text[:MOST_CHARACTERS]))
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
    kept: dict[tuple[str, str, str], tuple[str, Lead]] = {}
    repairs = [each for _, _, mended in found for each in mended]
    told = [(kind, lead) for kind, lead, _ in found if lead.text or lead.query]
    for kind, lead in told:
        kept.setdefault((kind, lead.text.casefold(), lead.query.casefold()), (kind, lead))
    if len(kept) < len(told):
        repairs.append(REPEATED)
    if len(kept) > MOST_LEADS:
        repairs.append(TOO_MANY)
    return list(kept.values())[:MOST_LEADS], repairs


def _gathered(events: Iterable[Event]) -> list[_Open]:
    """Put each query, and what is said of searching, to the claim or question before it."""
    found: list[_Open] = []
    current: _Open | None = None
    for kind, body in events:
        if kind in ("claim", "question"):
            current = _Open(kind, _line(body, whole=True))
            found.append(current)
        elif not kind:
            current = None
        elif kind == "search" and current is not None:
            current.search = _says(body)
        elif kind == "query":
            if current is not None and current.query is None:
                current.query = _line(body)
            elif query := _line(body):  # one query more, or one of its own
                current = replace(current or _Open("question", ""), query=query)
                found.append(current)
    return found


def _closed(one: _Open) -> tuple[Lead, list[str]]:
    text, query, repairs = one.text[:LONGEST_TEXT], one.query or "", []
    if len(query) > LONGEST_QUERY:
        query, repairs = "", [TOO_LONG]
    elif not query and _stands_in(one) and text and len(text) <= LONGEST_QUERY:
        query, repairs = text, [NO_QUERY]
    return Lead(text, query, one.search), repairs


def _stands_in(one: _Open) -> bool:
    """Say whether a lead without a query is to be asked as it stands."""
    unsaid = one.kind == "question" and one.query is None and one.search is None
    return one.search is True or unsaid


def _line(body: str, *, whole: bool = False) -> str:
    """Give a query's first line, or a text's first paragraph on one; a placeholder is none."""
    lines = [line.strip() for line in body.strip()[:MOST_READ].split("\n")]
    paragraph = lines[: lines.index("")] if "" in lines else lines
    text = " ".join(paragraph) if whole else lines[0]
    return "" if not _WORD.search(text) or _PLACEHOLDER.fullmatch(text) else text


def _says(body: str) -> bool | None:
    found = _SAYS.match(body)
    return None if found is None else found[2] is None
