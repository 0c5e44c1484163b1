"""`--llm PROVIDER:MODEL` without its package, or with a wrong name, is told in a line."""

import pytest

from fitrag_integrations.commands.engine import models
from fitrag_integrations.errors import InputError, MissingExtraError

home = pytest.importorskip("langchain.chat_models")


MISSING = ImportError("Install it with `pip install -U langchain-openai`", name="langchain")


@pytest.mark.parametrize(
    ("name", "raised", "kind", "said"),
    [
        ("openai:gpt-4o", MISSING, MissingExtraError, "--llm openai:gpt-4o: Install it with"),
        ("openai:gpt-4o", ValueError("no key"), InputError, "ValueError: no key"),
        ("gpt-4o", None, InputError, "PROVIDER:MODEL, such as openai"),
    ],
)
def test_a_model_that_cannot_start_says_why(monkeypatch, name, raised, kind, said):
    def start(name):
        raise raised

    monkeypatch.setattr(home, "init_chat_model", start)
    with pytest.raises(kind, match=said):
        models.load_chat_model(name)
