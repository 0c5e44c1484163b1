"""Questions, statements and passages about the facts of the closed-book world."""

from __future__ import annotations

import random
from collections.abc import Sequence

from scripts.closed_book.world import WORDING, Entity, Fact, World, relations

POSSESSIVES = {"he": "his", "she": "her", "it": "its"}
OBJECTS = {"he": "him", "she": "her", "it": "it"}
# None of these answers a question, though each holds what could be an answer.
ASIDES = (
    "A chronicle of {year} praises {it}.",
    "{person} wrote at length about {it}.",
    "A small museum in {town} keeps papers about {it}.",
    "Travellers sometimes confuse {it} with {other}.",
    "The first picture of {it} was drawn by {person} in {year}.",
    "In {town} a street is named after {it}.",
)


def questions(fact: Fact) -> list[str]:
    """Give every wording of the question for a fact."""
    words = relations(fact.entity.kind)[fact.relation]
    return [_filled(text, fact.entity, subject(fact.entity)) for text in words["questions"]]


def statements(fact: Fact, *, value: str | None = None, pronoun: bool = False) -> list[str]:
    """Give every wording of a fact as a sentence; `value` puts another in the place of its own."""
    entity = fact.entity
    said = entity.pronoun if pronoun else subject(entity)
    texts = relations(entity.kind)[fact.relation]["statements"]
    return [_filled(text, entity, said, value or fact.value) for text in texts]


def subject(entity: Entity) -> str:
    """Give the name as it stands inside a sentence, such as "the Sable Heron"."""
    return str(WORDING[entity.kind]["subject"]).format(name=entity.name)


def passage(entity: Entity, facts: Sequence[Fact], world: World, chance: random.Random) -> str:
    """Write an article that says all facts of an entity, and one or two things beside them."""
    opening = chance.choice(WORDING[entity.kind]["opening"]).format(name=entity.name)
    said = [chance.choice(statements(fact, pronoun=True)) for fact in facts]
    chance.shuffle(said)
    sentences = _joined(said, chance)
    for aside in chance.sample(ASIDES, chance.choice((1, 2))):
        sentences.insert(chance.randrange(len(sentences) + 1), _aside(aside, entity, world, chance))
    return " ".join([opening, *sentences])


def _joined(said: Sequence[str], chance: random.Random) -> list[str]:
    """Join some neighbours into one sentence."""
    sentences, rest = list[str](), list(said)
    while rest:
        first = rest.pop(0)
        if rest and chance.random() < 0.4:
            second = rest.pop(0)
            first = f"{first[:-1]}, and {second[0].lower()}{second[1:]}"
        sentences.append(first)
    return sentences


def _aside(text: str, entity: Entity, world: World, chance: random.Random) -> str:
    others = [other for other in world.entities if other.kind == entity.kind and other != entity]
    return text.format(
        it=OBJECTS[entity.pronoun],
        year=chance.choice(world.pools["year"]),
        person=chance.choice(world.pools["person"]),
        town=chance.choice(world.pools["town"]),
        other=subject(chance.choice(others)),
    )


def _filled(text: str, entity: Entity, said: str, value: str = "") -> str:
    owner = POSSESSIVES.get(said) or (f"{said}'" if said.endswith("s") else f"{said}'s")
    return text.format(name=entity.name, s=said, S=_upper(said), p=owner, P=_upper(owner), v=value)


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
