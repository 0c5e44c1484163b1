"""A test over `framework` runs in LangChain and in LlamaIndex."""

import pytest
from frameworks import BOTH


@pytest.fixture(params=BOTH, ids=repr)
def framework(request):
    return request.param
