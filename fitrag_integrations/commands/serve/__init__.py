"""``fitrag serve``: the models behind HTTP, in the shapes that rerank clients know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fitrag_integrations.core.extras import lazy_names

if TYPE_CHECKING:
    from fitrag_integrations.commands.serve.app import create_app as create_app
    from fitrag_integrations.commands.serve.door import Settings as Settings

__all__, __getattr__, __dir__ = lazy_names(
    __name__, {"Settings": "door", "create_app": "app"}, extra="serve", needs="fastapi"
)
