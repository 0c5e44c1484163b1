"""Give a gate LangChain's decision-model interface, where langchain-core has it (from 1.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import ConfigDict

from fitrag_integrations.core.checks import check_number, check_text
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError, MissingExtraError
from fitrag_integrations.langchain.base.runnable import question_of
from fitrag_integrations.langchain.routers.gate import GateFields, RetrievalGate
from fitrag_integrations.ports import Pair

KNOWN = "Does the model know the answer to this question without retrieval?"
"""What a ``Noul`` question has to say, unless the model's ``instructions`` say otherwise."""

try:
    decisions = require_extra("langchain_core.decisions", extra="langchain", feature="decisions")
except MissingExtraError as error:
    raise MissingExtraError(
        "langchain-core 1.8 or newer is needed for KnowledgeDecision, installed is "
        f'{version("langchain-core")}: pip install "langchain-core>=1.8"',
        name=error.name,
    ) from error

Base: Any = decisions.BaseDecisionModel


class KnowledgeDecision(GateFields, Base):  # type: ignore[misc]
    """Answer a ``Noul`` question with the probability that the model knows the answer itself.

    ::

        ask = {"known": KnowledgeDecision.question()}
        KnowledgeDecision(gate=ik).invoke({"state": "Who wrote ...?", "questions": ask})

    The state is the user's question: a text, a message, a dict with "question", "input" or
    "query", or a conversation, whose last message of the user counts. A gate can tell nothing
    else: questions of another kind, or with other instructions, raise ``InputError``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    model: str = "fitrag-gate"
    """The name under which the decisions are recorded."""

    instructions: str = KNOWN
    """What a question has to say in order to be answered."""

    on_error: Literal["raise"] = "raise"
    """A probability cannot be made up: a gate that fails is heard of."""

    @classmethod
    def question(cls) -> Any:
        """Give the question that is answered."""
        return decisions.Noul(instructions=cls.model_fields["instructions"].default)

    @property
    def _provider(self) -> str:
        return "fitrag"

    def _classify(self, state: Any, questions: Mapping[str, Any]) -> Any:
        self._check(questions)
        decision = self._asker().decide(_asked(state, self.question_key))
        return self._response(questions, decision.p_known)

    async def _aclassify(self, state: Any, questions: Mapping[str, Any]) -> Any:
        self._check(questions)
        decision = await self._asker().adecide(_asked(state, self.question_key))
        return self._response(questions, decision.p_known)

    def _asker(self) -> RetrievalGate:
        return RetrievalGate(**self.gate_arguments())

    def _check(self, questions: Mapping[str, Any]) -> None:
        for name, question in questions.items():
            is_noul = isinstance(question, decisions.Noul)
            if not is_noul or question.instructions != self.instructions:
                allowed = f"a Noul with the instructions {self.instructions!r}"
                raise InputError.of(f"questions[{name!r}]", given=question, allowed=allowed)

    def _response(self, questions: Mapping[str, Any], p_known: float | None) -> Any:
        answers = {name: decisions.NoulAnswer(type="noul", noul=p_known) for name in questions}
        return decisions.ClassifierResponse(model=self.model, answers=answers)


def _asked(state: Any, key: str | None) -> Any:
    """Take the user's last message out of a conversation; anything else is the question's place."""
    if isinstance(state, Sequence) and not isinstance(state, str):
        users = [item for item in state if isinstance(item, HumanMessage)]
        if not users:
            raise InputError.of("state", given=state, allowed="a message of the user among them")
        return question_of(users[-1])
    if isinstance(state, BaseMessage | str | Mapping):
        return question_of(state, key)
    raise InputError.of("state", given=state, allowed="a question, messages, or a dict")


class DecisionGate:
    """Be a gate over any decision model, which is asked one ``Noul`` question about a question.

    ::

        KnowledgeRouter(gate=DecisionGate(model), llm=llm, unknown=chain)
    """

    draft_tokens = 0

    def __init__(
        self, model: Any, *, instructions: str = KNOWN, threshold: float | None = None
    ) -> None:
        """Raise ``InputError`` for what is no decision model, or a threshold outside [0, 1]."""
        self.model = _checked(model)
        self.instructions = check_text("instructions", instructions, blank=False)
        self.threshold = threshold
        if threshold is not None:
            check_number("threshold", threshold, low=0.0, high=1.0)

    def p_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        """Tell how likely each question is known, in one batch."""
        asked = [_asking(question, self.instructions) for question in questions]
        return [_noul(answer) for answer in self.model.batch(asked)]

    async def ap_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        """Tell how likely each question is known without blocking the event loop."""
        asked = [_asking(question, self.instructions) for question in questions]
        return [_noul(answer) for answer in await self.model.abatch(asked)]


RELEVANT = "Does this document help to answer this question?"
"""What a ``DecisionEvaluator`` asks of each pair, unless its ``instructions`` say otherwise."""


class DecisionEvaluator:
    """Be CRAG's evaluator over any decision model: the probability of yes, brought to [-1, 1].

    Nobody has fitted thresholds for it: give ``thresholds=ActionThresholds(...)`` beside it.
    """

    thresholds = None

    def __init__(self, model: Any, *, instructions: str = RELEVANT) -> None:
        """Raise ``InputError`` for what is no decision model."""
        self.model = _checked(model)
        self.instructions = check_text("instructions", instructions, blank=False)

    @property
    def name(self) -> str:
        """Name the model, as thresholds fitted on its grades do."""
        return str(getattr(self.model, "model", "") or type(self.model).__name__)

    def evaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Grade each pair in [-1, 1], in one batch."""
        asked = [_asking(_pair(pair), self.instructions) for pair in pairs]
        return [2 * _noul(answer) - 1 for answer in self.model.batch(asked)]

    async def aevaluate(self, pairs: Sequence[Pair]) -> list[float]:
        """Grade each pair in [-1, 1] without blocking the event loop."""
        asked = [_asking(_pair(pair), self.instructions) for pair in pairs]
        return [2 * _noul(answer) - 1 for answer in await self.model.abatch(asked)]


def _checked(model: Any) -> Any:
    if not isinstance(model, Base):
        raise InputError.of("model", given=model, allowed="a BaseDecisionModel")
    return model


def _pair(pair: Pair) -> str:
    question, passage = pair
    return f"Question: {question}\n\nDocument: {passage.text}"


def _asking(state: str, instructions: str) -> dict[str, Any]:
    return {"state": state, "questions": {"yes": decisions.Noul(instructions=instructions)}}


def _noul(response: Any) -> float:
    return check_number("noul", response.answers["yes"].noul, low=0.0, high=1.0)
