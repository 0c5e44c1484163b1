"""Tiny checkpoints, and rows written for the tests."""

import pytest
from tiny import write_bert, write_t5  # noqa: E402


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def t5(tmp_path_factory):
    return write_t5(tmp_path_factory.mktemp("tiny-t5"))


@pytest.fixture(scope="session", params=["bert", "t5"])
def base(request):
    return request.getfixturevalue(request.param)
