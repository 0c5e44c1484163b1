"""Each class of failure has a name, and a line in the docs that says what to do."""

import ast
import inspect
from pathlib import Path

import pytest

from fitrag_integrations import errors

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
SOURCES = sorted((ROOT / "fitrag_integrations").rglob("*.py"))
# Kinds of a documented one, and what ends a verb or a request: nobody outside catches these.
WITHIN = {"PassingError", "RequestError", "RobotsError", "Refusal", "TemplateError", "Terminated"}
# What Python's protocols ask for, what ends the command, and what a reader of files turns into one
# of ours where it is caught.
PYTHONS = {"AttributeError", "NotImplementedError", "TypeError", "ValueError", "AssertionError"}
PYTHONS |= {"OSError", "UnicodeError", "typer.Exit", "ConnectionError", "httpx.ReadTimeout"}
NAMED = [
    name
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.FitRagError) and kind is not errors.FitRagError
]


@pytest.mark.parametrize("name", NAMED)
def test_every_error_is_in_the_docs_with_what_to_do(name):
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{name}`"))
    assert len(line.split("|")) == 5 and all(cell.strip() for cell in line.split("|")[1:3])


@pytest.mark.parametrize("kind", errors.SearchError.KINDS)
def test_every_kind_of_search_error_is_in_the_docs(kind):
    assert f"| `{kind}` |" in PAGE


def test_no_failure_goes_without_a_name():
    """Every exception that is made here is in the docs, a kind of one that is, or Python's own."""
    trees = [ast.walk(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES]
    made = [node for tree in trees for node in tree]
    kinds = {
        node.name
        for node in made
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(b).endswith(("Error", "Exception")) for b in node.bases)
    }
    assert {name for name in kinds - WITHIN - {"FitRagError"} if f"| `{name}`" not in PAGE} == set()
    raised = {
        ast.unparse(node.exc.func).removesuffix(".of")
        for node in made
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    }
    named = {name for name in raised if name.rpartition(".")[2][0].isupper()}
    assert named <= kinds | PYTHONS and "FitRagError" not in named
