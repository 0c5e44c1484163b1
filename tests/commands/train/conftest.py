"""A tiny encoder to train on."""

import pytest
from tiny import write_bert


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("tiny-bert"))
