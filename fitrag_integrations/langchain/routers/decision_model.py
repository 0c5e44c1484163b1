"""Speak LangChain's decision-model interface both ways, where langchain-core has it (from 1.8)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from pydantic import ConfigDict, Field

from fitrag_integrations.core.checks import check_is, check_number, check_text
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError, MissingExtraError
from fitrag_integrations.langchain.base.ports import internal
from fitrag_integrations.langchain.base.runnable import question_of
from fitrag_integrations.langchain.routers.gate import GateFields
from fitrag_integrations.langchain.routers.judge import JudgeFields
from fitrag_integrations.ports import Pair

KNOWN = "Does the model know the answer to this question without retrieval?"
"""What a ``Noul`` has to say to a ``KnowledgeDecision`` without ``instructions`` of its own."""
RELEVANT = "Does this document help to answer this question?"
"""The same of a ``RelevanceDecision``; and what a ``DecisionEvaluator`` asks of each pair."""

try:
    decisions = require_extra("langchain_core.decisions", extra="langchain", feature="decisions")
except MissingExtraError as error:
    raise MissingExtraError(
        "langchain-core 1.8 or newer is needed for decision models, installed is "
        f'{version("langchain-core")}: pip install "langchain-core>=1.8"',
        name=error.name,
    ) from error

Base: Any = decisions.BaseDecisionModel


class OwnDecision(Base):  # type: ignore[misc]
    """Answer ``Noul`` questions of one kind; any other raises ``InputError``."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    @classmethod
    def question(cls) -> object:
        """Return the question that is answered."""
        return decisions.Noul(instructions=cls.model_fields["instructions"].default)

    @abstractmethod
    def asked(self, state: Any) -> tuple[Runnable[Any, dict[str, Any]], object]:
        """Return what decides about a ``state``, and its input."""

    @abstractmethod
    def noul(self, decided: dict[str, Any]) -> object:
        """Return the probability of yes, in [0, 1], of what was ``decided``."""

    @property
    def _provider(self) -> str:
        return "fitrag"

    def _classify(self, state: object, questions: Mapping[str, object]) -> object:
        runnable, given = self._check(questions, state)
        return self._response(questions, runnable.invoke(given))

    async def _aclassify(self, state: object, questions: Mapping[str, object]) -> object:
        runnable, given = self._check(questions, state)
        return self._response(questions, await runnable.ainvoke(given))

    def _check(self, questions: Mapping[str, Any], state: object) -> Any:
        for name, question in questions.items():
            is_noul = isinstance(question, decisions.Noul)
            if not is_noul or question.instructions != self.instructions:
                allowed = f"a Noul with the instructions {self.instructions!r}"
                raise InputError.of(f"questions[{name!r}]", given=question, allowed=allowed)
        return self.asked(state)

    def _response(self, questions: Mapping[str, object], decided: dict[str, Any]) -> object:
        noul = check_number("noul", self.noul(decided), low=0.0, high=1.0)
        answers = {name: decisions.NoulAnswer(type="noul", noul=noul) for name in questions}
        return decisions.ClassifierResponse(model=self.model, answers=answers)


class KnowledgeDecision(GateFields, OwnDecision):
    """Decision model that answers a ``Noul`` question with the probability that a question is
    known.

    The state is the user's question: a text, a message, a dict with "question", "input" or "query",
    or a conversation, whose last message of the user counts.

    Args:
        model: Name under which decisions are recorded.
        instructions: Text that a question must have to be answered.
        on_error: Always "raise": a failure of the gate is no probability.

    The other options are those of ``fitrag_integrations.langchain.RetrievalGate``.

    Example:
        >>> questions = {"known": KnowledgeDecision.question()}
        >>> given = {"state": "Who wrote ...?", "questions": questions}
        >>> KnowledgeDecision(gate=gate).invoke(given)
    """

    model: str = Field(
        default="fitrag-gate", description="Name under which the decisions are recorded."
    )

    instructions: str = Field(
        default=KNOWN, description="Text that a question has to contain to be answered."
    )

    on_error: Literal["raise"] = Field(
        default="raise", description="A probability cannot be made up: a gate that fails raises."
    )

    def asked(self, state: Any) -> tuple[Runnable[Any, dict[str, Any]], object]:
        """Return the gate, and the question of a ``state``."""
        return self._asker(), question_of(state, self.question_key)

    def noul(self, decided: dict[str, Any]) -> object:
        """Return the probability that the question is known."""
        return decided["p_known"]


class RelevanceDecision(JudgeFields, OwnDecision):
    """Decision model that answers a ``Noul`` question with how surely a document is relevant, in
    [0, 1].

    The probability is the grade of CRAG's evaluator, mapped from [-1, 1] to [0, 1].

    Args:
        model: Name under which decisions are recorded.
        instructions: Text that a question must have to be answered.

    The other options are those of ``fitrag_integrations.langchain.RetrievalJudge``.

    Example:
        >>> questions = {"relevant": RelevanceDecision.question()}
        >>> state = {"question": "Who wrote ...?", "document": "The score was written by ..."}
        >>> RelevanceDecision().invoke({"state": state, "questions": questions})
    """

    model: str = Field(
        default="fitrag-evaluator", description="Name under which the decisions are recorded."
    )

    instructions: str = Field(
        default=RELEVANT, description="Text that a question has to contain to be answered."
    )

    def asked(self, state: Any) -> tuple[Runnable[Any, dict[str, Any]], object]:
        """Return the judge, and question and document of a ``state``."""
        text = state.get("document") if isinstance(state, Mapping) else None
        if not isinstance(text, str):
            allowed = "a dict with 'question' and 'document'"
            raise InputError.of("state", given=state, allowed=allowed)
        return self._judging(), {"question": question_of(state), "documents": [Document(text)]}

    def noul(self, decided: dict[str, Any]) -> object:
        """Return the document's grade, from [-1, 1] brought to [0, 1]."""
        return (decided["grades"][0] + 1) / 2


class Decided:
    """One ``Noul`` question of a decision model about each of several states, in one batch."""

    def __init__(self, model: object, *, instructions: str) -> None:
        self.model = check_is("model", model, Base, "a BaseDecisionModel")
        self.instructions = check_text("instructions", instructions, blank=False)

    @property
    def name(self) -> str:
        """The model's name, as thresholds fitted on what it says do."""
        return str(self.model.model)

    def _nouls(self, states: Sequence[object]) -> list[float]:
        return list(map(_noul, self.model.batch(self._asking(states), internal({}))))

    async def _anouls(self, states: Sequence[object]) -> list[float]:
        return list(map(_noul, await self.model.abatch(self._asking(states), internal({}))))

    def _asking(self, states: Sequence[object]) -> list[dict[str, object]]:
        ask = {"yes": decisions.Noul(instructions=self.instructions)}
        return [{"state": state, "questions": ask} for state in states]


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
        self.threshold = threshold
        if threshold is not None:
            check_number("threshold", threshold, low=0.0, high=1.0)

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        """Return how likely each question is known, in one batch."""
        return self._nouls(questions)

    async def ap_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        """Return how likely each question is known without blocking the event loop."""
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
        """Grade each pair in [-1, 1], in one batch."""
        return [2 * noul - 1 for noul in self._nouls(list(map(_state, pairs)))]

    async def aevaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Grade each pair in [-1, 1] without blocking the event loop."""
        return [2 * noul - 1 for noul in await self._anouls(list(map(_state, pairs)))]


def _state(pair: Pair) -> dict[str, str]:
    question, passage = pair
    titled = f"{passage.title}\n{passage.text}" if passage.title else passage.text
    return {"question": question, "document": titled}


def _noul(response: Any) -> float:
    return check_number("noul", response.answers["yes"].noul, low=0.0, high=1.0)
