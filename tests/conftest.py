"""What holds for every test: no hub, one tokenizer thread, no timed example, no loop left open."""

import asyncio
import importlib.util
import os

import pytest

# Before anything imports transformers, which reads both once.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("FITRAG_CPU_DTYPE", "float32")  # the same numbers on every processor

if importlib.util.find_spec("hypothesis"):  # the tests on a GPU do without
    from hypothesis import settings

    settings.register_profile("unhurried", settings(), deadline=None)  # a busy machine is no defect
    settings.load_profile("unhurried")

# LlamaIndex's sync calls take the main thread's event loop, or make one that nobody closes; the
# collector reports that in whatever test it runs. Where the loop is set to none they close theirs.
asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    from tiny import write_bert

    return write_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def t5(tmp_path_factory):
    from tiny import write_t5

    return write_t5(tmp_path_factory.mktemp("tiny-t5"))


@pytest.fixture(scope="session", params=["bert", "t5"])
def base(request):
    return request.getfixturevalue(request.param)
