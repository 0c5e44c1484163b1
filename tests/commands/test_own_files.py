"""A backend and a method of the user's: one file each, which the command line takes."""

import json

import pytest
from typer.testing import CliRunner

from fitrag_integrations.cli import app
from fitrag_integrations.core.extras import from_own_file
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods import method_from

BACKEND = """from fitrag_integrations import BiLabelScore


class WordScorer:
    name = "words"

    def score(self, pairs):
        return [self.one(question.lower().split(), passage.text) for question, passage in pairs]

    def one(self, words, text):
        return BiLabelScore(sum(word in text.lower() for word in words) / len(words))
"""
METHOD = '''from dataclasses import dataclass

from fitrag_integrations import Context, Excerpt


@dataclass(frozen=True)
class Guessing:
    """Retrieve with the question, and with the language model's guess besides."""

    k: int = 3

    def __call__(self, question, ports):
        guesses = []
        if ports.generate:
            guesses = yield from ports.generate.ask([f"Question: {question}\\nAnswer:"])
        lists = yield from ports.retrieve.ask([question, *guesses])
        unique = {passage.id: passage for found in lists for passage in found}
        kept = tuple(map(Excerpt.whole, list(unique.values())[: self.k]))
        return Context(question, kept, tuple(guesses), method="guessing")
'''
ROW = {"question": "Who wrote it?", "passages": [{"text": "Nino Rota wrote it."}]}


@pytest.fixture
def fitrag(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("words", BACKEND), ("guessing", METHOD)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")

    def run(*arguments):
        return CliRunner().invoke(app, list(arguments), catch_exceptions=False)

    return run


def row_of(name):
    with open(name, encoding="utf-8") as lines:
        return json.loads(lines.readline())


def test_a_backend_is_one_file(fitrag):
    assert BACKEND.count("\n") <= 12
    assert fitrag("score", "rows.jsonl", "out.jsonl", "--model", "words.py").exit_code == 0
    assert row_of("out.jsonl")["scores"] == [{"has_answer": 1 / 3, "llm_prefer": None}]


def test_a_method_is_one_file(fitrag):
    assert METHOD.count("\n") <= 20
    assert fitrag("answer", "rows.jsonl", "out.jsonl", "--method", "guessing.py").exit_code == 0
    assert row_of("out.jsonl")["context"][0]["text"] == "Nino Rota wrote it."
    assert method_from("guessing.py:Guessing", k=1).k == 1


def test_a_recipe_of_tables_runs_no_file(fitrag, tmp_path):
    (tmp_path / "one.toml").write_text('method = "guessing.py"\n')
    for recipe in ("one.toml", {"method": "guessing.py"}, {"method": "crag", "retriever": "a.py"}):
        with pytest.raises(InputError, match=r"got '\w+\.py'"):
            method_from(recipe)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("nothing.py", "a Python file with one class"),
        ("words.py:Other", "got 'words.py:Other'"),
        ("two.py", "One, Two"),
    ],
)
def test_a_file_without_the_one_class_is_refused(fitrag, tmp_path, reference, told):
    (tmp_path / "two.py").write_text("class One: ...\nclass Two: ...\n")
    with pytest.raises(InputError, match=told):
        from_own_file(reference, lambda kind: True, "one class")
    assert from_own_file("two.py:Two", lambda kind: True, "one class").__name__ == "Two"
