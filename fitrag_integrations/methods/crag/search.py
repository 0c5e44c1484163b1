"""Search the web for a question in its own right: rewrite, search, and mark what comes (CRAG, 4.5).

Whatever a search port gives is from the web for us: it is marked as such and as untrusted, so that
every prompt shows it fenced. A failure is noted and classified, and raised only on request.

At most three keywords are searched for (Table 7). A language model writes them where there is one.
Its reply is read leniently and refused where it is no list of keywords; then, and without a model,
they are taken from the question itself. That knows the stop words of English and leaves questions
in other scripts as they are.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fitrag_integrations.core.checks import check_is, check_many, check_text
from fitrag_integrations.core.record import Row
from fitrag_integrations.core.show import error_line, shortened
from fitrag_integrations.errors import SearchError
from fitrag_integrations.flow import Flow
from fitrag_integrations.flow.ask import attempt
from fitrag_integrations.methods.prompts import CRAG_KEYWORDS
from fitrag_integrations.methods.writing import THOUGHT
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.cleaning import clean_text
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.excerpt import unique
from fitrag_integrations.values.windows import with_text

_STOP_WORDS = """
a about after all also am an and any anybody anyone anything are as at be because been before
being between both but by can come comes could did do does doing done during each either else
ever every for from get gets give given go goes going got had has have having he her here him
his how i if in into is it its just know kind let like many may me might mine more most much
must my name named no nor not of off on one or other our out over please s say shall she should
show since so some someone something sort tell than that the their them then there these they
thing this those through to too type under until up upon us use used very was we were what
whatever when where whether which while who whom whose why will with within without would you
your
"""
_STOP = frozenset(_STOP_WORDS.split())
_JOIN_WORDS = "al and da de del della den der des di du el for la le of the van von y"
_JOINS = frozenset(_JOIN_WORDS.split())
_QUOTED = re.compile(r"\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”|«([^»\n]{2,80})»")
_WORD = re.compile(r"[^\W_]+(?:[-.,/&+'’](?!s\b)[^\W_]+)*[+#]*")
_LONGEST = 8  # words in a phrase
Span: TypeAlias = tuple[int, int]
Ranked: TypeAlias = tuple[int, int, Span]  # rank, less the length, place


# What a phrase is, by the signs of its words: names and numbers (N, D), with small words between
# two names (J) as in "Joan of Arc"; or plain words and numbers (P, D). Nothing goes over a bar.
_PHRASE = re.compile(r"D*N(?:[ND]|(?<=N)J+N)*|D*P[PD]*|D+")


def key_phrases(text: str, most: int) -> list[str]:
    """Return at most ``most`` phrases of a text, in its order, each a stretch of it.

    Quoted phrases go before names and numbers, and these before other words that are no stop
    words; of equals the longer, then the earlier. A text with letters of a script other than
    Latin gives none.
    """
    foreign = (letter for letter in text if letter > "\u024f" and letter.isalpha())
    if any(not "\u1e00" <= letter <= "\u1eff" and letter not in "ʻʼʹ" for letter in foreign):
        return []
    candidates = unique(_candidates(text), lambda one: text[slice(*one[2])].casefold())
    places = sorted(place for _, _, place in sorted(candidates)[:most])
    return [text[start:end] for start, end in places]


def _candidates(text: str) -> Iterator[Ranked]:
    quoted = [found.span(found.lastindex or 0) for found in _QUOTED.finditer(text)]
    for start, end in quoted:
        yield 0, start - end, (start, end)
    words = list(_WORD.finditer(text))
    signs, places = _signs(words, text)
    for phrase in _PHRASE.finditer(signs):
        for at in range(*phrase.span(), _LONGEST):
            last = len(signs[: min(at + _LONGEST, phrase.end())].rstrip("J")) - 1
            first = last - len(signs[at : last + 1].lstrip("J")) + 1
            start, end = words[places[first]].start(), words[places[last]].end()
            before = bisect_left(quoted, (end,)) - 1  # the last quote that begins before the end
            if first <= last and (before < 0 or quoted[before][1] <= start):
                named = any(sign in "ND" for sign in signs[first : last + 1])
                yield 1 if named else 2, start - end, (start, end)


def _signs(words: list[re.Match[str]], text: str) -> tuple[str, list[int]]:
    """Write a sign for each word, and a bar where two do not stand together; and whose each is."""
    capital = [word[0][0].isupper() for word in words]
    if all(capital):  # then capitals mean nothing
        capital = [False] * len(words)
    elif capital[0] and not any(capital[1:2]):  # the first word has one anyway
        capital[0] = False
    signs, places = "", list[int]()
    for at, word in enumerate(words):
        sign = _sign(word[0].casefold(), capital[at], at == 0)
        between = text[words[at - 1].end() : word.start()].strip() if at else ""
        initial = between == "." and len(words[at - 1][0]) < 3 and signs[-1] == "N"
        written = sign if not between or initial else f"|{sign}"
        signs += written
        places += [at] * len(written)
    return signs, places


def _sign(word: str, upper: bool, first: bool) -> str:
    if any(sign.isdigit() for sign in word):
        return "D"
    if upper and not (first and word in _STOP):
        return "N"
    if word in _JOINS:
        return "J"
    return "S" if word in _STOP else "P"


MOST = 3
LONGEST_KEYWORD = 80  # characters; what is longer is prose
MOST_WORDS, MOST_CHARACTERS = 30, 400  # of all that was written; more is prose too
UNREADABLE = "it wrote no list of keywords"

_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LABEL = re.compile(
    r"^[\W_]*(?:(?:(?:(?:web|google) )?search |the |my )?"
    r"(?:quer(?:y|ies)|key ?words?|terms?|output|answer)\b[\W_\d]*?"
    r"|(?:sure|certainly|of course|okay|ok|here)\b[^:\n]*)[:=][\s*_]*",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\W*(?:(?:i am |i'm |we are )?(?:so |very )?(?:sorry|unable|not able)\b|my apologies|"
    r"i (?:can ?not|can't|could ?n[o']t|do not|don't|apologi[sz]e|will not|won't)\b|"
    r"as an? (?:ai|large language|language)\b|unfortunately\b|no keywords|(?:none|n/?a)\W*$)",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"(?<!\d),|,(?!\d)|[;|\n、，；]|(?:^|(?<=\s))\(?[1-9][.)]\s")
_BULLET = re.compile(r"^\s*[-*•‣–]\s+")
_AROUND = " \t\"'`´“”‘’«»„*_[]{}<>,:"
_INSTRUCTION = CRAG_KEYWORDS.text[:40].casefold()
_EXAMPLES = frozenset(re.findall(r"(?m)^query: (\w.*)$", CRAG_KEYWORDS.text.casefold()))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Search query, and how it was found: llm, extracted or question."""

    query: str
    way: str
    notes: tuple[str, ...] = ()


def rewrite(question: str, ports: Ports) -> Flow[Rewritten]:
    """Generate keywords with ``ports.generate``; else extract them from the question, or use all of
    it.

    A model that fails or writes anything but keywords is noted; nothing is raised for it.
    """
    failed = ""
    if ports.generate:  # a search by other words beats none
        written, error = yield from attempt(ports.generate.ask([keyword_prompt(question)]))
        if keywords := parse_keywords(written[0] if written else None):
            return Rewritten(", ".join(keywords), "llm")
        failed = UNREADABLE if error is None else error_line(error)
    taken = extract_keywords(question)
    instead = "keywords were taken from the question" if taken else "the question itself was asked"
    note = f"the language model did not rewrite the question ({failed}): {instead}"
    query = ", ".join(taken) or question
    return Rewritten(query, "extracted" if taken else "question", (note,) if failed else ())


def keyword_prompt(question: str) -> str:
    """Write the prompt for the keywords of one question."""
    return CRAG_KEYWORDS.render(Context(" ".join(question.split())))


def parse_keywords(text: object) -> tuple[str, ...]:
    """Read one to three keywords out of what a model wrote, or none where it wrote something else.

    Numbering, bullets, quotes, code fences, brackets and a leading "Keywords:" are taken off;
    commas, semicolons and line breaks part. An echo of the prompt, a refusal and prose give none.
    """
    if not isinstance(text, str) or _INSTRUCTION in text.casefold():
        return ()
    body = "\n".join(_answer_lines(THOUGHT.sub(" ", text)))
    if len(body) > MOST_CHARACTERS or len(body.split()) > MOST_WORDS:
        return ()
    if _REFUSAL.match(body.replace("’", "'")) or body.strip().casefold() in _EXAMPLES:
        return ()
    keywords = _once(_bare(piece) for piece in _BETWEEN.split(body))
    return () if any(len(word) > LONGEST_KEYWORD for word in keywords) else keywords[:MOST]


def extract_keywords(question: str) -> tuple[str, ...]:
    """Extract up to three keywords from a question, in order.

    Quoted phrases, names and numbers first, then what is no stop word of English. None where the
    question has nothing but stop words, or letters of a script other than Latin.
    """
    return _once(" ".join(phrase.split()) for phrase in key_phrases(question, MOST))


def _answer_lines(text: str) -> Iterator[str]:
    """Return the lines of the answer: none of a fence, a heading, or a question made up after
    it.
    """
    lines = (_UNPRINTABLE.sub(" ", line).strip() for line in text.splitlines())
    begun = False
    for line in lines:
        if begun and re.match(r"(?:question|query)\s*:", line, re.IGNORECASE):
            return
        line = _LABEL.sub("", line) if not begun else line
        if line and not line.startswith("```") and not line.endswith(":"):
            begun = True
            yield _BULLET.sub("", line)


def _bare(piece: str) -> str:
    """Strip the marks around a keyword, and a full stop that ends it."""
    word = _BULLET.sub("", piece).strip(_AROUND).lstrip("#" + _AROUND)
    word = re.sub(r"(?<=[^\W_]{3})\.$", "", word)  # not that of an abbreviation
    return " ".join(word.split()) if re.search(r"\w", word) else ""


def _once(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(unique(filter(None, words), str.casefold))


NO_PORT = "no search port was given: the web was not searched"


@dataclass(frozen=True, slots=True)
class Searched:
    """Result of a web search, its query, and how it went."""

    passages: tuple[Passage, ...] = ()
    queries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    details: Row = field(default_factory=dict, hash=False)


def search_web(
    question: str, ports: Ports, *, rewriting: bool = True, on_error: str = "degrade"
) -> Flow[Searched]:
    """Search for a question, by keywords unless ``rewriting`` is off.

    With ``on_error="degrade"`` a failed search gives no passages, a note, and
    ``details["web_error"]`` with kind and message; the kind is that of a ``SearchError``, else the
    name of the exception. With ``"raise"`` it is raised. Without a search port nothing is asked.
    """
    if not ports.search:
        return Searched(notes=(NO_PORT,))
    asked = Rewritten(question, "question")
    if rewriting:
        asked = yield from rewrite(question, ports)
    searched = Searched((), (asked.query,), asked.notes, {"rewrite": asked.way})
    try:
        (found,) = yield from ports.search.ask([asked.query])
        pages = check_many("searched", found, Passage)
    except Exception as error:
        if on_error == "raise":
            raise
        kind = error.kind if isinstance(error, SearchError) else type(error).__name__
        failed = {"kind": kind, "message": shortened(str(error))}
        note = f"the web search failed ({kind}): {failed['message']}"
        details = {**searched.details, "web_error": failed}
        return replace(searched, notes=(*searched.notes, note), details=details)
    return _found(searched, pages)


def as_web(passage: Passage) -> Passage:
    """Mark a passage as an untrusted one from the web and clean its text and title.

    What its metadata says already stays. A search may be any tool, so nobody may have cleaned it.
    """
    text, title = clean_text(passage.text), clean_text(passage.title)
    marks = {"url": passage.source, **passage.metadata, "web": True, "trust": "untrusted"}
    if isinstance(marks.get("title"), str):  # frameworks write it into prompts
        marks["title"] = clean_text(marks["title"])
    return replace(passage, text=text, title=title, metadata=marks)


def _found(searched: Searched, pages: tuple[Passage, ...]) -> Searched:
    readable = with_text([as_web(page) for page in pages])
    notes = list(searched.notes)
    counts = [page.metadata.get("left_out") for page in pages]
    dropped = max((each for each in counts if isinstance(each, int) and each > 0), default=0)
    if blank := dropped + len(pages) - len(readable):
        notes.append(f"{blank} of {dropped + len(pages)} web results left out: no text")
    errors = [one.metadata["page_error"] for one in readable if "page_error" in one.metadata]
    unread = Counter(
        str(error.get("kind", "unknown")) if isinstance(error, Mapping) else "unknown"
        for error in errors
    )
    if unread:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(unread.items()))
        notes.append(f"web pages not read ({kinds}): their snippets stand in")
    if not readable:
        notes.append(f"the web search for {shortened(searched.queries[0])!r} found nothing to read")
    counted = {"web_results": len(pages), "page_errors": dict(unread)}
    details = {**searched.details, **counted}
    return replace(searched, passages=tuple(readable), notes=tuple(notes), details=details)


@dataclass(frozen=True)
class WebSearching:
    """Be a method that searches the web for a question and keeps all it gives, whole.

    With `rewrite` it asks for keywords, else for the question itself. A search that fails raises.
    """

    rewrite: bool = False

    def __post_init__(self) -> None:
        check_is("rewrite", self.rewrite, bool)

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
