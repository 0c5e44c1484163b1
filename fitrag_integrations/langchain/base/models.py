"""Bring LangChain's models to what a method asks, and know which model is behind a Runnable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.cross_encoders import BaseCrossEncoder
from langchain_core.language_models import BaseChatModel, BaseLanguageModel, BaseLLM
from langchain_core.runnables import RunnableBinding, RunnableSequence

from fitrag_integrations.core.checks import check_number
from fitrag_integrations.methods.adapting import check_judged
from fitrag_integrations.methods.ik.decider import Decider
from fitrag_integrations.ports import Pair
from fitrag_integrations.types import BiLabelScore


@dataclass(frozen=True)
class CrossEncoderScorer:
    """Score with a cross-encoder of LangChain's, whose numbers have to be in [0, 1]."""

    model: BaseCrossEncoder

    @property
    def name(self) -> str:
        """Name the model, as thresholds fitted on its scores do."""
        return str(getattr(self.model, "model_name", "") or type(self.model).__name__)

    def score(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        """Give the one label there is of each pair."""
        texts = [(question, passage.text) for question, passage in pairs]
        field = f"score of {type(self.model).__name__}"
        return [
            BiLabelScore(check_number(field, float(score), low=0.0, high=1.0))
            for score in self.model.score(texts)
        ]

    async def ascore(self, pairs: Sequence[Pair]) -> list[BiLabelScore]:
        """Do what ``score`` does in a thread: the interface has no async side."""
        return await asyncio.to_thread(self.score, pairs)


def check_model(decider: Decider, runnable: Any) -> None:
    """Refuse a decider whose threshold was fitted for another model than that of a Runnable."""
    llm = _language_model(runnable)
    if llm is not None:
        check_judged(decider, model_name(llm), type(llm).__name__)


def _language_model(runnable: Any) -> BaseLanguageModel[Any] | None:
    """Find the language model behind a Runnable; of a chain, the first one in it."""
    if isinstance(runnable, BaseLanguageModel):
        return runnable
    if isinstance(runnable, RunnableBinding):
        return _language_model(runnable.bound)
    steps = runnable.steps if isinstance(runnable, RunnableSequence) else ()
    return next((llm for llm in map(_language_model, steps) if llm is not None), None)


def model_name(llm: BaseLanguageModel[Any]) -> str | None:
    """Give the name a language model says it has, None where it says none."""
    told = llm._get_ls_params() if isinstance(llm, BaseChatModel | BaseLLM) else {}
    values = vars(llm)
    names = (told.get("ls_model_name"), *(values.get(at) for at in _NAMES))
    return next((name for name in names if isinstance(name, str) and name), None)


_NAMES = ("model_name", "model", "model_id")
