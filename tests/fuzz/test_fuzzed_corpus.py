"""What a fuzzer found worth keeping is read once more: no error without a name, nothing slow."""

import base64
import gzip
import json
import time
from collections import defaultdict
from pathlib import Path

import pytest
from examples import SEEDS
from targets import TARGETS

CORPUS = Path(__file__).with_name("corpus.jsonl.gz")
PATIENCE = 2.0  # seconds of CPU an input may take, the first of a reader aside: it imports


def inputs():
    """Give the inputs kept for each target."""
    found = defaultdict(list)
    for name, texts in SEEDS.items():
        found[name] += [text.encode() for text in texts]
    for line in gzip.decompress(CORPUS.read_bytes()).splitlines():
        name, text = json.loads(line)
        found[name].append(base64.b64decode(text))
    return found


INPUTS = inputs()


def test_every_target_has_inputs_and_every_input_a_target():
    assert set(INPUTS) == set(TARGETS)


@pytest.mark.filterwarnings("ignore")  # lxml's, of what is no text
@pytest.mark.parametrize("name", TARGETS)
def test_what_is_kept_is_read_or_refused_by_name(name):
    TARGETS[name](b"")
    for data in INPUTS[name]:
        began = time.thread_time()
        TARGETS[name](data)
        assert time.thread_time() - began < PATIENCE, data
