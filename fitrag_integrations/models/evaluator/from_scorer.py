"""A bi-label scorer seen as a retrieval evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from fitrag_integrations.core.checks import check_one
from fitrag_integrations.flow import arun, run
from fitrag_integrations.ports import Pair, Scorer, scorer_as_evaluator
from fitrag_integrations.values.score import Label


class ScorerView:
    """Grade pairs by one label of a scorer."""

    def __init__(self, scorer: Scorer, label: Label = "has_answer") -> None:
        check_one("label", label, get_args(Label))
        self._port = scorer_as_evaluator(scorer, label)

    def evaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Grade each pair, in the order given."""
        return run(self._port.ask(pairs)).value

    async def aevaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Await the scorer's own `ascore` where it has one, else score in a thread."""
        return (await arun(self._port.ask(pairs))).value

    def unload(self) -> None:
        """Leave the scorer to whoever made it."""
