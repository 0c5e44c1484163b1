"""What ``__all__`` promises is there, and what is there is promised."""

import ast
import importlib
import inspect
import re
from importlib.metadata import metadata

import pytest

import fitrag_integrations
from fitrag_integrations import MissingExtraError
from fitrag_integrations.core.extras import installed

MODULES = [
    "fitrag_integrations",
    "fitrag_integrations.methods",
    "fitrag_integrations.methods.baselines",
    "fitrag_integrations.retrieval",
    "fitrag_integrations.web",
    "fitrag_integrations.langchain",
    "fitrag_integrations.llama_index",
    "fitrag_integrations.flow",
    "fitrag_integrations.models",
]
EXTRAS = set(metadata("fitrag-integrations").get_all("Provides-Extra"))


def is_there(module, public):
    """Load a name; where it is not to be had, its error has to name an extra and what lacks."""
    try:
        return getattr(module, public) is not None
    except MissingExtraError as error:
        (extra,) = re.findall(r'pip install "fitrag-integrations\[([a-z-]+)\]"', str(error))
        assert extra in EXTRAS
        assert not installed(error.name)
        return False


def type_checked(module):
    """Return the names that a package imports, with ``as``, for type checkers alone."""
    (block,) = (node for node in ast.parse(inspect.getsource(module)).body if type(node) is ast.If)
    return {alias.asname for node in block.body for alias in node.names}


@pytest.mark.parametrize("name", MODULES)
def test_every_promised_name_is_there(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(set(module.__all__))
    lacking = [public for public in module.__all__ if not is_there(module, public)]
    if lacking:
        pytest.skip(f"an extra is not installed: {name} lacks {', '.join(lacking)}")


@pytest.mark.parametrize("name", MODULES)
def test_lazy_names_are_the_promised_ones(name):
    module = importlib.import_module(name)
    promised = set(module.__all__) - {"__version__"}
    assert type_checked(module) == promised
    shown = {public for public in dir(module) if public[:2] != "__"}
    assert shown <= promised
    assert not [public for public in promised - shown if is_there(module, public)]
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


def test_a_lazy_name_is_its_modules_own():
    from fitrag_integrations import Context
    from fitrag_integrations.types import Context as Original

    assert Context is Original
    assert fitrag_integrations.__version__ == "0.1.0"
