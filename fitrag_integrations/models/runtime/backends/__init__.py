"""Other runtimes than torch for an encoder: its graph, exported once, and what runs it."""

from __future__ import annotations

from typing import Literal, get_args

from fitrag_integrations.errors import InputError

Backend = Literal["torch", "onnx", "openvino"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)


def checked_backend(name: str | None) -> Backend:
    """Return the backend of a name; None is torch. Raises `InputError` for another."""
    for each in BACKENDS:
        if each == (name or "torch"):
            return each
    raise InputError.of("backend", given=name, allowed=", ".join(BACKENDS))
