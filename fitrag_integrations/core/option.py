"""Options of the command line, described on the fields of a plan; reading them needs no command
line.

A plan is a dataclass, and its fields are the options of its verb:

    steps: Annotated[int, Option("Number of steps.", min=1)] = 1000
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fitrag_integrations.core.checks import check_number, check_whole
from fitrag_integrations.errors import refuse_if


@dataclass(frozen=True, slots=True)
class Option:
    """Description of a field that is passed by name.

    `name` is the spelling if it is not the field's own, such as `--k`, `--yes/--no` for a flag, or
    two spellings for both. `default` describes what None means. `among` are the names that a text
    may have.
    """

    help: str = ""
    name: str | None = None
    min: float | None = None
    max: float | None = None
    default: str | None = None
    metavar: str | None = None
    among: tuple[str, ...] = ()

    def __call__(self, field: str, value: object) -> object:
        """Check a number against the range, or a text against the names; None passes."""
        wrong = self.among and value is not None and value not in self.among
        refuse_if(wrong, self.name or field, value, ", ".join(self.among))
        if value is None or (self.min is None and self.max is None):
            return value
        if isinstance(value, int) and isinstance(self.min, int) and self.max is None:
            return check_whole(field, value, low=self.min)
        low = -math.inf if self.min is None else self.min
        return check_number(field, value, low=low, high=math.inf if self.max is None else self.max)


@dataclass(frozen=True, slots=True)
class Argument(Option):
    """Description of a positional field."""
