"""Models behind an OpenAI-compatible server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.models.remote.ik import RemoteGenerator, RemoteIK

_MODULE_OF = dict.fromkeys(["RemoteGenerator", "RemoteIK"], "ik")

__all__ = ["RemoteGenerator", "RemoteIK"]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
