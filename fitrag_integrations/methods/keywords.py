"""Rewrite a question into at most three keywords for a web search (CRAG, section 4.5, Table 7).

A language model writes them where there is one. What it wrote is read leniently and refused where
it is no list of keywords; then, and without a model, they are taken from the question itself. That
knows the stop words of English and leaves questions in other scripts as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fitrag_integrations._explain import shortened
from fitrag_integrations.flow import Flow
from fitrag_integrations.methods.phrases import key_phrases
from fitrag_integrations.methods.prompts import CRAG_KEYWORDS
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context

MOST = 3
LONGEST_KEYWORD = 80  # characters; what is longer is prose
MOST_WORDS, MOST_CHARACTERS = 30, 400  # of all that was written; more is prose too
UNREADABLE = "it wrote no list of keywords"

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
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
    """Hold the query for the search and the way it was found: llm, extracted or question."""

    query: str
    way: str
    notes: tuple[str, ...] = ()


def rewrite(question: str, ports: Ports) -> Flow[Rewritten]:
    """Ask ``ports.generate`` for keywords; else take them from the question, or take all of it.

    A model that fails or writes anything but keywords is noted; nothing is raised for it.
    """
    failed = ""
    if ports.generate:
        try:
            (text,) = yield from ports.generate.ask([keyword_prompt(question)])
            if keywords := parse_keywords(text):
                return Rewritten(", ".join(keywords), "llm")
            failed = UNREADABLE
        except Exception as error:  # noqa: BLE001 - a search by other words beats none
            failed = f"{type(error).__name__}: {shortened(str(error))}"
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
    body = "\n".join(_answer_lines(_THOUGHT.sub(" ", text)))
    if len(body) > MOST_CHARACTERS or len(body.split()) > MOST_WORDS:
        return ()
    if _REFUSAL.match(body.replace("’", "'")) or body.strip().casefold() in _EXAMPLES:
        return ()
    keywords = _once(_bare(piece) for piece in _BETWEEN.split(body))
    return () if any(len(word) > LONGEST_KEYWORD for word in keywords) else keywords[:MOST]


def extract_keywords(question: str) -> tuple[str, ...]:
    """Take up to three keywords from a question's own words, in their order.

    Quoted phrases, names and numbers first, then what is no stop word of English. None where the
    question has nothing but stop words, or letters of a script other than Latin.
    """
    return _once(" ".join(phrase.split()) for phrase in key_phrases(question, MOST))


def _answer_lines(text: str) -> Iterator[str]:
    """Give the lines of the answer: none of a fence, a heading, or a question made up after it."""
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
    """Take off what stands around a keyword, and a full stop that ends it."""
    word = _BULLET.sub("", piece).strip(_AROUND).lstrip("#" + _AROUND)
    word = re.sub(r"(?<=[^\W_]{3})\.$", "", word)  # not that of an abbreviation
    return " ".join(word.split()) if re.search(r"\w", word) else ""


def _once(words: Iterable[str]) -> tuple[str, ...]:
    kept: dict[str, str] = {}
    for word in words:
        if word:
            kept.setdefault(word.casefold(), word)
    return tuple(kept.values())
