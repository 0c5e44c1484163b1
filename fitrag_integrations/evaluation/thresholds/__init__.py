"""Fitted thresholds and their guarantees."""

from fitrag_integrations.evaluation.thresholds.risk import choose_threshold

__all__ = ["choose_threshold"]
