"""Names load lazily, and what is missing is said in one sentence."""

import sys

import pytest

import fitrag_integrations.langchain as adapter
from fitrag_integrations.errors import MissingExtraError


def test_every_promised_name_is_there():
    assert set(adapter._MODULE_OF) == set(adapter.__all__)
    for name in adapter.__all__:
        assert getattr(adapter, name).__name__ == name
    assert set(adapter.__all__) <= set(dir(adapter))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = adapter.nothing


def test_every_public_class_says_what_it_is():
    for name in adapter.__all__:
        assert getattr(adapter, name).__doc__


def test_without_langchain_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "langchain_core", None)
    with pytest.raises(MissingExtraError, match=r'pip install "fitrag-integrations\[langchain\]"'):
        _ = adapter.BiLabelReranker
