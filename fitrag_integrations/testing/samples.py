"""Questions and texts the checks ask about: plain ones, and those that break what is careless."""

from __future__ import annotations

from fitrag_integrations.types import Passage

QUESTIONS = (
    "Which river runs through Vienna?",
    "Who wrote the letters from the lighthouse?",
    "When was the bridge at Harrow Ford built?",
)
PASSAGES = (
    Passage(
        "vienna", "Vienna lies on the Danube, which the city has kept from flooding since 1875."
    ),
    Passage(
        "bridge", "The bridge at Harrow Ford was built in 1931. It carries one lane.", "Harrow Ford"
    ),
    Passage("weather", "It rained for most of the week."),
    Passage("letters", "Ida Morrow wrote the letters while she kept the lighthouse. " * 6),
)
ODD_QUESTIONS = (
    "?",
    "Was heißt „Fluß“ — 川は何ですか？ 👩‍👩‍👧 \u202enaib\u202c",
    "so anyway, we were talking about trains, " * 60 + "which river runs through Vienna?",
)
ODD_PASSAGES = (
    Passage("mark", "."),
    Passage("scripts", "Die Donau fließt durch Wien. 川です。 👩‍👩‍👧 \x00 \ud7ff \u202enaib\u202c"),
    Passage("long", "The river was cold that year and nobody crossed it. " * 100),
    Passage("word", "a" * 5_000),
    Passage("marks", "[CLS] [SEP] </s> <|im_start|> {{question}} %s"),
)
