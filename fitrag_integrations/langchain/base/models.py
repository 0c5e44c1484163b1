"""Know which language model is behind a Runnable.

Nothing here imports the classes that are asked about: of a class that nobody has imported there is
no instance, and importing them takes longer than all else that a drop-in needs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from langchain_core.runnables import RunnableBinding, RunnableSequence

from fitrag_integrations.methods.ik.decider import Decider, check_judged

if TYPE_CHECKING:
    from langchain_core.language_models import BaseLanguageModel
    from langchain_core.tools import BaseTool


def is_language_model(value: object) -> TypeGuard[BaseLanguageModel[Any]]:
    """Check whether a value is a language model of LangChain's."""
    return _is(value, "langchain_core.language_models.base", "BaseLanguageModel")


def is_tool(value: object) -> TypeGuard[BaseTool]:
    """Check whether a value is a tool of LangChain's."""
    return _is(value, "langchain_core.tools.base", "BaseTool")


def _is(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def check_model(decider: Decider, runnable: object) -> None:
    """Refuse a decider whose threshold was fitted for another model than that of a Runnable."""
    llm = language_model(runnable)
    if llm is not None:
        check_judged(decider, model_name(llm))


def language_model(runnable: object) -> BaseLanguageModel[Any] | None:
    """Find the language model behind a Runnable; of a chain, the first one in it."""
    if is_language_model(runnable):
        return runnable
    if isinstance(runnable, RunnableBinding):
        return language_model(runnable.bound)
    steps = runnable.steps if isinstance(runnable, RunnableSequence) else ()
    return next((llm for llm in map(language_model, steps) if llm is not None), None)


def model_name(llm: BaseLanguageModel[Any]) -> str | None:
    """Return the name a language model says it has, None where it says none."""
    names = (getattr(llm, at, None) for at in _NAMES)
    return next((name for name in names if isinstance(name, str) and name), None)


_NAMES = ("model_name", "model", "model_id", "deployment_name", "repo_id")
