"""The one place that words a missing optional dependency."""

from __future__ import annotations

import importlib
from typing import Any

from fitrag_integrations.errors import MissingExtraError


def require_extra(module: str, *, extra: str, feature: str) -> Any:
    """Import an optional module and return it.

    Raises ``MissingExtraError`` naming the package, the feature and the extra when the module is
    absent. A module that is there but fails on an import of its own raises that error unchanged.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        package = module.partition(".")[0]
        raise MissingExtraError(
            f'{package} is needed for {feature}: pip install "fitrag-integrations[{extra}]"',
            name=error.name,
        ) from error
