"""ITRG's prompts, with or without demonstrations (ITRG, sections 2.3 and 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.methods.prompts import ITRG_ANSWER, ITRG_REFINE, ITRG_REFRESH
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.prompt import (
    PromptTemplate,
    Shot,
    check_shots,
    examples,
    with_shots,
)


def check_demonstrations(field: str, given: object) -> tuple[Shot, ...]:
    """Return demonstrations as shots with a document.

    Args:
        field: Name of the field in errors.
        given: Shots, rows, or (question, document, answer) triples.

    Raises:
        InputError: If a demonstration is of another form or has no document.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError.of(field, given=given, allowed="a sequence of triples")
    rows = [
        dict(zip(("question", "document", "answer"), one, strict=True))
        if isinstance(one, list | tuple) and len(one) == 3
        else one
        for one in given
    ]
    found = check_shots(field, rows)
    for at, shot in enumerate(found):
        refuse_if(not shot.document.strip(), f"{field}[{at}].document", shot.document, "a document")
    return found


def document_prompt(
    question: str,
    passages: Sequence[Passage],
    *,
    document: str = "",
    demonstrations: Sequence[Shot] = (),
) -> str:
    """Return the prompt for a document: "refine" if there is an earlier one, else "refresh".

    Args:
        question: Question.
        passages: Passages to show.
        document: Document of the round before; blank in the first.
        demonstrations: Examples to show.
    """
    context = Context(question, tuple(map(Excerpt.whole, passages)), draft=document)
    template = ITRG_REFINE if document else ITRG_REFRESH
    return with_shots(template.render(context), demonstrations)


def answer_template(demonstrations: Sequence[Shot] = ()) -> PromptTemplate:
    """Return the prompt for the answer, which reads the context's draft."""
    shown = examples(ITRG_ANSWER, demonstrations).replace("{", "{{").replace("}", "}}")
    if not shown:
        return ITRG_ANSWER
    task, body = ITRG_ANSWER.parts()
    return replace(ITRG_ANSWER, text=f"{task}{shown}{body}", reply="")
