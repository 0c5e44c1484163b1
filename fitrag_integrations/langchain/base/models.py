"""Know which language model is behind a Runnable."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel, BaseLanguageModel, BaseLLM
from langchain_core.runnables import RunnableBinding, RunnableSequence

from fitrag_integrations.methods.adapting import check_judged
from fitrag_integrations.methods.ik.decider import Decider


def check_model(decider: Decider, runnable: object) -> None:
    """Refuse a decider whose threshold was fitted for another model than that of a Runnable."""
    llm = language_model(runnable)
    if llm is not None:
        check_judged(decider, model_name(llm), type(llm).__name__)


def language_model(runnable: object) -> BaseLanguageModel[Any] | None:
    """Find the language model behind a Runnable; of a chain, the first one in it."""
    if isinstance(runnable, BaseLanguageModel):
        return runnable
    if isinstance(runnable, RunnableBinding):
        return language_model(runnable.bound)
    steps = runnable.steps if isinstance(runnable, RunnableSequence) else ()
    return next((llm for llm in map(language_model, steps) if llm is not None), None)


def model_name(llm: BaseLanguageModel[Any]) -> str | None:
    """Give the name a language model says it has, None where it says none."""
    told = llm._get_ls_params() if isinstance(llm, BaseChatModel | BaseLLM) else {}
    values = vars(llm)
    names = (told.get("ls_model_name"), *(values.get(at) for at in _NAMES))
    return next((name for name in names if isinstance(name, str) and name), None)


_NAMES = ("model_name", "model", "model_id")
