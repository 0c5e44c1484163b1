"""Which precision and backend a model takes by itself on a CPU: near float32, tried once."""

import json
import logging

import pytest
import torch
from tiny import PAIRS, make_evaluator, make_reader, make_scorer

from fitrag_integrations.errors import InputError, ModelLoadError
from fitrag_integrations.models import BiLabelScorer, ExtractiveReader, RetrievalEvaluator
from fitrag_integrations.models.light.models import LightScorer
from fitrag_integrations.models.runtime import choosing
from fitrag_integrations.models.runtime.choosing import (
    BACKEND,
    DTYPE,
    SAMPLE,
    Record,
    Way,
    near,
    records,
    tried,
    ways_of,
)
from fitrag_integrations.types import BiLabelScore

FULL, HALF, ONNX = Way(), Way("torch", "bfloat16"), Way("onnx")
GRAPHS = [Way("openvino"), Way("openvino", "bfloat16")]


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """Have a processor that is quick in bfloat16, and nothing chosen yet."""
    monkeypatch.setenv("FITRAG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(DTYPE, "auto")
    monkeypatch.delenv(BACKEND, raising=False)
    rates = {"float32": 100.0, "bfloat16": 400.0}
    monkeypatch.setattr(choosing, "rate", rates.get)
    monkeypatch.setattr(choosing, "installed", {"onnxruntime": True, "openvino": True}.get)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return rates


@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        ({}, {}, [FULL, HALF]),
        ({"dtype": "auto", "device": "cpu"}, {}, [FULL, HALF]),
        ({}, {DTYPE: "float32"}, [FULL]),
        ({"dtype": "float32"}, {DTYPE: "bfloat16"}, [FULL]),
        ({"dtype": "bfloat16"}, {}, [HALF]),
        ({"backend": "onnx"}, {}, [ONNX]),
        ({"backend": "openvino"}, {}, GRAPHS),
        ({"backend": "auto"}, {}, [FULL, HALF, ONNX, *GRAPHS]),
        ({"backend": "auto", "dtype": "float32"}, {}, [FULL, ONNX, GRAPHS[0]]),
        ({}, {BACKEND: "openvino"}, GRAPHS),
        ({"backend": "torch"}, {BACKEND: "openvino"}, [FULL, HALF]),
        ({"device": "meta"}, {}, []),
        ({"model_kwargs": {"device_map": "auto"}}, {}, []),
        ({"model_kwargs": {"torch_dtype": "bfloat16"}}, {}, []),
    ],
)
def test_what_is_tried(monkeypatch, options, environment, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ways_of(options) == expected


def test_a_slow_precision_is_not_tried_unless_the_environment_says_so(machine, monkeypatch):
    machine["bfloat16"] = 140.0
    assert ways_of({}) == [FULL]
    monkeypatch.setenv(DTYPE, "bfloat16")
    assert ways_of({}) == [FULL, HALF]
    monkeypatch.setenv(DTYPE, "half")
    with pytest.raises(InputError, match=f"{DTYPE}: given 'half'"):
        ways_of({})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([0.1, 0.5, 0.505], True),
        ([0.109, 0.491, 0.5], True),
        ([0.1, 0.5, 0.496], True),  # in another order, of two that are alike
        ([0.1, 0.5, 0.52], False),
        ([float("nan"), 0.5, 0.505], False),
    ],
)
def test_near_is_within_a_hundredth(found, expected):
    assert near([0.1, 0.5, 0.505], found) is expected


def test_near_keeps_the_order_of_all_that_differ_by_more():
    assert near([0.5, 0.511], [0.505, 0.506])
    assert not near([0.5, 0.511], [0.506, 0.505])


class Fixed:
    """Model of equal scores."""

    def __init__(self, moved=0.0):
        self.moved, self.unloaded = moved, False

    def score(self, pairs):
        return [BiLabelScore(len(p.text) / 200 + self.moved, None, 0.0, None) for _, p in pairs]

    def unload(self):
        self.unloaded = True


@pytest.mark.parametrize(("moved", "expected"), [(0.009, HALF), (0.02, FULL)])
def test_what_scores_otherwise_is_not_taken(monkeypatch, moved, expected, caplog):
    monkeypatch.setenv(DTYPE, "bfloat16")
    made = {FULL: Fixed(), HALF: Fixed(moved)}
    record = Record.of("a model", made)
    with caplog.at_level(logging.INFO):
        best, way = tried(record, list(made), made.get)
    assert (best, way) == (made[expected], expected)
    assert [model.unloaded for model in made.values()] == [one is not best for one in made.values()]
    assert len(caplog.records) == 1 and f"a model runs by {expected}" in caplog.text
    assert record.known() == expected


def test_what_does_not_load_is_passed_over():
    def load(way):
        if way != FULL:
            raise ModelLoadError("no such backend")
        return Fixed()

    assert tried(Record.of("a model", [FULL, ONNX]), [FULL, ONNX], load)[1] == FULL


@pytest.mark.parametrize(
    ("make", "kind", "call"),
    [
        (make_scorer, BiLabelScorer, "score"),
        (make_reader, ExtractiveReader, "read"),
        (make_evaluator, RetrievalEvaluator, "evaluate"),
    ],
)
def test_each_kind_of_model_is_tried_once(bert, tmp_path, monkeypatch, make, kind, call):
    folder = tmp_path / "saved"
    make(bert).save_pretrained(folder)
    monkeypatch.setenv(DTYPE, "bfloat16")
    found = []
    for _ in range(2):
        made = kind.from_pretrained(folder)
        found.append(getattr(made, "_grader", made)._engine.dtype)
        assert len(getattr(made, call)(PAIRS)) == len(PAIRS)
        made.unload()
    assert len(set(found)) == 1
    (entry,) = records().values()
    assert entry["way"] == f"torch {str(found[0]).removeprefix('torch.')}"
    assert entry["apart"] <= choosing.NEAR


def test_another_weight_or_processor_is_tried_again(bert, tmp_path, monkeypatch):
    make_scorer(bert).save_pretrained(tmp_path / "saved")
    BiLabelScorer.from_pretrained(tmp_path / "saved").unload()
    BiLabelScorer.from_pretrained(tmp_path / "saved").unload()
    assert len(records()) == 1
    monkeypatch.setattr(choosing, "processor", lambda: "another")
    BiLabelScorer.from_pretrained(tmp_path / "saved").unload()
    assert len(records()) == 2
    (tmp_path / "saved" / "model.json").touch()
    BiLabelScorer.from_pretrained(tmp_path / "saved").unload()
    assert len(records()) == 3


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', "[" * 9999])
def test_a_damaged_file_holds_nothing(tmp_path, content):
    file = choosing.cache_folder() / "engines.json"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    assert records() == {}
    Record.of("a model", [FULL]).keep(FULL, times=1.0, apart=0.0)
    assert len(json.loads(file.read_text())) == 1


def test_the_bundled_models_leave_onnx_runtime_only_where_the_environment_says_so(
    monkeypatch, caplog
):
    monkeypatch.setattr("fitrag_integrations.models.light.models.installed", lambda _: True)
    monkeypatch.setenv(DTYPE, "bfloat16")

    def scored():
        return [score.has_answer for score in model.score(SAMPLE)]

    model = LightScorer()
    engine = model._engine
    monkeypatch.setattr(engine, "chosen", None)
    engine.forget()
    exact = scored()
    for _ in range(30):  # however much was scored before
        scored()
    engine.forget()
    assert scored() == exact
    engine.chosen = None
    monkeypatch.setenv(BACKEND, "auto")
    with caplog.at_level(logging.INFO):
        found = scored()
        assert scored() == found
    assert found != exact and near(exact, found)
    assert caplog.text.count("bundled models runs by torch bfloat16") == 1
    for name, value in ((DTYPE, "float32"), (BACKEND, "onnx")):
        engine.chosen = None
        monkeypatch.setenv(DTYPE, "bfloat16")
        monkeypatch.setenv(BACKEND, "auto")
        monkeypatch.setenv(name, value)
        assert scored() == pytest.approx(exact, abs=1e-5)
