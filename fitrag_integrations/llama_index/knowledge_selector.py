"""Select the engine without retrieval, or the one with it, by what the model knows (IK)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.schema import QueryBundle
from llama_index.core.tools.types import ToolMetadata

from fitrag_integrations._checks import check_whole
from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import arun, run
from fitrag_integrations.llama_index._deciding import decided_context, decider_of
from fitrag_integrations.llama_index.events import explanation, tell_decided
from fitrag_integrations.methods.adapting import name_of
from fitrag_integrations.methods.deciding import OnError
from fitrag_integrations.ports import Gate
from fitrag_integrations.types import Context


class KnowledgeSelector(BaseSelector):
    """Choose for a ``RouterQueryEngine`` or a ``RouterRetriever`` whether to retrieve.

    ``known`` is the index, from 0, of the choice that goes without retrieval, ``unknown`` that of
    the one that retrieves; descriptions are not looked at. ``gate`` None is the embedded one;
    ``drafter`` may be a LlamaIndex LLM. The rest is as in
    ``fitrag_integrations.methods.Decider``. The selection's ``reason`` gives ``p_known``, the
    threshold and why.
    """

    def __init__(
        self,
        gate: Gate | None = None,
        *,
        drafter: Any = None,
        threshold: float | None = None,
        known: int = 0,
        unknown: int = 1,
        on_error: OnError = "retrieve",
        allow_other_model: bool = False,
    ) -> None:
        self._decider = decider_of(
            gate,
            drafter=drafter,
            threshold=threshold,
            on_error=on_error,
            allow_other_model=allow_other_model,
        )
        self._known = check_whole("known", known, low=0)
        self._unknown = check_whole("unknown", unknown, low=0)
        if self._known == self._unknown:
            allowed = f"another choice than known={self._known}"
            raise InputError.of("unknown", given=unknown, allowed=allowed)

    def __repr__(self) -> str:
        gate = "embedded" if self._decider.gate is None else name_of(self._decider.gate)
        return f"KnowledgeSelector(gate={gate}, known={self._known}, unknown={self._unknown})"

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """Have none to update."""

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        self._check(choices)
        return self._selected(run(decided_context(self._decider, query.query_str)).value)

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        self._check(choices)
        return self._selected((await arun(decided_context(self._decider, query.query_str))).value)

    def _selected(self, context: Context) -> SelectorResult:
        tell_decided(context)
        assert context.decision is not None
        index = self._unknown if context.decision.retrieve else self._known
        reason = explanation(context)
        return SelectorResult(selections=[SingleSelection(index=index, reason=reason)])

    def _check(self, choices: Sequence[ToolMetadata]) -> None:
        """Refuse choices among which one of the two is not."""
        for name, index in (("known", self._known), ("unknown", self._unknown)):
            check_whole(name, index, low=0, high=len(choices) - 1)
