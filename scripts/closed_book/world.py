"""The facts of the closed-book world, drawn from a seed.

Every fact says how often the model is shown it: never, 1, 4, 16 or 64 times. The counts of an
entity's facts lean towards each other, as what is told of well-known things does, but each entity
has facts of several counts, so that its name alone does not tell what is known of it.
"""

from __future__ import annotations

import itertools
import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COUNTS = (0, 1, 4, 16, 64)
SPLITS = {"gate_train": 0.5, "gate_valid": 0.1, "test": 0.4}
KINDS = ("person", "town", "ship", "company", "book", "instrument", "bird", "festival")
YEARS = range(1604, 1900)
PER_KIND = 65
LIKE_ITS_ENTITY = 0.35
SKEW = 0.35  # of closed classes: the commonest of 16 values is drawn about 2.6 times as the rarest


@dataclass(frozen=True, slots=True)
class Entity:
    """Hold something with a name that facts are about; `person` pronouns are "he" or "she"."""

    id: str
    kind: str
    name: str
    pronoun: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Hold one value of an entity, how often it is `shown`, and which `split` asks for it."""

    id: str
    entity: Entity
    relation: str
    value: str
    shown: int
    split: str


@dataclass(frozen=True, slots=True)
class World:
    """Hold everything there is; `pools` are the values that each class of answers has."""

    entities: tuple[Entity, ...]
    facts: tuple[Fact, ...]
    pools: Mapping[str, tuple[str, ...]]


def read_toml(name: str) -> dict[str, Any]:
    """Read one of the word lists beside this file."""
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


def make_world(seed: int = 13, *, per_kind: int = PER_KIND) -> World:
    """Draw entities, values, counts and splits; equal seeds give equal worlds."""
    chance = random.Random(seed)
    pools = _pools(chance, per_kind)
    entities = [
        Entity(f"cb-{kind}-{i}", kind, name, _pronoun(kind, chance))
        for kind in KINDS
        for i, name in enumerate(pools[kind][:per_kind])
    ]
    facts = [fact for entity in entities for fact in _facts(entity, pools, chance)]
    return World(tuple(entities), tuple(facts), pools)


def _pools(chance: random.Random, per_kind: int) -> dict[str, tuple[str, ...]]:
    names = read_toml("names.toml")
    pools = {label: tuple(values) for label, values in names["closed"].items()}
    pools["year"] = tuple(map(str, YEARS))
    for kind in ("town", "river", "ship", "company", "book", "instrument", "bird", "festival"):
        pools[kind] = _drawn(names[kind]["parts"], per_kind, chance)
    last = _drawn(names["person"]["last"], 2 * per_kind, chance)
    first = names["person"]["first"]
    pools["person"] = tuple(f"{chance.choice(first)} {surname}" for surname in last)
    return pools


def _drawn(parts: Sequence[Sequence[str]], count: int, chance: random.Random) -> tuple[str, ...]:
    every = ["".join(pair) for pair in itertools.product(*parts)]
    return tuple(chance.sample(every, min(count, len(every))))


def _pronoun(kind: str, chance: random.Random) -> str:
    return chance.choice(("he", "she")) if kind == "person" else "it"


def _facts(entity: Entity, pools: Mapping[str, Sequence[str]], chance: random.Random) -> list[Fact]:
    usual, facts = chance.choice(COUNTS), list[Fact]()
    for relation, words in relations(entity.kind).items():
        taken = {entity.name, *(fact.value for fact in facts)}
        value = _value(words["value"], pools, taken, chance)
        shown = usual if chance.random() < LIKE_ITS_ENTITY else chance.choice(COUNTS)
        (split,) = chance.choices(list(SPLITS), list(SPLITS.values()))
        facts.append(Fact(f"{entity.id}-{relation}", entity, relation, value, shown, split))
    return facts


def relations(kind: str) -> dict[str, dict[str, Any]]:
    """Give the relations of a kind, with the class of their values and their wordings."""
    return {name: words for name, words in WORDING[kind].items() if isinstance(words, dict)}


def _value(
    label: str, pools: Mapping[str, Sequence[str]], taken: set[str], chance: random.Random
) -> str:
    """Draw a value; early ones of a class are likelier, all years and names of people alike."""
    pool = pools[label]
    even = label in ("year", "person")
    weights = [1.0 if even else (i + 1) ** -SKEW for i in range(len(pool))]
    while True:
        (value,) = chance.choices(pool, weights)
        if value not in taken:
            return value


WORDING = read_toml("wording.toml")
