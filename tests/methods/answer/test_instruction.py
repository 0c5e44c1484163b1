"""One instruction for all methods, whatever they kept."""

import pytest

from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.ik.gates import DRAFT_PROMPT
from fitrag_integrations.methods.prompts import PLAIN, READ, OneInstruction, instruction_named
from fitrag_integrations.types import Context, Excerpt, Passage, RetrievalDecision

QUESTION = "Who wrote the score?"
ROTA = Excerpt.whole(Passage("rota", "Nino Rota wrote the score."))


def test_what_was_kept_is_read_by_one_instruction():
    kept = Context(QUESTION, (ROTA,), method="fitrag")
    other = Context(QUESTION, (ROTA,), method="crag", details={"weight": 0.5})
    assert instruction_named("equal").render(kept) == READ.render(kept) != kept.prompt()
    assert instruction_named("equal").render(other) == READ.render(kept)


def test_a_known_question_is_asked_as_its_label_was_made():
    known = Context(QUESTION, decision=RetrievalDecision(False, 0.9, 0.5), method="iknow")
    for name in ("equal", "simple"):
        prompt = instruction_named(name).render(known)
        assert prompt == PLAIN.render(known) == DRAFT_PROMPT.format(question=QUESTION)


def test_a_document_stands_in_the_place_of_passages():
    own = {"template": {"name": "itrg_answer", "text": "Document: {draft}"}}
    written = Context(QUESTION, (ROTA,), draft="Rota did.", method="itrg", details=own)
    assert OneInstruction().render(written) == (
        "Answer the question from the passages below, as briefly as you can.\nPassages:\n"
        f"1. Rota did.\nQuestion: {QUESTION}\nAnswer:"
    )


def test_another_by_name_or_each_its_own():
    kept = Context(QUESTION, (ROTA,))
    assert instruction_named("simple").render(kept).endswith("The answer is")
    assert instruction_named("own") is None
    with pytest.raises(InputError, match="template` must be"):
        instruction_named("loud")
