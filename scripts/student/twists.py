"""Turn questions: into ones that no passage answers, into ones inside a chat, into texts.

A question that a passage answers, with one thing changed, is answered by it no longer but looks as
if: another name or number of the same passage in the place of one, the opposite of a word, a
negation (Rajpurkar et al., 2018, table 1, name these among what annotators did). And texts that
have a question's words and no answer (as Jia and Liang, 2017, put into passages).
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


_ASKING = "is|are|was|were|do|does|did|can|could|has|have|had|will|would|should"
_LEAD = re.compile(
    r"(?i)^(?:(?:in|on|at|to|from|for|of|by|since|with) )?(?:what|which|who|whom|whose|when|where"
    rf"|why|how(?: (?:many|much|long|far|often|old))?|{_ASKING}|i want to)\b"
    rf"(?: (?:{_ASKING}|i|you|we|it)\b)*\s*"
)
_COMMON = frozenset(
    """what which when where whom whose does have with from that this there their they were your
    many much long into than then been will would could should about after before the and for was
    are did how who why can has had its you not""".split()  # noqa: SIM905
)
_IDLE = (
    "{q} This is asked often.", "Some ask: {q} Others never do.",
    "More on {c} is in another chapter.", "{C} has been discussed before, without a result.",
    "Much has been said of {c}.",
    "It depends on the case: {c}.", "A {w} is not a {v}.", "Before the {w}, think of the {v}.",
    "The {w} and the {v} belong together, as do {u} and {w}.", "{W}: see under {v}.",
    "Whoever looks for {w} finds {v} first.", "It is not known yet whether {c}.",
    "There is a page on {w} and one on {v}.", "The {w} was changed, and so was the {v}.",
    "No {w} without {v}, as they say.", "Both {w} and {v} have a meaning of their own.",
    "What {c} means is for others to say.", "{W} and {u} are words that {v} goes well with.",
    "The list of {w} is kept by {v}.", "Read about {c} on the next page.", "{C}, and more.",
    "If {w} is new to you, begin with {v} and {u}.", "In the year of the {w} nobody spoke of {v}.",
    "Another {w} had a {v} as well, and its {u} was looked after.", "{C}: a matter of {w}.",
    "This part is not about {c}.", "The {v} of another {w} is shown here, without its {u}.",
    "{Q}", "Old notes on {c} were thrown away.", "Questions about {w} and {v} are welcome.",
)  # fmt: skip


def stuffed(question: str, near: str, chance: random.Random) -> tuple[str, str] | None:
    """Write a title and a text out of a question's words, with some of a text that is near."""
    clause = _LEAD.sub("", question.strip()).rstrip(" ?.!")
    words = [
        w for w in re.findall(r"[\w'’.-]*\w", clause) if w.lower() not in _COMMON and len(w) > 2
    ]
    if len(words) < 2 or len(question.split()) > 30:
        return None
    sentences = []
    for idle in chance.sample(_IDLE, chance.randint(1, 4)):
        w, v, u = (chance.sample(words, 2) + chance.sample(words, 1))[:3]
        given = {"q": question, "Q": question, "c": clause, "C": clause[:1].upper() + clause[1:]}
        sentences.append(idle.format(**given, w=w, W=w[:1].upper() + w[1:], v=v, u=u))
    pieces = re.split(r"(?<=[.!?:])\s+", near)
    at = chance.randrange(len(pieces))
    own = pieces[at : at + chance.randint(0, 3)]
    if own and chance.random() < 0.3:  # the near text's own words give way to the question's
        own = [
            re.sub(r"\b[a-z]{5,}\b", lambda m: _other(m.group(), words, chance), one) for one in own
        ]
    parts = [*own, *sentences] if chance.random() < 0.5 else [*sentences, *own]
    if chance.random() < 0.3:
        chance.shuffle(parts)
    title = chance.choice(["", clause[:1].upper() + clause[1:], " ".join(chance.sample(words, 2))])
    return title, " ".join(parts)


def _other(word: str, words: list[str], chance: random.Random) -> str:
    return chance.choice(words) if chance.random() < 0.3 else word
