"""The eligible augmentation detector: its input, its threshold, its folder."""

import asyncio
import json
import pickle
import random

import pytest
import torch

from fitrag_integrations import BiLabelScore
from fitrag_integrations.errors import (
    ChecksumError,
    InputError,
    ModelLoadError,
    ThresholdMismatchError,
)
from fitrag_integrations.models import EligibilityDetector
from fitrag_integrations.models.eligibility import score_row
from fitrag_integrations.ports import Detector
from fitrag_integrations.training.eligibility import EligibilityNetwork
from fitrag_integrations.values.thresholds import FittedThreshold

SCORES = [BiLabelScore(0.9, 0.4), BiLabelScore(0.2, 0.8), BiLabelScore(0.5)]
FITTED = {"scorer": "mine", "window": 3, "stride": 1, "per_passage": 1}


def made(*, rest=False, max_pairs=4, threshold=0.8, temperature=2.0, seed=0):
    torch.manual_seed(seed)
    network = EligibilityNetwork(2 * max_pairs * (1 + rest), hidden=8)
    manifest = {
        "fitted_for": FITTED,
        "max_pairs": max_pairs,
        "sees_rest": rest,
        "temperature": temperature,
        "threshold": FittedThreshold(threshold, model="mine", rows=9).to_dict(),
    }
    return EligibilityDetector(network.arrays(), manifest=manifest)


def test_pairs_are_sorted_by_their_sum_and_padded():
    row = [0.9, 0.4, 0.5, 0.5, 0.2, 0.8, 0.0, 0.0]  # 0.5 stands for both; sums 1.3, 1.0, 1.0
    assert sorted(score_row(SCORES, 4)[2:6]) == sorted(row[2:6])
    assert score_row(SCORES, 4)[:2] == row[:2] and score_row(SCORES, 4)[6:] == row[6:]
    assert score_row(SCORES, 1) == [0.9, 0.4]
    assert score_row(SCORES[:1], 2, rest=SCORES[1:2]) == [0.9, 0.4, 0.0, 0.0, 0.2, 0.8, 0.0, 0.0]


def test_a_probability_is_the_networks_over_the_temperature():
    detector = made()
    (found,) = detector.eligible([SCORES])
    torch.manual_seed(0)
    network = EligibilityNetwork(8, hidden=8).double()
    logit = network(torch.tensor([score_row(SCORES, 4)]).double()).item()
    assert found == pytest.approx(1 / (1 + 2.718281828459045 ** (-logit / 2.0)))
    assert isinstance(found, float) and isinstance(detector, Detector)


@pytest.mark.parametrize("rest", [False, True])
def test_no_order_and_no_batch_changes_anything(rest):
    detector, chance = made(rest=rest), random.Random(3)
    pairs = [
        tuple(
            [BiLabelScore(chance.random(), chance.random()) for _ in range(chance.randint(1, 6))]
            for _ in range(2)
        )
        for _ in range(40)
    ]
    alone = [detector.eligible_among([pair])[0] for pair in pairs]
    assert detector.eligible_among(pairs) == pytest.approx(alone, abs=1e-12)
    turned = [(kept[::-1], left[::-1]) for kept, left in pairs]
    assert detector.eligible_among(turned) == pytest.approx(alone, abs=1e-12)
    assert asyncio.run(detector.aeligible_among(pairs)) == pytest.approx(alone, abs=1e-12)
    without = [detector.eligible([kept])[0] for kept, _ in pairs]
    assert (without == pytest.approx(alone)) is not rest
    assert asyncio.run(detector.aeligible([k for k, _ in pairs])) == pytest.approx(without)


def test_what_is_no_score_is_refused_and_all_of_it_once_unloaded():
    detector = made()
    assert detector.eligible([]) == []
    with pytest.raises(InputError, match=r"combinations\[1\]\[0\]` must be"):
        detector.eligible([SCORES, [None]])
    with pytest.raises(InputError, match="combination` must be"):
        detector.eligible([[]])
    detector.unload()
    with pytest.raises(ModelLoadError, match="was unloaded"):
        detector.eligible([SCORES])


@pytest.mark.parametrize("rest", [False, True])
def test_a_saved_detector_is_the_same(tmp_path, rest):
    detector = made(rest=rest)
    detector.save_pretrained(tmp_path)
    loaded = EligibilityDetector.from_pretrained(tmp_path)
    again = pickle.loads(pickle.dumps(loaded))
    pairs = [(SCORES, SCORES[:1]), (SCORES[:1], SCORES)]
    for one in (loaded, again):
        assert one.eligible_among(pairs) == detector.eligible_among(pairs)
        assert (one.threshold, one.scorer, one.fitted_for) == (0.8, "mine", FITTED)
    assert repr(loaded) == f"EligibilityDetector({tmp_path.name!r}, threshold=0.8)"
    with pytest.raises(TypeError, match="save_pretrained it"):
        pickle.dumps(detector)


def test_another_scorer_is_refused_unless_allowed(tmp_path):
    made().save_pretrained(tmp_path)
    EligibilityDetector.from_pretrained(tmp_path, for_scorer="mine")
    with pytest.raises(ThresholdMismatchError, match="fitted for 'mine', given 'other'"):
        EligibilityDetector.from_pretrained(tmp_path, for_scorer="other")
    with pytest.raises(ThresholdMismatchError):
        EligibilityDetector.from_pretrained(tmp_path).check_scorer("other")
    free = EligibilityDetector.from_pretrained(tmp_path, allow_other_scorer=True)
    free.check_scorer("other")
    free.check_scorer(None)


def test_a_damaged_folder_is_told(tmp_path):
    made().save_pretrained(tmp_path)
    told = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**told, "max_pairs": 3}))
    with pytest.raises(ModelLoadError, match="does not fit the model"):
        EligibilityDetector.from_pretrained(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps(told))
    (tmp_path / "network.safetensors").write_bytes(b"no")
    with pytest.raises(ChecksumError):
        EligibilityDetector.from_pretrained(tmp_path)
