"""Flows, ports and the drivers that run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.flow.ask import Ask as Ask
    from fitrag_integrations.flow.ask import Flow as Flow
    from fitrag_integrations.flow.ask import Port as Port
    from fitrag_integrations.flow.drivers import arun as arun
    from fitrag_integrations.flow.drivers import arun_many as arun_many
    from fitrag_integrations.flow.drivers import run as run
    from fitrag_integrations.flow.drivers import run_many as run_many
    from fitrag_integrations.flow.trace import Step as Step
    from fitrag_integrations.flow.trace import Traced as Traced

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Ask": "ask",
        "Flow": "ask",
        "Port": "ask",
        "Step": "trace",
        "Traced": "trace",
        "arun": "drivers",
        "arun_many": "drivers",
        "run": "drivers",
        "run_many": "drivers",
    },
)
