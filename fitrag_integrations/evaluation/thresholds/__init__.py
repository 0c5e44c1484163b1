"""Fitted thresholds and their guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.evaluation.thresholds.gate import choose_threshold

__all__ = ["choose_threshold"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "gate"))
