"""Tiny checkpoints and model folders, written once."""

import pytest
from tiny import make_reader, make_scorer

from fitrag_integrations.models import BiLabelScorer, ExtractiveReader

CLASSES = {"bilabel": BiLabelScorer, "reader": ExtractiveReader}


@pytest.fixture(scope="session")
def folders(bert, tmp_path_factory):
    """Save a scorer and a reader; gives the folder of each kind."""
    home = tmp_path_factory.mktemp("models")
    make_scorer(bert, evidence=True).save_pretrained(home / "bilabel")
    make_reader(bert).save_pretrained(home / "reader")
    return {kind: home / kind for kind in CLASSES}


@pytest.fixture(scope="session", params=list(CLASSES))
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def load(kind, folders):
    """Load the saved model of a kind, with options."""
    return lambda folder=None, **options: CLASSES[kind].from_pretrained(
        folder or folders[kind], **{"device": "cpu", **options}
    )


@pytest.fixture(scope="session")
def model(load):
    made = load()
    yield made
    made.unload()
