"""Gates, judges and routers, which decide whether to retrieve and choose the next branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypeVar

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from pydantic import BaseModel, Field, model_validator

from fitrag_integrations.core.checks import check_is, check_many, check_number, check_text
from fitrag_integrations.core.extras import require_extra
from fitrag_integrations.errors import InputError, refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.langchain.base.conversation import (
    Condensing,
    DocumentsInput,
    QuestionInput,
    documents_of,
    question_of,
    standalone,
)
from fitrag_integrations.langchain.base.fields import (
    AnyRunnable,
    Brief,
    Finder,
    Kept,
    Shots,
    runnable_of,
)
from fitrag_integrations.langchain.base.ports import (
    Backend,
    check_model,
    internal,
    is_language_model,
    role_ports,
    text_of,
)
from fitrag_integrations.langchain.base.router import Chosen, Route, Router
from fitrag_integrations.langchain.base.runnable import (
    FlowRunnable,
)
from fitrag_integrations.methods.compose.fitted import FromFitted
from fitrag_integrations.methods.crag.evaluator import ActionJudge
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.methods.prompts import NO_RETRIEVAL
from fitrag_integrations.ports import Gate, Pair
from fitrag_integrations.types import Action, Context, RetrievalDecision
from fitrag_integrations.values.prompt import with_shots
from fitrag_integrations.values.thresholds import ActionThresholds

R = TypeVar("R", bound=FlowRunnable[Any, Any])


class Decision(BaseModel):
    """Output of a gate."""

    retrieve: bool = Field(description="Whether to retrieve for the question.")
    p_known: float | None = Field(description="Probability that the model knows the answer.")
    threshold: float | None = Field(description="Probability above which it counts as known.")
    why: str = Field(description="The reason in one sentence.")


class GateFields(FromFitted, Condensing):
    """Fields of a decision; read at each call."""

    made: ClassVar[type[Decider]] = Decider

    gate: Kept[Gate | None] = None
    """Object with `p_known(questions, drafts)`. Defaults to a gate that asks `llm`."""
    drafter: Kept[Any] = None
    """Model that writes the draft for the gate: a chat model or another Runnable, a `Drafter`, an
    object with `generate`, a callable, or a `Port`. Defaults to the gate's own. It is called only
    if the gate's `draft_tokens` is not 0."""
    threshold: float | None = None
    """A question is known above this number, in [0, 1]. Defaults to the gate's, or 0.5."""
    on_error: Literal["retrieve", "raise"] = "retrieve"
    """Action if the gate or the drafter fails or the draft is blank: "retrieve" retrieves, and
    `why` names the failure; "raise" raises the error."""
    allow_other_model: bool = False
    """Accept a threshold that was fitted for another model."""
    llm: Kept[AnyRunnable | None] = None
    """Language model that is asked whether it knows the answer where there is no gate."""

    shots: Shots = ()
    """Examples for this package's prompts: `Shot` objects, or dicts with "question", "answer" and
    "passages" (each with "title" and "text")."""

    def settings(self, **given: object) -> dict[str, Any]:
        """Return the current options, with ports for the fields that are Runnables.

        Args:
            **given: Options that replace the fields.

        Raises:
            InputError: If the gate is a language model.
        """
        asked = {**role_ports(self, ROLES, [RunnableConfig()])[0], **given}
        refuse_if(
            is_language_model(self.gate) or isinstance(self.gate, BaseCrossEncoder),
            "gate",
            self.gate,
            "an object with a 'p_known' method; a language model goes in llm=",
        )
        return super().settings(**asked)


ROLES = {"drafter": "draft", "llm": "generate"}  # and their ports' names


class RetrievalGate(GateFields, FlowRunnable[Any, dict[str, Any]]):
    """Runnable that returns ``{"retrieve", "p_known", "threshold", "why"}`` for a question (IK).

    The question is a text, a message, the last one of the user in a list of messages, or an entry
    of a dict. A batch calls the gate once.

    Example:
        >>> RetrievalGate(gate=gate).invoke("Who wrote the score of Amarcord?")["retrieve"]
    """

    _gives: ClassVar[type[BaseModel]] = Decision

    def flows(
        self, inputs: Sequence[object], configs: Sequence[RunnableConfig], **options: object
    ) -> list[Flow[dict[str, Any]]]:
        """Return one flow per question; equal requests of one call are joined.

        Args:
            inputs: Questions, dicts with one, or messages.
            configs: The config of each call, in the same order.
            **options: Not used.
        """
        asked = role_ports(self, ROLES, map(internal, configs))  # each under its own
        deciders = [Decider(**self.settings(**ports)) for ports in asked]
        if deciders and isinstance(self.drafter, Runnable):
            check_model(deciders[0], self.drafter)  # a port has no name
        return list(map(self._flow, inputs, deciders, configs))

    def _flow(
        self, given: object, decider: Decider, config: RunnableConfig
    ) -> Flow[dict[str, Any]]:
        key, condense = self.question_key, self.condense
        question, notes = yield from standalone(given, key, condense, config)
        decided = (yield from decider(question)).decision.to_dict()
        return {**decided, "why": "; ".join([decided["why"], *notes])}


class Judgment(BaseModel):
    """Output of a judge."""

    action: str = Field(description="'correct', 'ambiguous' or 'incorrect'.")
    grades: list[float] = Field(description="A grade in [-1, 1] for each document, in order.")
    thresholds: dict[str, Any] = Field(description="The thresholds between the actions.")


class JudgeFields(FromFitted, Brief):
    """Fields of a judgment; read at each call."""

    made: ClassVar[type[ActionJudge]] = ActionJudge

    evaluator: Kept[Any] = None
    """Object with `evaluate(pairs)`, a bi-label scorer, or a callable; None is the bundled one."""
    thresholds: Kept[ActionThresholds | str | None] = None
    """None are the evaluator's own; a text names a preset of the paper."""
    allow_other_model: bool = False
    """Accept thresholds that were fitted for another evaluator."""
    question_key: str | None = None
    """Key of the question in a dict; None tries "question", "input", "query", "messages"."""


class RetrievalJudge(JudgeFields, FlowRunnable[dict[str, Any], dict[str, Any]]):
    """Runnable that returns ``{"action", "grades", "thresholds"}`` for ``{"question",
    "documents"}`` (CRAG).

    ``action`` is "correct", "ambiguous" or "incorrect"; ``grades`` are in [-1, 1], one per
    document, -1 for one without text. A batch calls the evaluator once.

    Example:
        >>> graph.add_node("judge", RetrievalJudge())
        >>> graph.add_conditional_edges("judge", lambda state: state["action"])
    """

    _takes: ClassVar[type[BaseModel]] = DocumentsInput
    _gives: ClassVar[type[BaseModel]] = Judgment

    def flows(
        self,
        inputs: Sequence[dict[str, Any]],
        configs: Sequence[RunnableConfig],
        **options: object,
    ) -> list[Flow[dict[str, Any]]]:
        """Return one flow per question; equal requests of one call are joined.

        Args:
            inputs: Dicts with a question and documents.
            configs: The config of each call, in the same order.
            **options: Not used.
        """
        judge = ActionJudge(**self.settings())

        def judged(given: object) -> Flow[dict[str, Any]]:
            passages = documents_of(given)
            return (yield from judge(question_of(given, self.question_key), passages)).to_dict()

        return list(map(judged, inputs))


def _with_fields_of(kind: type[R], router: Router, **others: Any) -> R:
    """Build the runnable that decides for a router, traced as a run under its plain name."""
    own = {name: value for name, value in router if name in kind.model_fields}
    return kind(**{**own, "name": None, **others})


class KnowledgeRouter(GateFields, Router):
    """Runnable that sends a known question to ``known`` and any other to ``unknown`` (IK).

    It streams. The branch receives the input unchanged. The decision is traced as a separate run,
    ``RetrievalGate``, and is in the metadata of the branch's runs under ``fitrag``. A batch calls
    the gate and each branch once.

    Raises:
        ThresholdMismatchError: If the threshold was fitted for a model other than the one that
            answers, unless ``allow_other_model`` is set.

    Example:
        >>> router = KnowledgeRouter(gate=gate, llm=llm, unknown=chain)
        >>> for piece in router.stream("Who designed the bridge?"): ...
    """

    known: Kept[AnyRunnable | None] = None
    """Runnable that answers without retrieval; None is `llm` with FIT-RAG's no-retrieval prompt."""
    unknown: Kept[AnyRunnable]
    """Runnable that answers with retrieval."""
    llm: Kept[AnyRunnable | None] = None
    """Language model for the defaults of `known`, whose answers are returned as text, and of
    `gate`."""

    def decide(self, question: object, config: RunnableConfig | None = None) -> RetrievalDecision:
        """Decide whether to retrieve for a question, and return the reason.

        Args:
            question: A question, a dict with one, or messages.
            config: Config of the gate's run.
        """
        gate = _with_fields_of(RetrievalGate, self)
        return RetrievalDecision.from_dict(gate.invoke(question, config))

    async def adecide(
        self, question: object, config: RunnableConfig | None = None
    ) -> RetrievalDecision:
        """Async version of `decide`."""
        gate = _with_fields_of(RetrievalGate, self)
        return RetrievalDecision.from_dict(await gate.ainvoke(question, config))

    def route(self, **options: object) -> Route:
        """Return the flow's choice: ``known`` or ``unknown``."""
        check_model(Decider(**self.settings()), self.llm if self.known is None else self.known)
        gate = Backend(_with_fields_of(RetrievalGate, self), name="gate")
        branches = {
            False: self._known(options),
            True: Backend(runnable_of(self.unknown), name="unknown", options=options),
        }

        def chosen(given: object, config: RunnableConfig) -> Flow[Chosen]:
            question_of(given, self.question_key)  # of a wrong input the gate would say less
            decision = yield from gate.ask(given, internal(config))
            return Chosen(branches[decision["retrieve"]], given, decision)

        return chosen

    @model_validator(mode="after")
    def _check_known(self) -> Self:
        refuse_if(
            self.known is None and self.llm is None, "known", None, "a Runnable, or give an llm"
        )
        return self

    def _known(self, options: dict[str, object]) -> Backend:
        if self.known is not None:
            return Backend(runnable_of(self.known), name="known", options=options)

        def prompt(given: object) -> str:
            asked = NO_RETRIEVAL.render(Context(question_of(given, self.question_key)))
            return with_shots(asked, self.shots)

        return Backend(RunnableLambda(prompt) | runnable_of(self.llm), text_of, "known", options)


class CorrectiveRouter(Condensing, JudgeFields, Router):
    """Runnable that grades documents and calls the branch of CRAG's action; it streams.

    The input is ``{"question", "documents"}`` or, with a ``base``, a question. The branch receives
    ``question``, ``documents`` (unchanged), ``action`` and ``grades`` (in the order of the
    documents), and the other entries of the input. Grading is traced as a separate run,
    ``RetrievalJudge``, and its result is in the metadata of the branch's runs under ``fitrag``. A
    batch calls the evaluator and each branch once.

    Example:
        >>> router = CorrectiveRouter(correct=answer, incorrect=search_web, base=retriever)
        >>> router.invoke("Who designed the bridge?")
    """

    correct: Kept[AnyRunnable]
    """Runnable for questions that a document surely answers."""
    incorrect: Kept[AnyRunnable]
    """Runnable for questions that no document answers; in the paper, from the web alone."""
    ambiguous: Kept[AnyRunnable | None] = None
    """Runnable for unclear cases; in the paper, from the documents and the web together. None is
    `incorrect`, which can distinguish the two by the action."""
    base: Kept[Finder | None] = None
    """Retriever for inputs without documents: any Runnable from a question to documents."""

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the fields of the input: without a ``base``, documents too."""
        return DocumentsInput if self.base is None else QuestionInput

    def route(self, **options: object) -> Route:
        """Return the flow's choice: ``correct``, ``ambiguous`` or ``incorrect``."""
        judge = Backend(_with_fields_of(RetrievalJudge, self, question_key=None), name="judge")
        base = None if self.base is None else Backend(runnable_of(self.base), name="retrieve")
        ambiguous = self.incorrect if self.ambiguous is None else self.ambiguous
        runnables = (self.correct, ambiguous, self.incorrect)
        branches = {
            action.value: Backend(runnable_of(runnable), name=action.value, options=options)
            for action, runnable in zip(Action, runnables, strict=True)
        }

        def chosen(given: object, config: RunnableConfig) -> Flow[Chosen]:
            key, condense = self.question_key, self.condense
            question, notes = yield from standalone(given, key, condense, config)
            documents = yield from _documents(given, question, base, internal(config))
            known = {"question": question, "documents": documents}
            judged = yield from judge.ask(known, internal(config))
            known |= {"action": judged["action"], "grades": judged["grades"]}
            others = given if isinstance(given, Mapping) else {}
            about = {**judged, "notes": list(notes)} if notes else judged
            return Chosen(branches[judged["action"]], {**others, **known}, about)

        return chosen


def _documents(
    given: object, question: str, base: Backend | None, config: RunnableConfig
) -> Flow[list[object]]:
    if isinstance(given, Mapping) and "documents" in given:
        return list(check_many("documents", given["documents"], Document))
    if base is None:
        raise InputError.of(
            "input", given=given, allowed="a dict with 'question' and 'documents', or give a base"
        )
    return list((yield from base.ask(question, config)))


KNOWN = "Does the model know the answer to this question without retrieval?"
RELEVANT = "Does this document help to answer this question?"
"""The ``Noul`` questions that are asked where nobody gives other ``instructions``."""


class Decided:
    """Model that answers one ``Noul`` question about each of several states, in one batch."""

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
        """Return the model's name, which fitted thresholds are checked against."""
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
        """Return how likely each question is known, in [0, 1], in one batch.

        Args:
            questions: Questions.
            drafts: Not used.
        """
        return self._nouls(questions)

    async def ap_known(self, questions: Sequence[str], drafts: Sequence[str]) -> list[float]:
        """Async version of ``p_known``, in [0, 1].

        Args:
            questions: Questions.
            drafts: Not used.
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
