"""Let a command that reads rows of ours read published ones too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fitrag_integrations.commands.evaluate.gate.rows import labelled_rows
from fitrag_integrations.evaluation.loaders import read_questions
from fitrag_integrations.evaluation.loaders.reading import HUB

OURS = "fitrag"


def rows_of(path: Path, format: str = OURS, split: str | None = None) -> list[dict[str, Any]]:
    """Read rows of ours as they are, or convert those of another shape.

    Raises `InputError` naming the file and what is wrong in it.
    """
    if format == OURS and not str(path).startswith(HUB):
        return labelled_rows([path])
    return read_questions(str(path), format, split=split).rows
