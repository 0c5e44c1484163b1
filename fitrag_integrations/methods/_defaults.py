"""Find the embedded model for a role when a method is given none.

Methods import no model: the arrow would turn a page of pure Python into a load of torch. So a
default is named here as text and imported when the first flow that needs it runs.
"""

from __future__ import annotations

import importlib
from functools import cache
from threading import Lock
from typing import Any

from fitrag_integrations.errors import InputError

HOMES = {
    "scorer": ("fitrag_integrations.models", "BiLabelScorer"),
    "evaluator": ("fitrag_integrations.models", "RetrievalEvaluator"),
    "reader": ("fitrag_integrations.models", "ExtractiveReader"),
}
_loading = Lock()


def default_model(role: str) -> Any:
    """Load the embedded model of a role once per process; every later call gives the same."""
    if role not in HOMES:
        raise InputError.of("role", given=role, allowed=", ".join(HOMES))
    with _loading:  # two threads must not load it twice
        return _load(role)


@cache
def _load(role: str) -> Any:
    module, name = HOMES[role]
    return getattr(importlib.import_module(module), name).embedded()
