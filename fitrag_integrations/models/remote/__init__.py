"""Models behind an OpenAI-compatible server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.models.remote.generator import RemoteGenerator, RemoteIK

_MODULE_OF = dict.fromkeys(["RemoteGenerator", "RemoteIK"], "generator")

__all__ = ["RemoteGenerator", "RemoteIK"]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF)
