"""Find the embedded model for a role when a method is given none.

Methods import no model: the arrow would turn a page of pure Python into a load of torch. So a
default is named here as text and imported when the first flow that needs it runs.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from threading import Lock
from typing import Any

from fitrag_integrations.errors import InputError
from fitrag_integrations.ports import Pair
from fitrag_integrations.types import BiLabelScore

HOMES = {
    "scorer": ("fitrag_integrations.models", "BiLabelScorer"),
    "evaluator": ("fitrag_integrations.models", "RetrievalEvaluator"),
    "reader": ("fitrag_integrations.models", "ExtractiveReader"),
}
_loading = Lock()
_loaded: dict[str, Any] = {}


def default_model(role: str) -> Any:
    """Load the embedded model of a role once per process; every later call gives the same."""
    if role not in HOMES:
        raise InputError.of("role", given=role, allowed=", ".join(HOMES))
    with _loading:  # two threads must not load it twice
        if role not in _loaded:
            module, name = HOMES[role]
            _loaded[role] = getattr(importlib.import_module(module), name).embedded()
        return _loaded[role]


async def adefault_model(role: str) -> Any:
    """Do what ``default_model`` does; the event loop stays free while the model is loaded."""
    if role in _loaded:
        return _loaded[role]
    return await asyncio.to_thread(default_model, role)


class EmbeddedScorer:
    """Score with the embedded model, loaded at the first call.

    Async calls go to the model's own worker and occupy no thread while they wait.
    """

    def score(self, pairs: Sequence[Pair]) -> Sequence[BiLabelScore]:
        """Give the two labels of each pair."""
        scores: Sequence[BiLabelScore] = default_model("scorer").score(pairs)
        return scores

    async def ascore(self, pairs: Sequence[Pair]) -> Sequence[BiLabelScore]:
        """Give the two labels of each pair without blocking the event loop."""
        scores: Sequence[BiLabelScore] = await (await adefault_model("scorer")).ascore(pairs)
        return scores


EMBEDDED_SCORER = EmbeddedScorer()  # one, so that all questions without a scorer share its calls
