"""Every public name says what it is for: shapes, units, ranges, errors, and whose idea it is."""

import importlib

import pytest
from docstring_rules import OWN, faults_of, names_a_paper, public_packages

NAMES = {
    f"{package}.{name}": getattr(importlib.import_module(package), name)
    for package in public_packages()
    for name in importlib.import_module(package).__all__
    if name != "__version__"
}
# what no paper has: how texts are cut, counted, cited and put together
NO_PAPERS = {
    *("Citation", "Cited", "Span", "cite", "highlight", "with_citations"),
    *("Compression", "Weighed", "Continuation", "Over", "method_from"),
    *("approximate_tokens", "counter_for", "split_sentences", "tiktoken_counter"),
}
FROM_PAPERS = [
    (name, value)
    for name, value in NAMES.items()
    if getattr(value, "__module__", "").startswith((f"{OWN}.methods", f"{OWN}.models"))
    if name.rpartition(".")[2] not in NO_PAPERS
]


@pytest.mark.parametrize(("name", "value"), NAMES.items(), ids=NAMES)
def test_a_public_name_is_documented(name, value):
    assert faults_of(value) == []


@pytest.mark.parametrize(("name", "value"), FROM_PAPERS, ids=[name for name, _ in FROM_PAPERS])
def test_methods_and_models_name_their_paper(name, value):
    assert names_a_paper(value)


class Told:
    """Weigh two numbers."""

    def __init__(self, weight):
        self.weight = weight

    def mix(self, one: float, other: float) -> float:
        """Returns the mix."""
        if one < 0:
            raise ValueError(one)
        return one * self.weight + other


def test_the_rules_find_what_is_missing(monkeypatch):
    monkeypatch.setattr(Told, "__module__", OWN)
    monkeypatch.setattr(Told.mix, "__module__", OWN)
    monkeypatch.setattr(Told.__init__, "__module__", OWN)
    assert faults_of(Told) == [
        "parameter weight",
        "mix: it begins with 'returns', not with what to do",
        "mix: parameter one",
        "mix: parameter other",
        "mix: error ValueError",
        "mix: no range of what it gives",
    ]
