"""Give a gate LangChain's decision-model interface, where langchain-core has it (from 1.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import ConfigDict

from fitrag_integrations._extras import require_extra
from fitrag_integrations.errors import InputError, MissingExtraError
from fitrag_integrations.langchain._questions import question_of
from fitrag_integrations.langchain.retrieval_gate import GateFields, RetrievalGate

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
        decision = self._gate().decide(_asked(state, self.question_key))
        return self._response(questions, decision.p_known)

    async def _aclassify(self, state: Any, questions: Mapping[str, Any]) -> Any:
        self._check(questions)
        decision = await self._gate().adecide(_asked(state, self.question_key))
        return self._response(questions, decision.p_known)

    def _gate(self) -> RetrievalGate:
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
