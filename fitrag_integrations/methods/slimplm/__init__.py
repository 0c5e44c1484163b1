"""SlimPLM (arXiv 2402.12052): a small proxy model decides when and what to retrieve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.slimplm.method import SlimPLM

__all__ = ["SlimPLM"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "method"))
