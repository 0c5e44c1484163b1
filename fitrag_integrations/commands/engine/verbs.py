"""Make a command of a plan: a dataclass whose fields are the options and whose call runs it.

A field that is a dataclass itself is a group of options, which several verbs share; on the command
line its fields stand beside the others.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand
from typer.main import get_command

from fitrag_integrations.core import jsonl
from fitrag_integrations.core.checks import can
from fitrag_integrations.core.extras import require_extras
from fitrag_integrations.core.option import Argument, Option
from fitrag_integrations.errors import refuse_if

PlanType: TypeAlias = type[Any]


@dataclass(frozen=True, slots=True)
class Home:
    """Where a verb's plan is, `module:Plan` below `commands`, its help, and what it needs.

    `needs` maps extras to a module that each of them brings.
    """

    plan: str
    help: str
    needs: Mapping[str, str] = field(default_factory=dict)

    def plan_type(self) -> PlanType:
        """Import the plan."""
        module, _, name = self.plan.partition(":")
        home = importlib.import_module(f"{__package__.rpartition('.')[0]}.{module}")
        found: PlanType = getattr(home, name)
        return found


def register(group: typer.Typer, verb: str, home: Home) -> None:
    """Add a verb to a group; its plan is imported when the verb is called or its help asked for."""
    name = verb.rpartition(" ")[2]
    check = partial(require_extras, home.needs, feature=f"fitrag {verb}")

    class Later(TyperCommand):
        def make_context(
            self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
        ) -> Any:
            try:
                plan = home.plan_type()
            except ModuleNotFoundError:  # the help needs the extra too
                check()
                raise
            one = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
            one.command(name)(as_function(plan, check))
            return get_command(one).make_context(info_name, args, parent, **extra)

    group.command(name, help=home.help, cls=Later)(lambda: None)


def as_function(plan: PlanType, before: Callable[[], None] = lambda: None) -> Callable[..., object]:
    """Make the function Typer reads: a parameter for each option, whose call runs the plan."""

    def run(**given: object) -> object:
        before()
        return _build(plan, given).run()

    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=_annotation(name, hint, said, default),
        )
        for name, hint, said, default in _options(plan)
    ]
    run.__doc__ = inspect.getdoc(plan)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _options(plan: PlanType, defaults: object = None) -> Iterator[tuple[str, Any, Option, object]]:
    """Yield the name, type, description and default of each option of a plan.

    First come a plan's own options, then those of its bases, then those of its groups. An instance
    in `defaults` sets the defaults of a group.
    """
    hints, named = get_type_hints(plan, include_extras=True), inspect.get_annotations(plan)
    for each in sorted(
        fields(plan), key=lambda one: (is_dataclass(hints[one.name]), one.name not in named)
    ):
        hint, said = hints[each.name], Option()
        own = each.default if each.default_factory is MISSING else each.default_factory()
        default = own if defaults is None else getattr(defaults, each.name)
        if isinstance(hint, type) and is_dataclass(hint):
            yield from _options(hint, None if default is MISSING else default)
            continue
        if get_origin(hint) is Annotated:
            hint, said = get_args(hint)
        yield each.name, hint, said, list(default) if isinstance(default, tuple) else default


def _build(plan: PlanType, given: Mapping[str, object]) -> Any:
    """Build a plan from the values of its options, its groups first."""
    hints, values = get_type_hints(plan), dict[str, object]()
    for each in fields(plan):
        hint = hints[each.name]
        if isinstance(hint, type) and is_dataclass(hint):
            values[each.name] = _build(hint, given)
        else:
            value = given[each.name]
            if isinstance(value, list) and get_origin(hint) is tuple:
                value = tuple(value)
            values[each.name] = value
    return plan(**values)


def plan_of(plan: PlanType, given: Mapping[str, object]) -> Any:
    """Build a plan from options by their names, its files aside, and check it.

    Raises `InputError` for an option it does not have.
    """
    usual = {name: default for name, _, _, default in _options(plan)}
    usual |= {name: jsonl.STREAM for name in ("source", "target", "out") if name in usual}
    for name in given:
        refuse_if(name not in usual, "option", name, ", ".join(usual))
    made = _build(plan, {**usual, **given})
    if can(made, "check"):
        made.check()
    return made


def _annotation(name: str, hint: Any, said: Option, default: object) -> object:
    """Return a type as Typer reads it: with what is said of it, and a list for a tuple."""
    if get_origin(hint) is tuple:
        hint = list[get_args(hint)[0]]  # type: ignore[misc]
    shown: dict[str, Any] = {"help": said.help or None, "metavar": said.metavar}
    shown |= {"min": said.min, "max": said.max}
    if said.default is not None:
        shown["show_default"] = said.default
    if isinstance(said, Argument):
        return Annotated[hint, typer.Argument(**shown)]
    names = (said.name or "").split()
    if default is False and not names:  # there is nothing to say no to
        names = [f"--{name.replace('_', '-')}"]
    return Annotated[hint, typer.Option(*names, **shown)]
