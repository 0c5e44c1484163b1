"""Load a package's public names on first use (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from fitrag_integrations._extras import require_extra


def lazy_names(
    package: str, module_of: Mapping[str, str], *, extra: str = "", needs: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a package from its names and their modules.

    With an ``extra`` the module ``needs`` must be there, or ``MissingExtraError`` names it.
    """

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if extra:
            require_extra(needs, extra=extra, feature=f"{package}.{name}")
        return getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return load, names
