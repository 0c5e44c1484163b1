"""Search the web for a question in its own right: rewrite, search, and mark what comes (CRAG, 4.5).

Whatever a search port gives is from the web for us: it is marked as such and as untrusted, so that
every prompt shows it fenced. A failure is noted and classified, and raised only on request.

A language model, where there is one, writes at most three keywords (Table 7). Where its reply is no
list of keywords, repeats the question or loses what it is about, and without a model, the question
itself is searched for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fitrag_integrations.core.checks import Checked, check_many, check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import error_line, shortened
from fitrag_integrations.errors import SearchError
from fitrag_integrations.flow import Flow
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.methods.prompts import CRAG_KEYWORDS
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.cleaning import clean_text, has_text
from fitrag_integrations.text.question import asked_of
from fitrag_integrations.text.replies import (
    begins_to_think,
    failure_of,
    found_nothing,
    refuses,
    strip_thoughts,
)
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.excerpt import unique
from fitrag_integrations.values.prompt import LimitedPrompt

_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
MOST = 3
LONGEST_KEYWORD = 80  # characters; what is longer is prose
KEYWORD_TOKENS = 32
STEM = 5  # letters by which a word is found again
_WORD = re.compile(r"[^\W_]+")
_ASKING = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been by can did do does for from had has have how in is it its many "
        "much of on or that the their this to was were what when where which who whom whose why "
        "will with would",
    )
)
_LABEL = re.compile(r"\b(?:key ?words?|quer(?:y|ies)|search(?:es)?)\W{0,4}:\s*", re.IGNORECASE)
_BLOCK = re.compile(r"<([a-z]\w{0,30})>(.{0,4000}?)</\1>\s*", re.IGNORECASE | re.DOTALL)
MOST_READ = 4000  # characters of a reply
_AROUND = " \t\"'`´“”‘’«»„*_-•[]{}<>:.!"
_EXAMPLES = frozenset(re.findall(r"(?m)^query: (\w.*)$", CRAG_KEYWORDS.text.casefold()))


@dataclass(frozen=True, slots=True)
class Searched:
    """Result of a web search, its query, and how it went.

    Args:
        passages: Passages found.
        queries: Queries sent.
        notes: Notes on failures.
        details: Details for the context; "rewrite" is how the query was found: by the "llm", or the
            "question" itself.
    """

    passages: tuple[Passage, ...] = ()
    queries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    details: Row = field(default_factory=dict, hash=False)


def rewrite(question: str, ports: Ports) -> Flow[Searched]:
    """Generate keywords with ``ports.generate``, or search for the question without a model.

    A failing model, or a reply without keywords, becomes a note and never raises.

    Args:
        question: Question.
        ports: Ports of the question.
    """
    own = asked_of(question)
    if not ports.generate:
        return Searched((), (own,), (), {"rewrite": "question"})
    prompt = CRAG_KEYWORDS.render(Context(" ".join(question.split())))
    item = LimitedPrompt(prompt, tokens=KEYWORD_TOKENS)
    written, error = yield from attempt(ports.generate.ask([item]))
    keywords = parse_keywords(written[0] if written else None)
    why = "it wrote no list of keywords" if error is None else error_line(error)
    if keywords and not (why := lost_in(keywords, own)):
        return Searched((), (", ".join(keywords),), (), {"rewrite": "llm"})
    note = f"the language model did not rewrite the question ({why}): the question itself was asked"
    return Searched((), (own,), (note,), {"rewrite": "question"})


def lost_in(keywords: Sequence[str], question: str) -> str:
    """Return why keywords are no rewriting of a question; blank if they are one.

    Half of its names and numbers must be among them, or of its other words if it has more than one
    and no names. Words are compared by their first letters.

    Args:
        keywords: Keywords.
        question: Question.
    """
    words, query = _WORD.findall(question), " ".join(keywords).casefold()
    if _WORD.findall(query) == [word.casefold() for word in words]:
        return "it repeated it"
    told = [word for word in words[1:] if word.casefold() not in _ASKING]
    named = [word for word in told if not word.islower()] or told
    lost = [word for word in named if word[:STEM].casefold() not in query]
    few = len(told) < 2 or 2 * len(lost) <= len(named)
    return "" if few else f"its keywords lose {', '.join(lost)}"


def parse_keywords(text: object) -> tuple[str, ...]:
    """Read the first three keywords out of a reply, split at commas and lines; none out of others.

    A refusal, prose, the prompt's own examples and thoughts are no keywords: nothing before the
    last label ("Keywords:") is read, and nothing in tags that stands beside something else.
    """
    body = _UNPRINTABLE.sub(" ", strip_thoughts(text).strip()) if isinstance(text, str) else ""
    body = body[:MOST_READ]
    body = _BLOCK.sub("", body).strip() or _BLOCK.sub(r"\2", body)
    labels = [found.end() for found in _LABEL.finditer(body)]
    if refuses(body) or body.casefold() in _EXAMPLES or (begins_to_think(body) and not labels):
        return ()
    pieces = re.split(r"(?<!\d),|,(?!\d)|[;\n、，；]", body[labels[-1] :] if labels else body)
    words = (
        " ".join(re.sub(r"^\W*\d[.)]\s", "", piece).strip(_AROUND).split()) for piece in pieces
    )
    found = unique((word for word in words if re.search(r"\w", word)), str.casefold)
    return tuple(found[:MOST]) if all(len(word) <= LONGEST_KEYWORD for word in found) else ()


NO_PORT = "no search port was given: the web was not searched"


def search_web(
    question: str, ports: Ports, *, rewriting: bool = True, on_error: str = "degrade"
) -> Flow[Searched]:
    """Search the web for a question; without a search port, nothing is requested.

    Args:
        question: Question.
        ports: Ports of the question.
        rewriting: Whether to search for keywords instead of the question.
        on_error: "degrade" turns a failed search into no passages, a note, and
            ``details["web_error"]`` with kind and message; an error that a tool returns as text
            counts too. "raise" raises the error.
    """
    if not ports.search:
        return Searched(notes=(NO_PORT,))
    searched = Searched((), (question,), (), {"rewrite": "question"})
    if rewriting:
        searched = yield from rewrite(question, ports)
    try:
        (found,) = yield from ports.search.ask(searched.queries)
        pages = check_many("searched", found, Passage)
        said = [  # of itself, in the place of results or of the only one
            page.text
            for page in pages
            if (len(pages) == 1 or not page.source) and found_nothing(page.text)
        ]
        told = failure_of(said[0]) if said and len(said) == len(pages) else ""
        if told and on_error == "raise":
            raise SearchError(said[0], kind=told)
    except Exception as error:
        if on_error == "raise":
            raise
        kind = error.kind if isinstance(error, SearchError) else type(error).__name__
        failed = {"kind": kind, "message": shortened(str(error))}
        note = f"the web search failed ({kind}): {failed['message']}"
        details = {**searched.details, "web_error": failed}
        return replace(searched, notes=(*searched.notes, note), details=details)
    if told:  # an error in the place of results
        failed = {"kind": told, "message": shortened(said[0])}
        searched = replace(searched, details={**searched.details, "web_error": failed})
    kept = [page for page in pages if page.text not in said or (page.source and pages[1:])]
    readable = [page for page in map(as_web, kept) if has_text(page.text)]
    notes = [*searched.notes, *(f"the search tool found nothing: {shortened(one)}" for one in said)]
    counts = [page.metadata.get("left_out") for page in kept]
    dropped = max((each for each in counts if isinstance(each, int) and each > 0), default=0)
    if blank := dropped + len(kept) - len(readable):
        notes.append(f"{blank} of {dropped + len(kept)} web results left out: no text")
    errors = [one.metadata["page_error"] for one in readable if "page_error" in one.metadata]
    unread = Counter(
        str(error.get("kind", "unknown")) if isinstance(error, Mapping) else "unknown"
        for error in errors
    )
    if unread:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(unread.items()))
        notes.append(f"web pages not read ({kinds}): their snippets stand in")
    if not readable and not said:
        notes.append(f"the web search for {shortened(searched.queries[0])!r} found nothing to read")
    details = {**searched.details, "web_results": len(kept), "page_errors": dict(unread)}
    return replace(searched, passages=tuple(readable), notes=tuple(notes), details=details)


def as_web(passage: Passage) -> Passage:
    """Mark a passage as an untrusted one from the web and clean its text and title.

    What its metadata says already stays. A search may be any tool, so nobody may have cleaned it.
    """
    text, title = clean_text(passage.text), clean_text(passage.title)
    marks = {"url": passage.source, **passage.metadata, "web": True, "trust": "untrusted"}
    if isinstance(marks.get("title"), str):  # frameworks write it into prompts
        marks["title"] = clean_text(marks["title"])
    return replace(passage, text=text, title=title, metadata=marks)


@dataclass(frozen=True)
class WebSearching(Checked):
    """Method that searches the web for a question and keeps all results, whole.

    With `rewrite` a language model writes the keywords to search for; otherwise, or without a
    model, it searches for the question itself. A search that fails raises its error.
    """

    rewrite: bool = False

    def __call__(self, question: str, ports: Ports) -> Flow[Context]:
        """Return the flow that ends in what was found."""
        check_text("question", question, blank=False)
        found = yield from search_web(question, ports, rewriting=self.rewrite, on_error="raise")
        return Context(
            question,
            tuple(map(Excerpt.whole, found.passages)),
            queries=found.queries,
            notes=found.notes,
            method="web_search",
            details=found.details,
        )
