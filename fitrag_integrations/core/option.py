"""Say of a field of a plan what the command line shows of it; no command line is needed to read it.

A plan is a dataclass, and its fields are the options of its verb:

    steps: Annotated[int, Option("Steps to take.", min=1)] = 1000
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """Describe a field that is given by name.

    `name` is what is typed where it is not the field's own, such as `--k`, `--yes/--no` of a flag,
    or `--old --new` for both. `default` tells in words what None stands for.
    """

    help: str = ""
    name: str | None = None
    min: float | None = None
    max: float | None = None
    default: str | None = None
    metavar: str | None = None


@dataclass(frozen=True, slots=True)
class Argument(Option):
    """Describe a field that is given by its place."""
