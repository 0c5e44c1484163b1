"""Select the engine without retrieval, or the one with it, by what the model knows (IK)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import FunctionTool
from llama_index.core.tools.types import ToolMetadata
from pydantic import BaseModel, Field

from fitrag_integrations.core.checks import check_whole
from fitrag_integrations.core.show import name_of
from fitrag_integrations.errors import refuse_if
from fitrag_integrations.flow import Flow
from fitrag_integrations.llama_index.base.events import emit_decision, explanation
from fitrag_integrations.llama_index.base.router import Deciding
from fitrag_integrations.llama_index.base.tools import tool_of
from fitrag_integrations.types import Context, RetrievalDecision


class Asked(BaseModel):
    """Arguments of the selector's tool."""

    question: str = Field(description="The question, as the user asks it.")


@dataclass(eq=False, repr=False, kw_only=True)
class KnowledgeSelector(Deciding, BaseSelector):
    """Selector of a ``RouterQueryEngine`` or ``RouterRetriever`` by whether the model knows the
    answer (IK).

    The descriptions of the choices are not used. The selection's ``reason`` has ``p_known``, the
    threshold and why.

    Args:
        gate: Object with ``p_known(questions, drafts)``; None is ``AskGate(llm)``.
        known: Index of the choice without retrieval, from 0.
        unknown: Index of the choice that retrieves.
        drafter: Model that writes the draft that the gate reads; may be a LlamaIndex LLM.
        threshold: A question is known above this number, in [0, 1]; None is the gate's, or 0.5.
        on_error: "retrieve" retrieves if gate or drafter fails; "raise" raises the error.
        allow_other_model: Accept a threshold that was fitted for another model.
        llm: Language model that says what it knows where there is no gate; None is
            ``Settings.llm``.

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
        allowed = f"another choice than known={self.known}"
        refuse_if(self.known == self.unknown, "unknown", self.unknown, allowed)

    def __repr__(self) -> str:
        gate = "AskGate" if self.gate is None else name_of(self.gate)
        return f"KnowledgeSelector(gate={gate}, known={self.known}, unknown={self.unknown})"

    def flows(self, bundles: Sequence[QueryBundle]) -> list[Flow[Context]]:
        """Return one flow per query of ``bundles``, which ends in the decision."""
        return [self.decided(bundle.query_str) for bundle in bundles]

    def as_tool(
        self,
        name: str | None = None,
        description: str = "Decide whether a question needs retrieval, or is known without.",
    ) -> FunctionTool:
        """Return a tool for agents, which answers with the decision and its reason.

        Args:
            name: Name of the tool; None is that of the class.
            description: When an agent is to call it.

        Returns:
            A tool whose ``raw_output`` is the ``RetrievalDecision``.
        """

        async def acall(question: str) -> RetrievalDecision | None:
            decision: RetrievalDecision | None = (await self.atrace_many([question]))[
                0
            ].value.decision
            return decision

        return tool_of(
            self,
            Asked,
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
