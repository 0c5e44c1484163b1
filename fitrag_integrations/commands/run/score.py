"""`fitrag score`: the two labels of every passage (FIT-RAG, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.batch import Verb
from fitrag_integrations.commands.engine.options import Files, ModelOptions, RunOptions, Searching
from fitrag_integrations.commands.engine.progress import run_plan
from fitrag_integrations.commands.engine.rows import passages_of, question_of
from fitrag_integrations.commands.engine.searching import searched
from fitrag_integrations.core.record import Row
from fitrag_integrations.flow import Flow, Traced
from fitrag_integrations.methods.fitrag.reducer import score_port
from fitrag_integrations.ports import Scorer
from fitrag_integrations.types import BiLabelScore

Scores = list[BiLabelScore]


@dataclass(frozen=True)
class ScorePlan:
    """Score each passage of each row.

    Reads question and, without --index, passages[{title, text}]; adds scores[{has_answer,
    llm_prefer}], both in [0, 1], in the order of the passages.
    """

    files: Files
    search: Searching = Searching()
    model: ModelOptions = ModelOptions()
    how: RunOptions = RunOptions()

    def run(self) -> None:
        """Score them."""
        run_plan("score", self)

    def verb(self) -> Verb[Any]:
        """Load the scorer."""
        return searched(score_verb(models.load_scorer(self.model)), self.search)


def score_verb(scorer: Scorer) -> Verb[Scores]:
    """Score the passages of a row in one ask."""
    port = score_port(scorer)

    def flow(row: Row) -> Flow[Scores]:
        question, passages = question_of(row), passages_of(row)
        return (yield from port.ask([(question, passage) for passage in passages]))

    return Verb(flow, _fields, ("scores",), {"scores": []})


def _fields(traced: Traced[Scores]) -> Row:
    labels = [{"has_answer": s.has_answer, "llm_prefer": s.llm_prefer} for s in traced.value]
    return {"scores": labels}
