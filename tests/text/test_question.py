"""What is asked in a text that talks around it, of one thing or of several."""

import pytest

from fitrag_integrations.text.question import asked_of

GERMANY = "We spent all of last summer by the rivers of Germany."
TALK = f"Hi there! I hope you are well. {GERMANY}"
QUESTION = "Where does the Danube rise?"
PORTS = (
    "Which port do the metrics use? Is it the same as for the web interface? And do I need a key "
    "for that?"
)
LONG = "which river that rises in the black forest and is crossed by ten states has " * 4 + "?"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (f"{TALK} {QUESTION}", QUESTION),
        (f"{QUESTION} I need it for a talk at school tomorrow. Do you know? Thanks!", QUESTION),
        (
            f"How long should I boil an egg, a larger one? {TALK} And then: {QUESTION}",
            f"How long should I boil an egg, a larger one? And then: {QUESTION}",
        ),
        (f"{TALK} Please tell me where it rises.", f"{GERMANY} Please tell me where it rises."),
        (f"{TALK} In which country does the Rhine end", "In which country does the Rhine end"),
        (f"{TALK} Can you help me?", f"{TALK} Can you help me?"),
        (
            f"{TALK} It ends in the sea. Where does it rise?",
            f"{GERMANY} It ends in the sea. Where does it rise?",
        ),
        (
            f"{TALK} The Elbe ends in the sea. Where does it rise?",
            "The Elbe ends in the sea. Where does it rise?",
        ),
        (PORTS, PORTS),
        (f"Hi there! {PORTS} Thanks a lot for your help.", PORTS),
        (
            "Good morning! Since the update LN-610 is logged. How do I fix it? I'm a bit lost. Bye",
            "Since the update LN-610 is logged. How do I fix it?",
        ),
        (
            "Hello! My oven shows E7. I've tried that twice. How do I get rid of it? I'd like to "
            "know who comes. Please name the hotline.",
            "My oven shows E7. I've tried that twice. How do I get rid of it? Please name the "
            "hotline.",
        ),
        (
            f"{TALK} Does the X200 float, and what does I think of it mean here? Thanks",
            "Does the X200 float, and what does I think of it mean here?",
        ),
        (LONG, LONG),
        (TALK, TALK),
        (QUESTION, QUESTION),
        ("", ""),
    ],
)
def test_all_sentences_that_ask_are_read_with_what_they_refer_to(text, asked):
    assert asked_of(text) == asked
