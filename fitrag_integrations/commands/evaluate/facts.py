"""`fitrag evaluate facts`: how much of a text its passages support (FActScore)."""

from __future__ import annotations

import json as json_
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine.options import AsJson, Hardware
from fitrag_integrations.commands.evaluate.options import Published
from fitrag_integrations.commands.evaluate.tables import show
from fitrag_integrations.commands.label.asked import EMBEDDED, Server, load_llm
from fitrag_integrations.core import jsonl
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.core.record import Row
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.judging import (
    ANSWERED,
    FACTS,
    GAMMA,
    PENALIZED,
    fact_scores,
    predicted,
)
from fitrag_integrations.evaluation.words import number
from fitrag_integrations.ports import YesNo


@dataclass(frozen=True, slots=True)
class Judge:
    """Say which model judges, if any."""

    judge: Annotated[
        str | None, Option("Model that says Yes or No: embedded, a folder, a hub name, or served.")
    ] = None
    url: Annotated[
        str | None, Option("OpenAI-compatible server of the --judge; its key from OPENAI_API_KEY.")
    ] = None

    def load(self) -> YesNo:
        """Load it; the embedded one where none is named."""
        name = self.judge or EMBEDDED
        return Server(self.url).generator(name) or load_llm(name, Hardware())


@dataclass(frozen=True)
class EvaluateFacts:
    """Measure how much of each text its passages support, as CRAG does for biographies.

    Reads prediction, passages[{title, text}], topic (or else question), and facts where the text
    was taken apart into statements of one fact each; else each sentence counts as one. The judge
    says Yes or No of each. Texts that say nothing are counted apart, as FActScore does.
    """

    rows: Annotated[str, Argument("Rows: a file, or hf:NAME:SPLIT.")]
    judge: Judge = Judge()
    gamma: Annotated[
        int, Option("Facts under which a text is too short; 0 for no penalty.", min=0)
    ] = GAMMA
    shape: Published = Published()
    out: Annotated[Path | None, Option("Write each row with its values: .jsonl.")] = None
    export: Annotated[
        Path | None, Option("Write topic and output, as FActScore's own script reads.")
    ] = None
    json: AsJson = False

    def run(self) -> None:
        """Judge the facts, and tell the averages."""
        given = self.shape.read(self.rows).rows
        _write(self.export, [{"topic": _topic(row), "output": predicted(row)} for row in given])
        values = fact_scores(given, self.judge.load(), gamma=self.gamma)
        _write(self.out, [{**row, "values": v} for row, v in zip(given, values, strict=True)])
        figures = {
            name: sum(told) / len(told)
            for name in (ANSWERED, FACTS, PENALIZED)
            if (told := [each[name] for each in values if name in each])
        }
        if self.json:
            typer.echo(json_.dumps({"texts": len(given), **figures}))
            return
        rows = [[name, number(value)] for name, value in figures.items()]
        show(f"{len(given)} texts", {"figure": False, "value": True}, rows)


def _topic(row: Row) -> str:
    return str(row.get("topic") or row.get("question"))


def _write(path: Path | None, rows: Sequence[Row]) -> None:
    if path is None:
        return
    if path.suffix != ".jsonl":
        raise InputError.of("a file of rows", given=str(path), allowed="one ending in .jsonl")
    path.unlink(missing_ok=True)
    with jsonl.appending(str(path)) as write:
        write(b"".join(map(jsonl.dump, rows)))
