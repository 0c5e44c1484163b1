"""What ``__all__`` promises is there, and what is there is promised."""

import importlib

import pytest

import fitrag_integrations

MODULES = [
    "fitrag_integrations",
    "fitrag_integrations.methods",
    "fitrag_integrations.methods.baselines",
    "fitrag_integrations.retrieval",
    "fitrag_integrations.web",
    "fitrag_integrations.langchain",
    "fitrag_integrations.llama_index",
    "fitrag_integrations.flow",
]


@pytest.mark.parametrize("name", MODULES)
def test_every_promised_name_is_there(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(set(module.__all__))
    for public in module.__all__:
        assert getattr(module, public) is not None


@pytest.mark.parametrize("name", MODULES[:-1])
def test_lazy_names_are_the_promised_ones(name):
    module = importlib.import_module(name)
    assert set(module._MODULE_OF) == set(module.__all__) - {"__version__"}
    assert set(module.__all__) == {n for n in dir(module) if n[:2] != "__"} | {"__version__"} & set(
        module.__all__
    )
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


def test_a_lazy_name_is_its_modules_own():
    from fitrag_integrations import Context
    from fitrag_integrations.types import Context as Original

    assert Context is Original
    assert fitrag_integrations.__version__ == "0.1.0"
