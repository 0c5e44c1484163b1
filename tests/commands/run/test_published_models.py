"""Verbs over published folders, which have a `config.json` and no `model.json`."""

import json

import pytest
from command_fakes import passages, read, write
from tiny import write_cross_encoder, write_pruner

from fitrag_integrations.models import BiLabelScorer, OnePassScorer
from fitrag_integrations.types import Passage

ROWS = [
    {"question": f"who wrote part {i}?", "answers": ["king"], "passages": passages("the king", "b")}
    for i in range(3)
]


@pytest.fixture(scope="module")
def cross(tmp_path_factory):
    return write_cross_encoder(tmp_path_factory.mktemp("published"))


FIRST = ROWS[0]["question"], Passage("", ROWS[0]["passages"][0]["text"], "T0")


@pytest.mark.parametrize("kind", ["reranker", "pruner"])
def test_score_and_compress_take_a_published_model(cross, fitrag, tmp_path, kind):
    if kind == "reranker":
        folder, load = cross, BiLabelScorer.from_reranker
    else:
        (tmp_path / "pruner").mkdir()
        folder = write_pruner(tmp_path / "pruner", default_threadshold=0.0)
        load = OnePassScorer.from_pruner
    source = write(tmp_path / "in.jsonl", ROWS)
    for verb in ("score", "compress"):
        out = tmp_path / f"{verb}.jsonl"
        code, _, err = fitrag(verb, source, out, "--model", folder, "--quiet")
        assert code == 0, err
    first = read(tmp_path / "score.jsonl")[0]["scores"][0]
    (expected,) = load(folder).score([FIRST])
    assert first["has_answer"] == pytest.approx(expected.has_answer, abs=1e-6)
    assert (first["llm_prefer"] is None) == (expected.llm_prefer is None)


def test_evaluate_rerank_takes_one_by_model(cross, fitrag, tmp_path):
    source = write(tmp_path / "in.jsonl", ROWS)
    given = "evaluate", "rerank", source, "--json", "--resamples", 50
    code, out, err = fitrag(*given, "--model", cross)
    assert code == 0, err
    code, named, err = fitrag(*given, "--reranker", cross)
    assert code == 0, err
    assert json.loads(out)["figures"] == json.loads(named)["figures"]


def test_arguments_for_transformers_reach_it(cross, fitrag, tmp_path, monkeypatch):
    rows = write(tmp_path / "rows.jsonl", ROWS)
    given = ("score", rows, tmp_path / "out.jsonl", "--model", cross)
    made, load = [], BiLabelScorer.from_reranker

    def loaded(name, **how):
        made.append(load(name, **how))
        return made[-1]

    monkeypatch.setattr(BiLabelScorer, "from_reranker", loaded)
    code, _, err = fitrag(*given, "--model-kwargs", '{"attn_implementation": "eager"}')
    assert code == 0, err
    assert made[0]._engine.trunk.encoder.config._attn_implementation == "eager"
    for wrong in ("eager", "[1]", "{"):
        code, _, err = fitrag(*given, "--overwrite", "--model-kwargs", wrong)
        assert code == 2 and "--model-kwargs" in err and "a JSON object" in err
