"""Questions of the kind people ask about an entity, made from the first lines of its article.

"X is a 1931 film directed by Y" answers "Who was the director of X?"; an article on a film that
has no word of music leaves "Who was the composer of X?" open. Patterns and word lists only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NAME = r"(?P<x>[A-Z][\w.'\-]+(?: (?:[A-Z][\w.'\-]+|de|von|van|der|del|la|al|bin|ibn|of))*)"


@dataclass(frozen=True, slots=True)
class Relation:
    """Say how a relation is asked for, how it is stated, and what word hints that it might be."""

    questions: tuple[str, ...]
    stated: str
    hint: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Hold a question about an article's subject; no answers where the article is silent."""

    question: str
    answers: tuple[str, ...]


FILM = (
    Relation(
        ("Who was the director of {}?", "Who directed {}?"),
        rf"directed (?:and \w+ )?by {NAME}",
        "direct",
    ),
    Relation(("Who was the producer of {}?",), rf"produced (?:and \w+ )?by {NAME}", "produc"),
    Relation(
        ("Who was the screenwriter for {}?",),
        rf"(?:written (?:and \w+ )?by|screenplay by) {NAME}",
        "writ|screenplay|adapted|based",
    ),
    Relation(
        ("Who was the composer of {}?",),
        rf"(?:music (?:was |is )?(?:composed |scored )?by|composed by|score by) {NAME}",
        "music|compos|score|soundtrack",
    ),
)
PERSON = (
    Relation(
        ("In what city was {} born?", "Where was {} born?"),
        rf"born[^.;]{{0,40}}? (?:in|at) {NAME}",
        r"born in|native of|\bfrom\b|grew up|birthplace",
    ),
    Relation(
        ("Who is the father of {}?",),
        rf"\b(?:son|daughter|child) of(?: the)?(?: [\w\-]+){{0,3}}? {NAME}",
        r"\bson\b|daughter|father|child|parent|family|sister|brother",
    ),
    Relation(
        ("Who is the mother of {}?",),
        rf"\b(?:son|daughter|child) of [^.;]{{3,80}}? and(?: his (?:\w+ )?wife,?)? {NAME}",
        r"\bson\b|daughter|mother|child|parent|family|sister|brother",
    ),
    Relation(
        ("Who was {} married to?",),
        rf"(?:married|wife of|husband of|wife,?|husband,?) {NAME}",
        "husband|wife|marri|spouse|widow",
    ),
)
WORK = (
    Relation(
        ("Who is the author of {}?", "Who wrote {}?"),
        rf"\b(?:novel|book|play|memoir|short story|poem)\b[^.]{{0,60}}?\bby {NAME}",
        r"\bby\b|writ|author",
    ),
)
OCCUPATIONS = (
    "actor actress politician singer songwriter composer footballer cricketer painter novelist "
    "poet writer author journalist lawyer physician architect historian philosopher "
    "mathematician physicist chemist biologist economist director producer screenwriter musician "
    "guitarist pianist drummer conductor model dancer choreographer photographer sculptor "
    "engineer bishop priest swimmer cyclist boxer wrestler coach diplomat soldier officer judge "
    "philanthropist businessman entrepreneur comedian presenter broadcaster editor critic "
    "publisher illustrator cartoonist designer scientist astronomer theologian activist nobleman "
    "explorer botanist geologist linguist rower skier sprinter golfer cinematographer playwright"
)
GENRES = (
    "comedy drama thriller horror western musical documentary romance action adventure crime noir "
    "mystery fantasy rock pop jazz folk punk metal country soul blues electronic disco techno war "
    "biographical historical animated silent melodrama spy superhero"
)
COUNTRIES = (
    "Albania Algeria Argentina Armenia Australia Austria Azerbaijan Bangladesh Belgium Bolivia "
    "Brazil Bulgaria Canada Chile China Colombia Croatia Cuba Cyprus Denmark Ecuador Egypt England "
    "Estonia Ethiopia Finland France Georgia Germany Ghana Greece Hungary Iceland India Indonesia "
    "Iran Iraq Ireland Israel Italy Jamaica Japan Kazakhstan Kenya Latvia Lebanon Lithuania "
    "Malaysia Malta Mexico Morocco Nepal Netherlands Nigeria Norway Pakistan Peru Philippines "
    "Poland Portugal Romania Russia Scotland Serbia Slovakia Slovenia Spain Sweden Switzerland "
    "Syria Taiwan Thailand Tunisia Turkey Ukraine Uruguay Venezuela Vietnam Wales Zimbabwe"
)
_END = re.compile(r"(?<=[a-z]{2})\. ")  # not after an initial
PLACE = (
    r"\bis an? [^.]{0,60}\b(?:village|town|city|municipality|commune|river|lake|district|county|"
    r"mountain|parish|suburb|island|province|settlement|church|castle|museum|stadium|school)\b"
)


def facts(title: str, text: str) -> Iterator[Fact]:
    """Ask about an article's subject what its text answers, and what it is silent on."""
    name = re.sub(r" \([^)]*\)$", "", title)
    first = " ".join(re.split(r"(?<=[a-z)]\.) (?=[A-Z])", text)[:2])
    if re.search(PLACE, first):
        yield from _listed("In what country is {}?", name, COUNTRIES, first)
    elif re.search(r"\bis an?\b.*\bfilm\b", first):
        yield from _related(FILM, name, text)
        yield from _listed("What genre is {}?", name, GENRES, first)
    elif re.search(r"\((?:[^)]*)(?:born|\d{3,4} ?[–-] ?)", first):
        yield from _related(PERSON, name, text)
        yield from _listed("What is {}'s occupation?", name, OCCUPATIONS, first)
    elif re.search(WORK[0].stated, first):
        yield from _related(WORK, name, text)


def _related(relations: tuple[Relation, ...], name: str, text: str) -> Iterator[Fact]:
    for relation in relations:
        stated = re.search(relation.stated, text)
        if stated and len(stated["x"]) > 2 and stated["x"] != name:
            answers: tuple[str, ...] = (_END.split(stated["x"])[0].rstrip("."),)
        elif not re.search(relation.hint, text):
            answers = ()
        else:
            continue
        for question in relation.questions:
            yield Fact(question.format(name), answers)


def _listed(question: str, name: str, words: str, first: str) -> Iterator[Fact]:
    found = tuple(w for w in words.split() if re.search(rf"\b{w}\b", first, re.IGNORECASE))
    if found:
        yield Fact(question.format(name), found)
