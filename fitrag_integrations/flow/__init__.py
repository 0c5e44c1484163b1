"""Flows, ports and the drivers that run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.flow.drivers import (
        Ask,
        Flow,
        Port,
        Step,
        Traced,
        arun,
        arun_many,
        run,
        run_many,
    )

__all__ = ["Ask", "Flow", "Port", "Step", "Traced", "arun", "arun_many", "run", "run_many"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "drivers"))
