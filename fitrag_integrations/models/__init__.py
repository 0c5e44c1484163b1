"""Models behind the ports; names, and torch with them, load on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fitrag_integrations.models.bilabel import BiLabelScorer
    from fitrag_integrations.models.reader import Answer, ExtractiveReader

_MODULE_OF = {"Answer": "reader", "BiLabelScorer": "bilabel", "ExtractiveReader": "reader"}

__all__ = ["Answer", "BiLabelScorer", "ExtractiveReader"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
