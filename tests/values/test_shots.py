"""Examples in prompts: each prompt shows what it asks for, and none shows an example twice."""

import pickle
from types import SimpleNamespace

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run
from fitrag_integrations.methods import ITRG
from fitrag_integrations.methods.answering import Answering
from fitrag_integrations.methods.direct import Direct
from fitrag_integrations.methods.ik.gates import TRUE
from fitrag_integrations.methods.prompts import (
    CRAG_KEYWORDS,
    ITRG_ANSWER,
    ITRG_REFRESH,
    PLAIN,
    READ,
    TEMPLATES,
    PromptTemplate,
    Shot,
    check_shots,
    with_shots,
)
from fitrag_integrations.ports import Ports
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.prompt import LimitedPrompt

ROWS = [
    {
        "question": "Who built the {Tirva} bridge?",
        "answers": ["Ilse Marbach", "I. Marbach"],
        "passages": [{"title": "Tirva", "text": "Ilse Marbach built the bridge."}],
        "keywords": "Tirva bridge, builder",
    },
    {"question": "When was Besk founded?", "answer": "1694"},
]
SHOTS = check_shots("shots", ROWS)
OTHER = Passage("d", "The Danube ends in the Black Sea.", "Danube")
CONTEXT = Context("Where does it end?", (Excerpt.whole(OTHER),), draft="In a sea.")


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        (
            PLAIN,
            "Question: Who built the {Tirva} bridge?\nAnswer: Ilse Marbach\n\n"
            "Question: When was Besk founded?\nAnswer: 1694\n\n"
            "Question: Where does it end?\nAnswer:",
        ),
        (
            READ,
            "Answer the question from the passages below, as briefly as you can.\n"
            "Passages:\n1. Tirva: Ilse Marbach built the bridge.\n"
            "Question: Who built the {Tirva} bridge?\nAnswer: Ilse Marbach\n\n"
            "Passages:\n1. Danube: The Danube ends in the Black Sea.\n"
            "Question: Where does it end?\nAnswer:",
        ),
        (
            TRUE,
            "Question: Who built the {Tirva} bridge?\nProposed answer: Ilse Marbach\n"
            "Is the proposed answer true? Answer Yes or No.\nAnswer: Yes\n\n"
            "Question: When was Besk founded?\nProposed answer: Ilse Marbach\n"
            "Is the proposed answer true? Answer Yes or No.\nAnswer: No\n\n"
            "Question: Where does it end?\nProposed answer: In a sea.\n"
            "Is the proposed answer true? Answer Yes or No.\nAnswer:",
        ),
        (
            ITRG_ANSWER,
            "Read the document and answer the question in as few words as possible.\n\n"
            "Document: Ilse Marbach built the bridge.\nQuestion: Who built the {Tirva} bridge?\n"
            "Answer: Ilse Marbach\n\nDocument: In a sea.\nQuestion: Where does it end?\nAnswer:",
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_examples_stand_between_the_task_and_the_question(template, shown):
    prompt = with_shots(template.render(CONTEXT), SHOTS)
    assert prompt == shown
    assert prompt.one_line == template.one_line
    assert with_shots(prompt, SHOTS) == prompt
    assert with_shots(pickle.loads(pickle.dumps(template.render(CONTEXT))), SHOTS) == prompt


def test_keywords_have_the_examples_that_have_keywords():
    prompt = with_shots(CRAG_KEYWORDS.render(CONTEXT), SHOTS)
    assert prompt.endswith(
        "designer, year\nquestion: Who built the {Tirva} bridge?\nquery: Tirva bridge, builder\n\n"
        "question: Where does it end?\nquery:"
    )


def test_a_prompt_without_what_it_shows_stays_as_it_is():
    for template in (*TEMPLATES.values(), READ, PLAIN):
        prompt = template.render(CONTEXT)
        assert with_shots(prompt, ()) == with_shots(str(prompt), SHOTS) == prompt
    document = ITRG_REFRESH.render(CONTEXT)
    assert with_shots(document, SHOTS) == document
    known = PromptTemplate("known", "Question: {question}\nDo you know? Yes or No:", reply="known")
    shots = check_shots("shots", [*ROWS, {**ROWS[1], "known": False}])
    assert with_shots(known.render(CONTEXT), shots).startswith(
        "Question: When was Besk founded?\nDo you know? Yes or No: No\n\nQuestion: Where"
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a text", r"shots\[1\]"),
        ({"question": "Who?"}, r"shots\[1\].*answer"),
        ({"question": " ", "answer": "He"}, r"shots\[1\].*question"),
        ({"question": "Who?", "answer": "He", "passages": [{"title": "x"}]}, r"shots\[1\].*text"),
        ({"question": "Who?", "answer": "He", "passages": ["x"]}, r"shots\[1\]"),
    ],
)
def test_what_is_no_example_is_named(row, said):
    with pytest.raises(InputError, match=said):
        check_shots("shots", [ROWS[0], row])


def test_ports_show_examples_in_every_prompt_that_a_method_writes():
    asked = []

    def generate(prompts):
        asked.extend(prompts)
        return ["The Black Sea."] * len(prompts)

    ports = Ports(lambda queries: [[OTHER] for _ in queries], generate=generate, shots=SHOTS)
    run(Answering(Direct(), template=READ)("Where does it end?", ports))
    run(ITRG(rounds=1, answers="last")("Where does it end?", ports))
    own = SimpleNamespace(generate=generate, shots=SHOTS)
    answered = run(
        Answering(Direct(), template=READ)(CONTEXT.question, Ports(ports.retrieve, generate=own))
    )
    assert answered.value.prompt == asked[0] == asked.pop()
    (note,) = answered.value.context.notes  # one example has no passages
    assert note.startswith("the prompt leaves out 1 of 2 examples")
    shown = ["Ilse Marbach built" in prompt for prompt in asked]
    assert shown == [True, False, True]  # the second writes a document, of which there is none
    assert [LimitedPrompt(prompt).tokens for prompt in asked] == [None, 200, 15]
    assert Shot.from_dict(SHOTS[0].to_dict()) == SHOTS[0]
