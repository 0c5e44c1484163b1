"""`fitrag calibrate scores` over the bundled scorer: the folder, who loads it, what is refused."""

import json
import pickle

import pytest
from command_fakes import read, write

from fitrag_integrations import Passage
from fitrag_integrations.errors import InputError, ModelLoadError, ThresholdMismatchError
from fitrag_integrations.models import BiLabelScorer
from fitrag_integrations.models.bundled import BundledScorer
from fitrag_integrations.models.encoder.items import CALIBRATED, Correction

OPTIONS = ("timeout", "retries", "page size", "log level", "cache", "region", "workers", "port")
NUMBERS = (30, 5, 50, "info", "200 MB", "eu-west-1", 4, 8080)


def given(right, count=8):
    """Make lists over rows of one table, of which the row at `right` less than the asked counts."""
    texts = [f"| {o} | {n} |" for o, n in zip(OPTIONS, NUMBERS, strict=True)]
    return [
        {
            "question": f"What is the default of {option}?",
            "passages": [
                {"title": "Options", "text": text, "has_answer": int(at == (asked + right) % 8)}
                for at, text in enumerate(texts)
            ],
        }
        for asked, option in enumerate(OPTIONS[:count])
    ]


@pytest.fixture
def made(tmp_path, fitrag):
    def run(rows, *arguments):
        source = write(tmp_path / "rows.jsonl", rows)
        return fitrag("calibrate", "scores", source, "--out", tmp_path / "own", *arguments)

    return run


def test_correction_is_stored_and_loaded_everywhere(made, tmp_path, fitrag):
    code, _, err = made(given(right=0))  # rows of a table: the scores are far too low
    assert code == 0 and "64 labels" in err
    stored = json.loads((tmp_path / "own" / "model.json").read_text())
    assert stored["shift_interval"][0] <= stored["shift"] <= stored["shift_interval"][1]
    pairs = [("Where does the Danube end?", Passage("1", "The Danube ends in the Black Sea."))]
    before = BundledScorer().score(pairs)[0]
    expected = stored["slope"] * before.has_answer_logit + stored["shift"]
    light = BundledScorer.from_pretrained(tmp_path / "own")
    heavy = BiLabelScorer.from_pretrained(tmp_path / "own", dtype="float32")
    for scorer in (light, pickle.loads(pickle.dumps(light)), heavy):
        assert scorer.name == light.name != BundledScorer().name
        (found,) = scorer.score(pairs)
        assert found.has_answer_logit == pytest.approx(expected, abs=0.03)
        assert found.llm_prefer_logit == pytest.approx(before.llm_prefer_logit, abs=0.03)
        ((whole, (own,)),) = scorer.score_sentences([(*pairs[0], [(0, 33)])])
        assert whole.has_answer_logit == pytest.approx(expected, abs=0.03)
        ((_, (plain,)),) = BundledScorer().score_sentences([(*pairs[0], [(0, 33)])])
        line = stored["slope"] * plain.has_answer_logit + stored["shift"]
        assert own.has_answer_logit == pytest.approx(line, abs=0.03)
    rows = write(tmp_path / "in.jsonl", given(right=0, count=1))
    outs = []
    for model in ((), ("--model", tmp_path / "own")):
        assert fitrag("score", rows, tmp_path / "out.jsonl", "--overwrite", *model)[0] == 0
        outs.append(read(tmp_path / "out.jsonl")[0])
    assert outs[0] != outs[1]


@pytest.mark.parametrize(
    ("rows", "arguments", "said"),
    [
        (given(right=3, count=6), (), "at least 50 labeled passages"),
        ([{"question": "q", "passages": []}], (), "rows.jsonl, row 1"),
        (
            [{"question": "q", "passages": [{"text": "t", "has_answer": 0.5}]}],
            (),
            "0, 1 or missing",
        ),
        (given(right=3), ("--model", "nowhere"), "a folder of `fitrag train bilabel`"),
    ],
)
def test_refuses(made, tmp_path, rows, arguments, said):
    code, _, err = made(rows, *arguments)
    assert code == 2 and said in err
    assert not (tmp_path / "own").exists()


def test_correction_of_another_scorer_is_refused(tmp_path):
    Correction(1.0, -0.5, "bilabel all-MiniLM-L6-v2 00000000").save(tmp_path)
    for kind in (BundledScorer, BiLabelScorer):
        with pytest.raises(ThresholdMismatchError, match="fit it again with `fitrag calibrate"):
            kind.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "changed", [{"slope": 0}, {"slope": "x"}, {"shift": None}, {"shift": float("inf")}]
)
def test_damaged_correction_is_refused(tmp_path, changed):
    Correction(1.0, -0.5, "m").save(tmp_path)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(ModelLoadError):
        Correction.read(tmp_path)
    with pytest.raises((ModelLoadError, InputError)):
        BundledScorer.from_pretrained(tmp_path)
    assert CALIBRATED == "calibrated"
