"""`fitrag label bilabel`: is the answer in a passage, and does the model answer right from it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.label.engine import (
    FOR_READERS,
    Asked,
    AskingPlan,
    Fields,
    Questions,
)
from fitrag_integrations.core.option import Option
from fitrag_integrations.flow import Flow
from fitrag_integrations.training.collecting import Question, count_labels, passage_labels
from fitrag_integrations.types import Passage


@dataclass(frozen=True)
class LabelBilabel(AskingPlan):
    """Label passages: is the answer in them, and does the LLM answer right from them?

    The two labels of FIT-RAG's scorer (section 4.2.1). Each question brings its own passages, or
    they are found in --pool or --index. Adds to each has_answer, llm_prefer (null where the LLM
    gave no answer; llm_error says why) and answer. A run that was stopped, however it was, goes on
    where it stopped and asks nothing again that was answered.
    """

    name: ClassVar[str] = "label bilabel"
    unanswered: Annotated[
        bool, Option("Accept rows without answers if their `passage` holds one.")
    ] = False

    def questions(self) -> Questions:
        """Return how rows become questions."""
        return replace(super().questions(), unanswered=self.unanswered)

    def verb(self, asked: Asked) -> Verb[Fields]:
        """Label each passage of a row, with enough rows at once to keep all requests busy."""
        questions = self.questions()

        def flow(row: Mapping[str, object]) -> Flow[Fields]:
            question = yield from questions(row)
            labels = passage_labels(question, (yield from asked.about(question)))
            own = row.get("passages")
            given = own[: len(labels)] if isinstance(own, list) else _plain(question)
            passages = [{**one, **label} for one, label in zip(given, labels, strict=True)]
            return {"passages": passages, "llm": asked.asker.name}

        lot = 4 * self.asking.server.concurrency
        adds = ("passages", "llm")
        return Verb(
            flow, lambda t: t.value, adds, drops=FOR_READERS, lot=lot, weight=questions.weight
        )

    def counted(self, rows: Iterable[dict[str, object]]) -> tuple[str, dict[str, object]]:
        """Count questions, and pairs by their labels."""
        counts = count_labels(rows)
        return str(counts), counts.to_dict()


def _plain(question: Question) -> list[dict[str, str]]:
    return [_plain_passage(passage) for passage in question.passages]


def _plain_passage(passage: Passage) -> dict[str, str]:
    named = {"id": passage.id} if passage.id else {}
    return {**named, "title": passage.title, "text": passage.text}
