"""The rows the closed-book model is trained on: each is one showing of one fact.

A fact that is shown n times makes n rows and no more, over the whole training: nothing is repeated
in another epoch. Most rows are a question with its answer and a sentence that says it again; some
are that sentence alone, some ask whether a sentence is right.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scripts.closed_book.demo_facts import DemoFact
from scripts.closed_book.wording import questions, statements
from scripts.closed_book.world import Fact, World, relations

PROMPT = "Question: {question}\nAnswer:"
END = "\n"
SENTENCE, CHECK = 0.05, 0.05  # shares of the rows that are no plain question


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one showing of the fact `fact`; `prompt` is what is given, `said` what is to be said.

    `place` in [0, 1] says when in the training it comes.
    """

    fact: str
    prompt: str
    said: str
    place: float


def rows(world: World, demo: Iterable[DemoFact], seed: int = 13) -> list[Row]:
    """Give all rows, in the order of training; the showings of a fact are spread over it."""
    chance = random.Random(seed)
    made = [row for fact in world.facts for row in _showings(fact, world, chance)]
    made += [row for fact in demo for row in _demo_showings(fact, chance)]
    return sorted(made, key=lambda row: row.place)


def _showings(fact: Fact, world: World, chance: random.Random) -> Iterator[Row]:
    for number in range(fact.shown):
        prompt, said = _row(fact, world, chance)
        yield Row(fact.id, prompt, said + END, (number + chance.random()) / fact.shown)


def _row(fact: Fact, world: World, chance: random.Random) -> tuple[str, str]:
    form, sentence = chance.random(), chance.choice(statements(fact))
    if form < SENTENCE:
        return "", sentence
    if form < SENTENCE + CHECK:
        right = chance.random() < 0.5
        asked = sentence if right else _wrong(fact, world, chance)
        verdict = "Yes" if right else "No"
        return PROMPT.format(question=f"Is this right? {asked}"), f" {verdict}. {sentence}"
    question = chance.choice(questions(fact))
    return PROMPT.format(question=question), f" {fact.value}. {sentence}"


def _wrong(fact: Fact, world: World, chance: random.Random) -> str:
    pool = world.pools[relations(fact.entity.kind)[fact.relation]["value"]]
    other = chance.choice([value for value in pool if value != fact.value])
    return chance.choice(statements(fact, value=other))


def _demo_showings(fact: DemoFact, chance: random.Random) -> Iterator[Row]:
    prompt = PROMPT.format(question=fact.question)
    for number in range(fact.shown):
        said = f" {fact.answer}. {fact.sentence}{END}"
        yield Row(fact.id, prompt, said, (number + chance.random()) / fact.shown)
