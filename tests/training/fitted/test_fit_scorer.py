"""A scorer trained on what was labelled while fitting: taken where it is better, else left."""

import json
from functools import partial

import pytest
from training_rows import labelled_rows

from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.training.bilabel import fit as bilabel
from fitrag_integrations.training.fitted import labelling
from fitrag_integrations.training.fitted.labelling import fit_scorer

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def small(monkeypatch, bert):
    """Have thirty labels and a few steps be enough for a head, over a tiny encoder."""
    monkeypatch.setattr(bilabel, "BilabelPlan", partial(bilabel.BilabelPlan, steps=3))
    monkeypatch.setattr(labelling, "FOR_HEAD", 30)
    monkeypatch.setattr(labelling, "embedded_folder", {"reader": bert}.__getitem__)


def test_a_head_over_the_readers_encoder_is_taken_where_it_is_better(tmp_path, monkeypatch, bert):
    monkeypatch.setattr(labelling, "MARGIN", -2.0)  # whatever comes of it
    made = fit_scorer(labelled_rows(), tmp_path / "scorer", seed=0, train=True)
    assert (made.folder, made.trained) == ("scorer", "a head")
    told = json.loads((tmp_path / "scorer" / "model.json").read_text())["trained"]
    assert (told["base"], told["tune"]) == (str(bert), "head")
    assert BiLabelScorer.from_pretrained(tmp_path / "scorer").name


def test_it_is_left_where_it_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(labelling, "MARGIN", 2.0)
    made = fit_scorer(labelled_rows(), tmp_path / "scorer", seed=0, train=True)
    assert (made.folder, made.trained) == (None, "nothing") and not list(tmp_path.iterdir())


def test_few_labels_choose_a_weight(tmp_path):
    made = fit_scorer(labelled_rows()[:5], tmp_path / "scorer", seed=0, train=True)
    assert made.folder is None and made.weight in labelling.WEIGHTS and not list(tmp_path.iterdir())
