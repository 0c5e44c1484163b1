"""Find the language model behind a Runnable.

Nothing here imports the classes that it checks for: a class that was never imported has no
instances, and the import would take longer than everything else that a component needs.
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
    """Check whether a value is a LangChain language model."""
    return _is(value, "langchain_core.language_models.base", "BaseLanguageModel")


def is_tool(value: object) -> TypeGuard[BaseTool]:
    """Check whether a value is a LangChain tool."""
    return _is(value, "langchain_core.tools.base", "BaseTool")


def _is(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def check_model(decider: Decider, runnable: object) -> None:
    """Require that a gate's threshold was fitted for the model behind a Runnable."""
    llm = language_model(runnable)
    if llm is not None:
        check_judged(decider, model_name(llm))


def language_model(runnable: object) -> BaseLanguageModel[Any] | None:
    """Return the language model behind a Runnable; for a chain, the first one in it."""
    if is_language_model(runnable):
        return runnable
    if isinstance(runnable, RunnableBinding):
        return language_model(runnable.bound)
    steps = runnable.steps if isinstance(runnable, RunnableSequence) else ()
    return next((llm for llm in map(language_model, steps) if llm is not None), None)


def model_name(llm: BaseLanguageModel[Any]) -> str | None:
    """Return the name that a language model reports, or None."""
    names = (getattr(llm, at, None) for at in _NAMES)
    return next((name for name in names if isinstance(name, str) and name), None)


_NAMES = ("model_name", "model", "model_id", "deployment_name", "repo_id")
