"""`fitrag evaluate drift`: does what comes in still look like what was fitted on?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fitrag_integrations.commands.engine import options
from fitrag_integrations.commands.evaluate.tables import show
from fitrag_integrations.core.jsonl import read_jsonl
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import InputError
from fitrag_integrations.evaluation.drift import LEVEL, drift
from fitrag_integrations.evaluation.words import chance, number
from fitrag_integrations.methods.compose.fitted import TRACES, Fitted


@dataclass(frozen=True)
class DriftPlan:
    """Compare traces of a chain with those of the questions it was fitted on.

    TRACES is what a TraceHandler of either framework wrote. Gate share, scores and tokens are
    tested, each by a two-sample test, with Holm's correction: where nothing has changed, something
    is called changed with a probability of at most --level. What is found changed says that the
    fitted thresholds may no longer hold what they promised: fit again, with `fitrag fit --update`.
    """

    fitted: Annotated[Path, Argument("Folder of `fitrag fit`.")]
    traces: Annotated[Path, Argument("Rows of a TraceHandler: .jsonl or .jsonl.gz.")]
    level: Annotated[
        float, Option("Probability of a false alarm, over all tests together.", min=0, max=1)
    ] = LEVEL
    strict: Annotated[bool, Option("Exit 1 where something has changed.")] = False
    json: options.AsJson = False

    def run(self) -> None:
        """Test and tell."""
        folder = Path(Fitted.read(self.fitted).folder)
        if not self.traces.is_file():
            allowed = "a file that a TraceHandler wrote"
            raise InputError.of("traces", given=str(self.traces), allowed=allowed)
        before, now = (list(read_jsonl(path)) for path in (folder / TRACES, self.traces))
        found = drift(before, now, level=self.level)
        changed = [each.figure for each in found if each.changed]
        if self.json:
            typer.echo(json.dumps({"changed": changed, "figures": [f.to_dict() for f in found]}))
        else:
            heads = {"figure": False, "fitted on": True, "now": True, "test": False, "p": True}
            lines = [
                [f.figure, number(f.fitted), number(f.now), f.test, chance(f.p)]
                + ["changed" if f.changed else ""]
                for f in found
            ]
            show(f"{len(before)} rows fitted on, {len(now)} now", {**heads, "": False}, lines)
            again = f"changed: {', '.join(changed)}: fit again with `fitrag fit --update`"
            typer.echo(again if changed else f"nothing has changed, at level {self.level:g}")
        if changed and self.strict:
            raise typer.Exit(1)
