"""A bi-label scorer seen as a retrieval evaluator."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Literal

from fitrag_integrations.errors import InputError
from fitrag_integrations.models.encoder.pairs import Pair
from fitrag_integrations.ports import Scorer
from fitrag_integrations.types import BiLabelScore

Label = Literal["has_answer", "llm_prefer"]


class ScorerView:
    """Grade pairs by one label of a scorer."""

    def __init__(self, scorer: Scorer, label: Label = "has_answer") -> None:
        if label not in ("has_answer", "llm_prefer"):
            raise InputError.of("label", given=label, allowed="'has_answer' or 'llm_prefer'")
        self._scorer, self._label = scorer, label

    def evaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Grade each pair, in the order given."""
        return [self._grade(score) for score in self._scorer.score(pairs)]

    async def aevaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Await the scorer's own `ascore` where it has one, else score in a thread."""
        ascore = getattr(self._scorer, "ascore", None)
        if not inspect.iscoroutinefunction(ascore):
            return await asyncio.to_thread(self.evaluate, pairs)
        return [self._grade(score) for score in await ascore(pairs)]

    def unload(self) -> None:
        """Leave the scorer to whoever made it."""

    def _grade(self, score: BiLabelScore) -> float:
        probability: float | None = getattr(score, self._label)
        if probability is None:
            raise InputError.of("label", given=self._label, allowed="a label the scorer gives")
        return 2.0 * probability - 1.0
