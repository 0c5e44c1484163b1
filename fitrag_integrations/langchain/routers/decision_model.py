"""Decision models of LangChain as gates and evaluators, where langchain-core has them (1.8 on)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fitrag_integrations.core.checks import check_is, check_number, check_text
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.langchain.base.ports import internal
from fitrag_integrations.ports import Pair

KNOWN = "Does the model know the answer to this question without retrieval?"
RELEVANT = "Does this document help to answer this question?"
"""The ``Noul`` questions that are asked where nobody gives other ``instructions``."""


class Decided:
    """One ``Noul`` question of a decision model about each of several states, in one batch."""

    def __init__(self, model: Any, *, instructions: str) -> None:
        decisions = require_extra(
            "langchain_core.decisions",
            extra="langchain",
            feature="a langchain-core of 1.8 or newer",
        )
        self.model = check_is("model", model, decisions.BaseDecisionModel, "a BaseDecisionModel")
        asked = check_text("instructions", instructions, blank=False)
        self._questions = {"yes": decisions.Noul(instructions=asked)}

    @property
    def name(self) -> str:
        """The model's name, as thresholds fitted on what it says do."""
        return str(self.model.model)

    def _nouls(self, states: Sequence[object]) -> list[float]:
        return list(map(_noul, self.model.batch(self._asking(states), internal({}))))

    async def _anouls(self, states: Sequence[object]) -> list[float]:
        return list(map(_noul, await self.model.abatch(self._asking(states), internal({}))))

    def _asking(self, states: Sequence[object]) -> list[dict[str, object]]:
        return [{"state": state, "questions": self._questions} for state in states]


class DecisionGate(Decided):
    """Gate over any decision model, which answers one ``Noul`` question about each question.

    Args:
        model: A ``BaseDecisionModel``.
        instructions: Text of the ``Noul`` question.
        threshold: A question is known above this number, in [0, 1]; None is 0.5.

    Raises:
        InputError: If ``model`` is no decision model, or ``threshold`` is out of range.

    Example:
        >>> KnowledgeRouter(gate=DecisionGate(model), llm=llm, unknown=chain)
    """

    draft_tokens = 0

    def __init__(
        self, model: object, *, instructions: str = KNOWN, threshold: float | None = None
    ) -> None:
        """Raise ``InputError`` for what is no decision model, or a threshold outside [0, 1]."""
        super().__init__(model, instructions=instructions)
        if threshold is not None:
            check_number("threshold", threshold, low=0.0, high=1.0)
        self.threshold = threshold

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        """Return how likely each of ``questions`` is known, in [0, 1], in one batch; ``drafts`` are
        not read.
        """
        return self._nouls(questions)

    async def ap_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        """Return how likely each of ``questions`` is known, in [0, 1], without blocking the event
        loop; ``drafts`` are not read.
        """
        return await self._anouls(questions)


class DecisionEvaluator(Decided):
    """Evaluator of CRAG over any decision model: the probability of yes, mapped to [-1, 1].

    The state of a pair is ``{"question", "document"}``. No thresholds are fitted for it: pass
    ``thresholds=ActionThresholds(...)`` beside it.

    Args:
        model: A ``BaseDecisionModel``.
        instructions: Text of the ``Noul`` question.

    Raises:
        InputError: If ``model`` is no decision model.

    Example:
        >>> thresholds = ActionThresholds(0.5, -0.5)
        >>> RetrievalJudge(evaluator=DecisionEvaluator(model), thresholds=thresholds)
    """

    thresholds = None

    def __init__(self, model: object, *, instructions: str = RELEVANT) -> None:
        """Raise ``InputError`` for what is no decision model."""
        super().__init__(model, instructions=instructions)

    def evaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Grade each of ``pairs`` in [-1, 1], in one batch."""
        return [2 * noul - 1 for noul in self._nouls(list(map(_state, pairs)))]

    async def aevaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Grade each of ``pairs`` in [-1, 1] without blocking the event loop."""
        return [2 * noul - 1 for noul in await self._anouls(list(map(_state, pairs)))]


def _state(pair: Pair) -> dict[str, str]:
    question, passage = pair
    titled = f"{passage.title}\n{passage.text}" if passage.title else passage.text
    return {"question": question, "document": titled}


def _noul(response: Any) -> float:
    return check_number("noul", response.answers["yes"].noul, low=0.0, high=1.0)
