"""What is imported only when it is needed: optional dependencies, and a package's public names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
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


def lazy_names(
    package: str, module_of: Mapping[str, str], *, extra: str = "", needs: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make a package's ``__getattr__`` and ``__dir__`` (PEP 562) from its names and their modules.

    A module is named from the package on; a leading dot starts at the package's parent.

    With an ``extra`` the module ``needs`` must be there, or ``MissingExtraError`` names it.
    """

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if extra:
            require_extra(needs, extra=extra, feature=f"{package}.{name}")
        return getattr(importlib.import_module(f".{module_of[name]}", package), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return load, names


def installed(module: str) -> bool:
    """Tell whether a module is there to be imported; only its parents are."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
