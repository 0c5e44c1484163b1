"""Query engines and a selector that decide whether to retrieve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import cache
from typing import Any, ClassVar

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.prompts.mixin import PromptDictType, PromptMixinType
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.types import ToolMetadata
from pydantic import BaseModel, Field

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.show import name_of
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.llama_index.base.convert import whole_node
from fitrag_integrations.llama_index.base.events import emit_decision, explanation
from fitrag_integrations.llama_index.base.ports import Caller, check_model, generate_port
from fitrag_integrations.llama_index.base.prompts import tool_of
from fitrag_integrations.llama_index.base.router import (
    Deciding,
    Handed,
    Routed,
    Router,
    WritingRouter,
    can,
    check_engine,
    engine_port,
)
from fitrag_integrations.methods.answering import Answered
from fitrag_integrations.methods.crag.evaluator import ActionJudge, GradedList
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.text.replies import strip_thoughts
from fitrag_integrations.types import Action, Context, Excerpt, Passage
from fitrag_integrations.values.prompt import with_shots
from fitrag_integrations.values.thresholds import ActionThresholds


@dataclass(eq=False, repr=False, kw_only=True)
class KnowledgeRouterQueryEngine(Deciding, WritingRouter):
    """Query engine whose language model answers what it knows; ``retrieve`` answers the rest (IK).

    An unknown question gets the response of ``retrieve``, which may be a stream.
    ``metadata["fitrag"]`` contains the decision and the steps.

    Args:
        gate: Object with ``p_known(questions, drafts)``. Defaults to ``own_gate`` of ``llm``: a
            local model of this package is judged by its draft, any other is asked.
        retrieve: Query engine for unknown questions.
        llm: Language model that answers known questions and, without a gate, reports whether it
            knows the answer; None is ``Settings.llm``.
        shots: Examples for this package's prompts: ``Shot`` objects, or dicts with "question",
            "answer" and "passages" (each with "title" and "text").
        streaming: Whether the answer of ``llm`` streams.
        template: Prompt of ``llm``: a template of this package, its name, or one of LlamaIndex's
            with ``{query_str}``; None is FIT-RAG's no-retrieval prompt.
        drafter: Model that writes the draft for the gate; may be a LlamaIndex LLM. Defaults to
            the gate's own.
        threshold: A question is known above this number, in [0, 1]. Defaults to the gate's, or 0.5.
        on_error: "retrieve" retrieves if the gate or the drafter fails or the draft is blank;
            "raise" raises the error.
        allow_other_model: Accept a threshold that was fitted for another model.

    Raises:
        ThresholdMismatchError: If the threshold was fitted for a model other than ``llm``.

    Example:
        >>> engine = KnowledgeRouterQueryEngine(gate, retrieve=index.as_query_engine(), llm=llm)
        >>> engine.query("Who designed the bridge?").metadata["fitrag"]["decision"]
    """

    retrieve: InitVar[BaseQueryEngine] = field()  # an engine's own `retrieve` is a method
    _prompt: ClassVar[tuple[str, bool]] = ("no_retrieval_template", True)

    def __post_init__(self, retrieve: BaseQueryEngine) -> None:
        self._engine = check_engine("retrieve", retrieve)
        super().__post_init__()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "retrieve":  # an option, too, though it is read as the engine's method
            name, value = "_engine", check_engine("retrieve", value)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(gate={self._named}, retrieve={name_of(self._engine)})"

    def _get_prompt_modules(self) -> PromptMixinType:
        return {"retrieve": self._engine}

    def flows(self, bundles: Sequence[QueryBundle], *, alone: bool = False) -> list[Flow[Any]]:
        """Return one flow per query.

        Args:
            bundles: Queries.
            alone: Whether it is a single query, whose answer may be a stream.
        """
        unknown = engine_port("unknown", self._engine, alone=alone)
        # one for all questions, and none where none is known: there may be no language model
        write = cache(
            lambda: None if alone and self._streams_tokens() else generate_port(self._model())
        )
        return [self._flow(bundle, unknown, write) for bundle in bundles]

    def _flow(
        self,
        bundle: QueryBundle,
        unknown: Port[Handed, Any],
        write: Callable[[], Port[str, str] | None],
    ) -> Flow[Any]:
        check_model(self._decider, self.llm)
        context = yield from self.decided(bundle.query_str)
        if context.decision is not None and context.decision.retrieve:
            emit_decision(context)
            (response,) = yield from unknown.ask([Handed(bundle)])
            return Routed(context, response)
        port = write()
        if port is None:
            return context
        prompt = with_shots(context.prompt(self._template), self._shots)
        (text,) = yield from port.ask([prompt])
        return Answered(strip_thoughts(text).strip(), context, prompt)


@dataclass(eq=False, repr=False)
class CorrectiveRouterQueryEngine(Router):
    """Query engine that grades what ``base`` retrieves and answers by the engine of CRAG's action.

    An engine with ``synthesize`` receives the retrieved nodes. Any other engine receives only the
    question, and so does ``incorrect``. ``ambiguous`` adds the nodes that it retrieves itself. The
    response is the engine's, including streams; ``metadata["fitrag"]`` has action, grades and
    thresholds.

    Args:
        base: Retriever whose nodes are graded.
        correct: Engine for Correct, if a node surely answers the question; its own retriever and
            postprocessors are not used.
        incorrect: Engine for Incorrect, if no node does, for example one that searches the web.
        ambiguous: Engine for Ambiguous; None is ``incorrect``.
        evaluator: Object with ``evaluate(pairs)``; None is the bundled one.
        thresholds: Thresholds, or the name of a preset of the paper; None is the evaluator's own.
        allow_other_model: Accept thresholds that were fitted for another evaluator.

    Example:
        >>> engine = CorrectiveRouterQueryEngine(retriever, correct=engine, incorrect=web_engine)
        >>> engine.query("Who designed the bridge?").metadata["fitrag"]["action"]
    """

    base: BaseRetriever
    _: KW_ONLY
    correct: BaseQueryEngine
    incorrect: BaseQueryEngine
    ambiguous: BaseQueryEngine | None = None
    evaluator: object = None
    thresholds: ActionThresholds | str | None = None
    allow_other_model: bool = False

    def _prepare(self) -> None:
        unclear = self.incorrect if self.ambiguous is None else self.ambiguous
        engines = {
            Action.CORRECT: check_engine("correct", self.correct),
            Action.AMBIGUOUS: check_engine("ambiguous", unclear),
            Action.INCORRECT: check_engine("incorrect", self.incorrect),
        }
        self._judge = ActionJudge(
            self.evaluator,
            thresholds=self.thresholds,
            allow_other_model=self.allow_other_model,
        )
        self._caller, self._engines = Caller(self.base), engines

    def __repr__(self) -> str:
        engines = (f"{action}={name_of(engine)}" for action, engine in self._engines.items())
        return f"{type(self).__name__}(base={name_of(self.base)}, {', '.join(engines)})"

    def _get_prompt_modules(self) -> PromptMixinType:
        return {action.value: engine for action, engine in self._engines.items()}

    def flows(self, bundles: Sequence[QueryBundle], *, alone: bool = False) -> list[Flow[Any]]:
        """Return one flow per query, which grades, decides, and queries an engine.

        Args:
            bundles: Queries.
            alone: Whether it is a single query, whose answer may be a stream.
        """
        ports = self._caller.ports(bundles)
        engines = {
            action: engine_port(action.value, engine, alone=alone)
            for action, engine in self._engines.items()
        }
        return [self._flow(bundle, ports, engines) for bundle in bundles]

    def _flow(
        self, bundle: QueryBundle, ports: Ports, engines: dict[Action, Port[Handed, Any]]
    ) -> Flow[Routed]:
        (found,) = yield from ports.retrieve.ask([bundle.query_str])
        judged = yield from self._judge(bundle.query_str, found)
        context = _context(bundle.query_str, found, judged)
        emit_decision(context)
        engine, handed = self._engines[judged.action], Handed(bundle)
        if judged.action is not Action.INCORRECT and can(engine, "synthesize"):
            nodes = [whole_node(excerpt, context.method) for excerpt in context.excerpts]
            searches = judged.action is Action.AMBIGUOUS and can(engine, "retrieve")
            handed = Handed(bundle, nodes, searches)
        (response,) = yield from engines[judged.action].ask([handed])
        return Routed(context, response)


def _context(question: str, found: Sequence[Passage], judged: GradedList) -> Context:
    """Return the context of a judgment; a passage without text is left out."""
    graded = [
        Excerpt.whole(passage, score=grade)
        for at, (passage, grade) in enumerate(zip(found, judged.grades, strict=True))
        if has_text(passage.text) and not (judged.refused and judged.refused[at])
    ]
    values = judged.to_dict()
    details = {"grades": values["grades"], "thresholds": values["thresholds"]}
    notes = judged.notes if graded else ("nothing with text was retrieved",)
    return Context(
        question, tuple(graded), action=judged.action, notes=notes, method="crag", details=details
    )


class QuestionArguments(BaseModel):
    """Arguments of the selector's tool."""

    question: str = Field(description="The question, as the user asks it.")


@dataclass(eq=False, repr=False, kw_only=True)
class KnowledgeSelector(Deciding, BaseSelector):
    """Selector of a ``RouterQueryEngine`` or ``RouterRetriever`` by whether the model knows the
    answer (IK).

    The descriptions of the choices are not used. The selection's ``reason`` has ``p_known``, the
    threshold and why.

    Args:
        gate: Object with ``p_known(questions, drafts)``. Defaults to ``own_gate`` of ``llm``: a
            local model of this package is judged by its draft, any other is asked.
        known: Index of the choice without retrieval, from 0.
        unknown: Index of the choice that retrieves.
        drafter: Model that writes the draft for the gate; may be a LlamaIndex LLM. Defaults to
            the gate's own.
        threshold: A question is known above this number, in [0, 1]. Defaults to the gate's, or 0.5.
        on_error: "retrieve" retrieves if the gate or the drafter fails or the draft is blank;
            "raise" raises the error.
        allow_other_model: Accept a threshold that was fitted for another model.
        llm: Language model that reports whether it knows the answer if there is no gate; None is
            ``Settings.llm``.
        shots: Examples for this package's prompts: ``Shot`` objects, or dicts with "question",
            "answer" and "passages" (each with "title" and "text").

    Example:
        >>> tools = [model_tool, index_tool]
        >>> RouterQueryEngine(selector=KnowledgeSelector(), query_engine_tools=tools)
    """

    known: int = 0
    unknown: int = 1

    def _prepare(self) -> None:
        super()._prepare()
        for name in ("known", "unknown"):
            check_whole(name, getattr(self, name), low=0)
        refuse_if(
            self.known == self.unknown,
            "unknown",
            self.unknown,
            f"another choice than known={self.known}",
        )

    def __repr__(self) -> str:
        return f"KnowledgeSelector(gate={self._named}, known={self.known}, unknown={self.unknown})"

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Context]]:
        """Return one flow per query of ``bundles``, which ends in the decision."""
        return [self.decided(bundle.query_str) for bundle in bundles]

    def as_tool(
        self,
        name: str | None = None,
        description: str = "Decide whether a question needs retrieval, or is known without.",
    ) -> FunctionTool:
        """Return a tool for agents that returns the decision and its reason.

        Args:
            name: Name of the tool. Defaults to the name of the class.
            description: When an agent is to call it.

        Returns:
            A tool whose ``raw_output`` is the ``RetrievalDecision``.
        """

        async def acall(question: str) -> Any:
            return (await self.atrace_many([question]))[0].value.decision

        return tool_of(
            self,
            QuestionArguments,
            lambda question: self.trace_many([question])[0].value.decision,
            acall,
            name=name,
            description=description,
        )

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """Ignore an update: there are no prompts."""

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        self._check(choices)
        return self._selected(self.trace_many([query])[0].value)

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        self._check(choices)
        return self._selected((await self.atrace_many([query]))[0].value)

    def _selected(self, context: Context) -> SelectorResult:
        emit_decision(context)
        assert context.decision is not None
        index = self.unknown if context.decision.retrieve else self.known
        reason = explanation(context)
        return SelectorResult(selections=[SingleSelection(index=index, reason=reason)])

    def _check(self, choices: Sequence[ToolMetadata]) -> None:
        """Refuse choices among which one of the two is not."""
        for name in ("known", "unknown"):
            check_whole(name, getattr(self, name), low=0, high=len(choices) - 1)
