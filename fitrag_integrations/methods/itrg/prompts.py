"""ITRG's prompts, with or without demonstrations (ITRG, sections 2.3 and 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fitrag_integrations.core.checks import Checked, Strings, Visible, check_is
from fitrag_integrations.core.record import Record
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods.prompts import ITRG_ANSWER, ITRG_REFINE, ITRG_REFRESH
from fitrag_integrations.types import Context, Excerpt, Passage
from fitrag_integrations.values.prompt import PromptTemplate, render_excerpts


@dataclass(frozen=True, slots=True)
class Demonstration(Record, Checked):
    """An example to show the language model.

    Args:
        question: The question.
        document: A document that answers it.
        answer: The answer.
        passages: Passages the document was written from, if any.
    """

    question: Visible
    document: Visible
    answer: Visible
    passages: Strings = ()

    def written(self) -> str:
        """Format the example for the document prompts."""
        shown = [Excerpt.whole(Passage(text, text)) for text in self.passages]
        given = f"Passage:\n{render_excerpts(shown)}\n" if shown else ""
        return f"{given}Question: {self.question}\nDocument: {self.document}\n\n"

    def answered(self) -> str:
        """Format the example for the answer prompt."""
        return f"Document: {self.document}\nQuestion: {self.question}\nAnswer: {self.answer}\n\n"


def check_demonstrations(field: str, given: object) -> tuple[Demonstration, ...]:
    """Accept demonstrations, (question, document, answer) triples, or mappings of these names."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError.of(field, given=given, allowed="a sequence of triples")
    found = list[Demonstration]()
    for i, one in enumerate(given):
        made = Demonstration.from_dict(one) if isinstance(one, Mapping) else one
        if isinstance(one, Sequence) and not isinstance(one, str | bytes) and len(one) == 3:
            made = Demonstration(*one)
        allowed = "a Demonstration, or a question, a document and an answer"
        found.append(check_is(f"{field}[{i}]", made, Demonstration, allowed))
    return tuple(found)


def document_prompt(
    question: str,
    passages: Sequence[Passage],
    *,
    document: str = "",
    demonstrations: Sequence[Demonstration] = (),
) -> str:
    """Return the prompt for a document: "refine" if there is an earlier one, else "refresh"."""
    template = _shown(
        ITRG_REFINE if document else ITRG_REFRESH, [one.written() for one in demonstrations]
    )
    excerpts = tuple(map(Excerpt.whole, passages))
    return template.render(Context(question, excerpts, draft=document))


def answer_template(demonstrations: Sequence[Demonstration] = ()) -> PromptTemplate:
    """Return the prompt for the answer, which reads the context's draft."""
    return _shown(ITRG_ANSWER, [one.answered() for one in demonstrations])


def _shown(template: PromptTemplate, examples: Sequence[str]) -> PromptTemplate:
    """Insert examples between the task of a prompt and its input."""
    if not examples:
        return template
    task, own = template.parts()
    inserted = "".join(examples).replace("{", "{{").replace("}", "}}")
    return replace(template, text=task + inserted + own, reply="")
