"""Say of a field of a plan what the command line shows of it; no command line is needed to read it.

A plan is a dataclass, and its fields are the options of its verb:

    steps: Annotated[int, Option("Steps to take.", min=1)] = 1000
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fitrag_integrations.core.checks import check_number, check_whole


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

    def __call__(self, field: str, value: object) -> object:
        """Hold a number to the range, for plans made in Python; None passes."""
        if value is None or (self.min is None and self.max is None):
            return value
        if isinstance(value, int) and isinstance(self.min, int) and self.max is None:
            return check_whole(field, value, low=self.min)
        low = -math.inf if self.min is None else self.min
        return check_number(field, value, low=low, high=math.inf if self.max is None else self.max)


@dataclass(frozen=True, slots=True)
class Argument(Option):
    """Describe a field that is given by its place."""
