"""`--llm PROVIDER:MODEL` without its package, or with a wrong name, is told in a line."""

import pytest

from fitrag_integrations.commands.engine import models
from fitrag_integrations.errors import InputError, MissingExtraError

home = pytest.importorskip("langchain.chat_models")


def test_a_provider_without_its_package_is_named(monkeypatch):
    def missing(name):
        raise ImportError("Install it with `pip install -U langchain-openai`", name="langchain")

    monkeypatch.setattr(home, "init_chat_model", missing)
    with pytest.raises(MissingExtraError, match="--llm openai:gpt-4o: Install it with"):
        models.load_chat_model("openai:gpt-4o")


def test_a_model_that_cannot_start_says_why(monkeypatch):
    def keyless(name):
        raise ValueError("the api_key is not set")

    monkeypatch.setattr(home, "init_chat_model", keyless)
    with pytest.raises(InputError, match="ValueError: the api_key is not set"):
        models.load_chat_model("openai:gpt-4o")
    with pytest.raises(InputError, match="PROVIDER:MODEL, such as openai"):
        models.load_chat_model("gpt-4o")
