"""Imports at first use: optional dependencies, and a package's public names."""

from __future__ import annotations

import importlib
import importlib.util
import os
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
        raise _missing({extra: module.partition(".")[0]}, feature, error.name) from error


SEARCH = {"faiss": "faiss", "offline": "torch"}
"""What searching with the bundled encoder needs: extras, and a module that each of them brings."""


def require_extras(needs: Mapping[str, str], *, feature: str) -> None:
    """Raise `MissingExtraError` that names all missing extras; `needs` has a module of each."""
    missing = {extra: module for extra, module in needs.items() if not installed(module)}
    if missing:
        raise _missing(missing, feature, next(iter(missing.values())))


def torch_needed(error: ModuleNotFoundError, feature: str) -> Exception:
    """Return the error that names the extra for a model; any other missing module is returned as it
    is.
    """
    if error.name not in ("torch", "transformers", "peft"):
        return error
    return _missing({"torch": error.name}, feature, error.name)


def _missing(missing: Mapping[str, str], feature: str, name: str) -> MissingExtraError:
    """Return the error for extras that are missing, each with the package that it brings."""
    names, verb = " and ".join(missing.values()), "is" if len(missing) == 1 else "are"
    install = f'pip install "fitrag-integrations[{",".join(missing)}]"'
    return MissingExtraError(f"{names} {verb} needed for {feature}: {install}", name=name)


def lazy_names(
    package: str, module_of: Mapping[str, str], *, extra: str = "", needs: str = ""
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Make a package's ``__all__``, ``__getattr__`` and ``__dir__`` (PEP 562) from its names and
    their modules.

    A module is named from the package on; a leading dot starts at the package's parent.

    With an ``extra`` the module ``needs`` must be there, or ``MissingExtraError`` names it.
    """

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if extra:
            require_extra(needs, extra=extra, feature=f"{package}.{name}")
        try:
            return getattr(importlib.import_module(f".{module_of[name]}", package), name)
        except ModuleNotFoundError as error:
            raise torch_needed(error, name) from error

    def names() -> list[str]:
        here = vars(sys.modules[package])
        return sorted({*here.get("__all__", ()), *module_of, *(n for n in here if n[:2] == "__")})

    return list(module_of), load, names


def installed(module: str) -> bool:
    """Check whether a module can be imported; only its parents are imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", r"C:\Windows\System32\nvcuda.dll")
"""Where CUDA, ROCm, WSL and Windows show that there may be a GPU for torch."""


def torch_sees_gpu() -> bool:
    """Check whether torch is installed with a GPU; it is only imported if there is a driver."""
    if "torch" not in sys.modules and not any(map(os.path.exists, GPU_DRIVERS)):
        return False
    return installed("torch") and bool(importlib.import_module("torch").cuda.is_available())
