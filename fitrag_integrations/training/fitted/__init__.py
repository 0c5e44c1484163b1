"""Fit everything to your own questions: labels, gate, thresholds, budget, and a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.training.fitted.fitting import Wish as Wish
    from fitrag_integrations.training.fitted.fitting import fit as fit

__all__, __getattr__, __dir__ = lazy_names(__name__, {"Wish": "fitting", "fit": "fitting"})
