"""Corrective RAG (arXiv 2401.15884): grade what was retrieved, then refine it or search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.crag.method import PRESETS, ActionThresholds, Crag

__all__ = ["PRESETS", "ActionThresholds", "Crag"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "method"))
