"""The options of the methods as fields, one class a method; ``options.pyi`` has their types.

Each class is made when it is first imported, from the method's dataclass, so that a field that is
added there is a field of the drop-in.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from pydantic import Field, create_model

from fitrag_integrations.langchain.base.fields import Settings
from fitrag_integrations.methods.settings import settings_of

MADE = {
    "CragOptions": "crag.method:Crag",
    "DeciderOptions": "ik.decider:Decider",
    "FitRagOptions": "fitrag.method:FitRag",
    "ITRGOptions": "itrg.method:ITRG",
    "JudgeOptions": "crag.evaluator:ActionJudge",
    "ReducerOptions": "fitrag.reducer:TokenReducer",
    "RefinerOptions": "crag.refiner:Refiner",
    "RerankerOptions": "fitrag.reducer:Reranking",
    "SlimPLMOptions": "slimplm.method:SlimPLM",
}


def method(place: str) -> Any:
    """Import a method by its module and name."""
    module, _, name = place.partition(":")
    return vars(import_module(f"fitrag_integrations.methods.{module}"))[name]


@cache
def __getattr__(name: str) -> Any:
    """Make the model whose fields are the options of a method.

    Plain values have their type and go into dumps. Models and callables, which only the method can
    check, stay out of them.
    """
    if name not in MADE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made, own = method(MADE[name]), dict[str, Any]()
    for each in settings_of(made):
        exclude = True if each.kind is None else None
        spec = Field(default=each.default, description=each.help, exclude=exclude)
        own[each.name] = (Any if each.kind is None else each.kind, spec)
    kind = create_model(name, __base__=Settings, __module__=__name__, **own)
    kind.made = made
    return kind
