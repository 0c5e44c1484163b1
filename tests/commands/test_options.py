"""Hold every verb to the names, types and defaults of its options: scripts are written by them.

`options.txt` is what they were; a line goes from it only with a note in the change log.
"""

import inspect
from pathlib import Path
from typing import Annotated, get_args, get_origin

import pytest
from typer.models import ArgumentInfo
from typer.testing import CliRunner

from fitrag_integrations.cli import VERBS, app
from fitrag_integrations.commands.engine.verbs import as_function

TABLE = Path(__file__).with_name("options.txt")


def options_of(verb):
    """Give an option's names, type, default and range, as one line each."""
    signature = inspect.signature(as_function(VERBS[verb].plan_type()), eval_str=True)
    return {line(p) for p in signature.parameters.values() if "Context" not in str(p.annotation)}


def line(parameter):
    hint, said = parameter.annotation, None
    if get_origin(hint) is Annotated:
        hint, said = get_args(hint)
    default = parameter.default
    if isinstance(said, ArgumentInfo):
        names = parameter.name.upper()
    else:
        names = " ".join(declared(said)) or named(parameter.name, hint)
    kind = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    kind = kind.replace("pathlib._local.", "").replace("pathlib.", "")
    shown = "required" if default is inspect.Parameter.empty else f"default {default!r}"
    low, high = getattr(said, "min", None), getattr(said, "max", None)
    limits = "" if low is high is None else f", {low} to {high}"
    return f"{names}: {kind}, {shown}{limits}"


def declared(said):
    if said is None:
        return []
    first = [] if said.default is ... else [said.default]
    return [*first, *(said.param_decls or ())]


def named(name, hint):
    option = name.replace("_", "-")
    return f"--{option}/--no-{option}" if hint is bool else f"--{option}"


def before():
    table, options = {}, set()
    for each in TABLE.read_text(encoding="utf-8").splitlines():
        if each.startswith("  "):
            options.add(each.strip())
        else:
            options = table[each] = set()
    return table


@pytest.mark.parametrize("verb", before())
def test_a_verb_takes_the_options_it_took(verb):
    assert not before()[verb] - options_of(verb)


@pytest.mark.parametrize(
    ("verb", "option", "said"),
    [
        ("score", "--model", "Hub name, folder, or a Python file with a class of your own"),
        ("score", "--model", "[default: (the embedded one)]"),
        ("calibrate gate", "--model", "The gate's folder, changed in place."),
    ],
)
def test_the_help_says_what_an_option_is(verb, option, said):
    help = CliRunner().invoke(app, [*verb.split(), "--help"], env={"COLUMNS": "300"}).output
    (line,) = (line for line in help.splitlines() if f" {option} " in line)
    assert said in line


@pytest.mark.parametrize("verb", ["label bilabel", "label eligibility"])
def test_an_engine_that_would_be_refused_is_not_offered(verb):
    said = CliRunner().invoke(app, [*verb.split(), "rows.jsonl", "--out", "out", "--engine", "ray"])
    assert said.exit_code == 2 and "No such option: --engine" in said.output


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_lists_its_options_and_no_completion(verb):
    help = CliRunner().invoke(app, [*verb.split(), "--help"], env={"COLUMNS": "300"}).output
    assert "--install-completion" not in help
    names = (each.partition(":")[0].partition("/")[0].split()[0] for each in options_of(verb))
    assert not [each for each in names if each.startswith("--") and each not in help]


if __name__ == "__main__":
    for each in VERBS:
        print(each, *sorted(options_of(each)), sep="\n  ")
