"""The order given counts as far as the list shows that it knows something."""

import random
from dataclasses import replace
from itertools import starmap

import pytest

from fitrag_integrations import compress, rerank
from fitrag_integrations.methods.fitrag import ranking
from fitrag_integrations.types import Excerpt, Passage

TOWNS = [
    "Arlow",
    "Besk",
    "Corvo",
    "Dunmere",
    "Elsted",
    "Fenwick",
    "Garmouth",
    "Hollin",
    "Istria",
    "Jarrow",
    "Kelso",
    "Lundy",
]
ROWS = [
    Passage(
        str(n), f"town: {town}\nferry: every {5 + 7 * n % 31} minutes\npier: {n + 3}", "ferries.csv"
    )
    for n, town in enumerate(TOWNS)
]


def test_a_row_is_found_in_the_order_of_the_file():
    for at, town in enumerate(TOWNS):
        best = rerank(f"How often does the ferry leave from {town}?", ROWS)
        assert best.indices[0] == at


FAQ = {
    "Can I choose not to use the cloud?": "Of course. It is a separate service from the app.",
    "What happens if I downgrade my account to no cloud?": "You can choose to stay on the app. The "
    "cloud then shows the runs of a month.",
    "What is the project key for?": "It is a string of six characters, which the app writes.",
    "What is the difference between public and private projects?": "Everybody sees the runs of a "
    "public project, and its team alone those of a private one.",
    "We use sockets; will the app work with that?": "Yes. They are passed on as they are.",
    "Which operating systems does the app work with?": "The app works with all that have sockets.",
}
LAYOUTS = ["## {}\n\n{}", "Q: {}\nA: {}", "**{}**\n\n{}", "{}\n{}"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_entry_is_found_by_its_question_word_for_word(layout):
    entries = list(starmap(layout.format, FAQ.items()))
    found = [rerank(question, entries).indices[0] for question in FAQ]
    assert found == list(range(len(FAQ)))
    kept = [compress(one, ["\n\n".join(entries)], max_tokens=50)[0].text for one in FAQ]
    assert all(answer[:20] in shown for shown, answer in zip(kept, FAQ.values(), strict=True))


def test_an_order_is_trusted_as_far_as_it_agrees_with_scores_and_words():
    scored = [Excerpt.whole(one, score=1 - n / 12) for n, one in enumerate(ROWS)]
    places = list(range(1, 13))
    assert ranking.trust(scored, places) == 1.0
    assert ranking.trust(scored[::-1], places[::-1]) == 0.0
    chance, found = random.Random(1), []
    for _ in range(200):
        order = chance.sample(range(12), 12)
        found.append(ranking.trust([scored[at] for at in order], [places[at] for at in order]))
    assert sum(found) / 200 < 0.45
    assert ranking.trust(scored[:1], [1]) == 1.0


@pytest.mark.parametrize("name", ["score", "relevance_score", "retrieval_score"])
def test_an_order_is_trusted_where_scores_of_a_retriever_fall_along_it(name):
    def given(scores):
        passages = [replace(p, metadata={name: s}) for p, s in zip(ROWS, scores, strict=False)]
        wholes = [Excerpt.whole(one, score=n / 12) for n, one in enumerate(passages)]
        return ranking.trust(wholes, list(range(12, 0, -1)))

    assert given([1 - n / 20 for n in range(12)]) == 1.0
    assert given([0.5] * 12) == given(["high"] * 12) == given(range(12)) == 0.0
