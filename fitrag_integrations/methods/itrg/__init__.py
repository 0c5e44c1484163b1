"""ITRG (arXiv 2310.05149): retrieval and generation in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.methods.itrg.method import ITRG

__all__ = ["ITRG"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "method"))
