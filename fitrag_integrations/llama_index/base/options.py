"""The options of the methods as keywords and attributes; ``options.pyi`` has their types.

Each class is made when it is first imported, from the method's dataclass, so that a field that is
added there is an option of the drop-in.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from llama_index.core.bridge.pydantic import Field, create_model

from fitrag_integrations.llama_index.base.compressor import Postprocessor
from fitrag_integrations.llama_index.base.fields import signed
from fitrag_integrations.llama_index.base.retriever import DerivedRetriever
from fitrag_integrations.methods.settings import settings_of

MADE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "CragOptions": ("crag.method:Crag", ("base", "search", "llm")),
    "FitRagOptions": ("fitrag.method:FitRag", ("base",)),
    "ITRGOptions": ("itrg.method:ITRG", ("base", "llm")),
    "ReducerOptions": ("fitrag.reducer:TokenReducer", ()),
    "RefinerOptions": ("crag.refiner:Refiner", ("evaluator",)),
    "RerankerOptions": ("fitrag.reducer:Reranking", ()),
    "SlimPLMOptions": ("slimplm.method:SlimPLM", ("base", "llm")),
}
"""The method of each, and what is taken before the options; with a `base` it is a retriever."""


@cache
def __getattr__(name: str) -> Any:
    """Make the component with the options of a method."""
    if name not in MADE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place, takes = MADE[name]
    module, _, method = place.partition(":")
    made: Any = vars(import_module(f"fitrag_integrations.methods.{module}"))[method]
    if "base" in takes:
        fixed = {"made": made, "takes": takes[1:], "__module__": __name__}
        kind: Any = type(name, (DerivedRetriever,), fixed)
        signed(kind, made, takes[1:])
        return kind
    fields: dict[str, Any] = {
        each.name: (each.kind, Field(default=each.default, description=each.help))
        for each in settings_of(made)
        if each.kind is not None
    }
    fields["made"] = (ClassVar[Any], made)
    return create_model(name, __base__=Postprocessor, __module__=__name__, **fields)
