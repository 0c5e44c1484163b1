"""Names load lazily, and what is missing is said in one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

import fitrag_integrations.langchain as adapter
from fitrag_integrations.errors import MissingExtraError

ROOT = Path(adapter.__file__).parents[2]


def printed(script):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


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


def test_importing_loads_neither_framework_nor_torch():
    loaded = printed("import fitrag_integrations.langchain, sys; print(*sys.modules)").split()
    assert not {"langchain_core", "torch", "llama_index"} & set(loaded)
    # older cores import transformers themselves
    script = (
        "import sys, langchain_core.language_models.base; theirs = {*sys.modules}\n"
        "from fitrag_integrations.langchain import *; print(*({*sys.modules} - theirs))"
    )
    tops = {module.partition(".")[0] for module in printed(script).split()}
    heavy = {"torch", "transformers", "faiss", "llama_index", "langchain_classic", "tiktoken"}
    assert not tops & heavy


def test_without_langchain_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "langchain_core", None)
    with pytest.raises(MissingExtraError, match=r'pip install "fitrag-integrations\[langchain\]"'):
        _ = adapter.BiLabelReranker
