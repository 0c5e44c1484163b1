"""Turn questions: into ones that no passage answers, and into ones inside a chat.

A question that a passage answers, with one thing changed, is answered by it no longer but looks as
if: another name or number of the same passage in the place of one, the opposite of a word, a
negation (Rajpurkar et al., 2018, table 1, name these among what annotators did).
"""

from __future__ import annotations

import random
import re

_PAIRS = """first last;largest smallest;biggest smallest;highest lowest;oldest youngest;most least;
more fewer;before after;early late;earliest latest;north south;northern southern;east west;
eastern western;began ended;begin end;start end;started ended;won lost;win lose;increase decrease;
increased decreased;above below;north south;greater lesser;larger smaller;longer shorter;
male female;men women;father mother;son daughter;brother sister;king queen;husband wife;
born buried;founded dissolved;opened closed;built destroyed;accepted rejected;allowed forbidden;
support oppose;supported opposed;majority minority;maximum minimum;best worst;beginning end;
inside outside;left right;upper lower;urban rural;public private;internal external;modern ancient;
new old;same different;with without;buy sell;bought sold;friend enemy;defeated spared;rise fall;
rose fell;legal illegal;common rare;positive negative;appointed dismissed;joined left;entered left;
arrived departed;married divorced;similar unlike;top bottom;always never;winter summer;
spring autumn;
morning evening;day night;good bad;strong weak;rich poor;hot cold;wet dry;light dark"""
OPPOSITES = {
    a: b
    for pair in _PAIRS.replace("\n", "").split(";")
    for x, y in [pair.split()]
    for a, b in ((x, y), (y, x))
}
_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w'’-]+(?: (?:of |the |de |von )?[A-Z][\w'’-]+)*")
_NUMBER = re.compile(r"\b\d[\d,.]*\d\b|\b\d\b")
_AUXILIARY = re.compile(
    r"\b(did|does|do|was|were|is|are|can|could|has|have|had|will|would)\b", re.I
)


def twisted(question: str, text: str, answer: str, chance: random.Random) -> str | None:
    """Change one thing in a question; None where nothing can be."""
    ways = [_named, _named, _numbered, _opposed, _opposed, _negated]
    chance.shuffle(ways)
    for way in ways:
        made = way(question, text, answer, chance)
        if made is not None and made.lower() != question.lower():
            return made
    return None


def _named(question: str, text: str, answer: str, chance: random.Random) -> str | None:
    inside = [m for m in _NAME.finditer(question) if m.group() in text]
    if not inside:
        return None
    chosen = chance.choice(inside)
    others = {m.group() for m in _NAME.finditer(text)}
    others = {
        o for o in others if _apart(o, chosen.group()) and _apart(o, answer) and o not in question
    }
    return _put(question, chosen, sorted(others), chance)


def _numbered(question: str, text: str, answer: str, chance: random.Random) -> str | None:
    inside = [*_NUMBER.finditer(question)]
    if not inside:
        return None
    chosen = chance.choice(inside)
    others = {m.group() for m in _NUMBER.finditer(text)} - {chosen.group()}
    others = {o for o in others if len(o) == len(chosen.group()) and o not in answer}
    if not others and len(chosen.group()) == 4 and chosen.group().isdigit():
        others = {str(int(chosen.group()) + chance.choice((-20, -7, 9, 31)))}
    return _put(question, chosen, sorted(others), chance)


def _opposed(question: str, text: str, answer: str, chance: random.Random) -> str | None:
    inside = [m for m in re.finditer(r"\w+", question) if m.group().lower() in OPPOSITES]
    if not inside:
        return None
    chosen = chance.choice(inside)
    return _put(question, chosen, [OPPOSITES[chosen.group().lower()]], chance)


def _negated(question: str, text: str, answer: str, chance: random.Random) -> str | None:
    found = _AUXILIARY.search(question)
    if found is None or found.end() > 40:
        return None
    words = question[found.end() :].split()
    if len(words) < 3:
        return None
    if found.start() and found.group().lower() in ("was", "is", "are", "were", "has", "had"):
        put = chance.choice(("not", "never"))
        return f"{question[: found.end()]} {put}{question[found.end() :]}"
    return (
        f"{question[: found.end()]}n't{question[found.end() :]}" if chance.random() < 0.5 else None
    )


def _put(
    question: str, found: re.Match[str], others: list[str], chance: random.Random
) -> str | None:
    if not others:
        return None
    return question[: found.start()] + chance.choice(others) + question[found.end() :]


def _apart(one: str, other: str) -> bool:
    return not {w.lower() for w in one.split()} & {w.lower() for w in other.split()}


_BEFORE = (
    "Hi there!", "Hello, hope you are well.", "Thanks, that helped a lot.",
    "OK, next thing.", "I am writing a school report and got stuck.",
    "My brother and I were arguing about this at dinner yesterday.",
    "Sorry to bother you again, one more thing I was wondering about.",
    "I have been reading all evening and cannot find it anywhere.",
    "We are preparing a quiz night for the office and I want to be sure.",
    "Good morning. I only have a minute before my train leaves.",
    "I am not an expert, so please keep it simple.",
    "Earlier you told me something similar, but I forgot the details.",
)  # fmt: skip
_AFTER = (
    "Thanks in advance!", "A short answer is fine.", "Please be precise.",
    "I would like to know before tomorrow.", "No need to explain, just the answer.",
    "Let me know if you are not sure.", "That would help me a lot with my notes.",
    "I promise this is the last one for today.",
)  # fmt: skip


def chatty(question: str, chance: random.Random) -> str:
    """Put small talk before a question, after it, or both."""
    before = " ".join(chance.sample(_BEFORE, chance.randint(1, 4)))
    after = " ".join(chance.sample(_AFTER, chance.randint(1, 2)))
    asked = question if question.endswith("?") or chance.random() < 0.3 else f"{question}?"
    draw = chance.random()
    parts = (
        (before, asked) if draw < 0.5 else (asked, after) if draw < 0.75 else (before, asked, after)
    )
    return " ".join(parts)
