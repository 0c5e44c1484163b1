"""`fitrag train recognizer`: FIT-RAG's self-knowledge recognizer (section 4.3) in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from fitrag_integrations.commands.engine import models
from fitrag_integrations.commands.engine.options import EncoderHardware, ScorerFolder
from fitrag_integrations.commands.engine.rows import passages_of, question_of, rows_as
from fitrag_integrations.core.checks import trait
from fitrag_integrations.core.files import write_whole
from fitrag_integrations.core.option import Option
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.methods.fitrag.recognizer import RECOGNIZER, Row, fit_recognizer
from fitrag_integrations.training.options import Out, Rows, Seed
from fitrag_integrations.training.rows import Listed, in_lists, split
from fitrag_integrations.types import Passage


@dataclass(frozen=True, slots=True)
class Known(Listed):
    """A question, what was retrieved for it, and whether it was answered without it."""

    question: str
    passages: tuple[Passage, ...]
    known: bool


@dataclass(frozen=True)
class TrainRecognizer:
    """Fit FIT-RAG's self-knowledge recognizer, which decides whether a question needs retrieval.

    Reads question, passages[{title, text}] and known, which `fitrag label ik` adds. A fraction of
    the questions becomes the bank of neighbors; on the others delta, s_l, s_n and k are chosen by
    accuracy. `SelfKnowledgeRecognizer.load` reads the folder, for `FitRag(gate=...)`.
    """

    rows: Rows
    out: Out
    scorer: ScorerFolder = None
    encoder: Annotated[
        str | None, Option("Encoder of the questions.", default="the embedded one")
    ] = None
    bank: Annotated[float, Option("Fraction of the questions in the bank.", min=0, max=1)] = 0.5
    ks: Annotated[
        list[int] | None,
        Option("Number of neighbors to try; repeatable.", name="--k"),
    ] = None
    seed: Seed = 13
    hardware: EncoderHardware = EncoderHardware()

    def run(self) -> None:
        """Fit the recognizer, and report its figures."""
        from fitrag_integrations.retrieval import Encoder, QuestionBank

        given = rows_as(self.rows, _known)
        asked, near = split([row for row in given if row is not None], self.bank, self.seed)
        encoder = None if self.encoder is None else Encoder(self.encoder)
        known = [row.known for row in near]
        bank = QuestionBank.build([row.question for row in near], known, encoder)
        scorer = models.load_scorer(self.hardware.of(self.scorer))
        scores = in_lists(scorer.score, [row.pairs for row in asked])
        rows: list[Row] = [
            (row.question, own, row.known) for row, own in zip(asked, scores, strict=True)
        ]
        fitted = fit_recognizer(
            rows,
            bank,
            scorer=trait(scorer, "name", str) or "",
            ks=tuple(self.ks or (1, 3, 5, 10, 20, 50)),
        )
        bank.save(self.out)
        write_whole(
            self.out / RECOGNIZER,
            json.dumps({"kind": "recognizer", "thresholds": fitted.to_dict()}, indent=2) + "\n",
        )
        share = max(sum(row.known for row in asked), sum(not row.known for row in asked))
        typer.echo(f"{fitted}; one answer for all: {share / len(asked):.3f}", err=True)


def _known(row: Mapping[str, object]) -> Known | None:
    """Read a row; error rows are passed over."""
    if row.get("error") is not None:
        return None
    known = row.get("known")
    refuse_if(known not in (0, 1), "known", known, "true or false, as of `label ik`")
    return Known(question_of(row), tuple(passages_of(row)), bool(known))
