"""Each class of failure has a name, and a line in the docs that says what to do."""

import inspect
from pathlib import Path

import pytest

from fitrag_integrations import errors

PAGE = (Path(__file__).parents[1] / "docs" / "errors.md").read_text(encoding="utf-8")
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
