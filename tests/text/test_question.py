"""What is asked in a text that talks around it."""

import pytest

from fitrag_integrations.text.question import asked_of

GERMANY = "We spent all of last summer by the rivers of Germany."
TALK = f"Hi there! I hope you are well. {GERMANY}"
QUESTION = "Where does the Danube rise?"
LONG = "which river that rises in the black forest and is crossed by ten states has " * 4 + "?"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (f"{TALK} {QUESTION}", QUESTION),
        (f"{QUESTION} I need it for a talk at school tomorrow. Do you know? Thanks!", QUESTION),
        (
            f"How long should I boil an egg, a larger one? And then: {QUESTION}",
            f"And then: {QUESTION}",
        ),
        (f"{TALK} Please tell me where it rises.", f"{GERMANY} Please tell me where it rises."),
        (f"{TALK} In which country does the Rhine end", "In which country does the Rhine end"),
        (f"{TALK} Can you help me?", f"{TALK} Can you help me?"),
        (
            f"{TALK} It ends in the sea. Where does it rise?",
            "It ends in the sea. Where does it rise?",
        ),
        (LONG, LONG),
        (TALK, TALK),
        (QUESTION, QUESTION),
        ("", ""),
    ],
)
def test_the_last_sentence_that_asks_decides(text, asked):
    assert asked_of(text) == asked
