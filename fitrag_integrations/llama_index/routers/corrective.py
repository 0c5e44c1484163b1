"""Go on as what was retrieved deserves: an engine for each of CRAG's actions (CRAG, 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import QueryBundle

from fitrag_integrations.core.show import name_of
from fitrag_integrations.flow import Flow, Port
from fitrag_integrations.llama_index.base.convert import whole_node
from fitrag_integrations.llama_index.base.events import emit_decision
from fitrag_integrations.llama_index.base.ports import Caller
from fitrag_integrations.llama_index.base.router import (
    Handed,
    Routed,
    Router,
    can,
    check_engine,
    engine_port,
)
from fitrag_integrations.methods.crag.evaluator import ActionJudge, GradedList
from fitrag_integrations.ports import Ports
from fitrag_integrations.text.cleaning import has_text
from fitrag_integrations.types import Action, Context, Excerpt, Passage
from fitrag_integrations.values.thresholds import ActionThresholds


@dataclass(eq=False, repr=False)
class CorrectiveRouterQueryEngine(Router):
    """Query engine that grades what ``base`` retrieves and answers by the engine of CRAG's action.

    An engine with ``synthesize`` receives the retrieved nodes; another, and ``incorrect`` always,
    receives the question only. ``ambiguous`` adds the nodes that it retrieves itself. The response
    is the engine's, including streams; ``metadata["fitrag"]`` has action, grades and thresholds.

    Args:
        base: Retriever whose nodes are graded.
        correct: Engine if a node is surely about the question; its own retriever and postprocessors
            are not used.
        incorrect: Engine if none is; the one to search the web.
        ambiguous: Engine if that is unclear; None is ``incorrect``.
        evaluator: Object with ``evaluate(pairs)``; None is the bundled one.
        thresholds: None are the evaluator's own; a text names a preset of the paper.
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
        """Return one flow per query of ``bundles``: grade, decide, and ask an engine."""
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
