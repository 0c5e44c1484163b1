"""The bi-label scorer: its numbers, its chunks, and that a saved one is the same scorer."""

import json
import math

import pytest
from tiny import PAIRS, make_scorer

from fitrag_integrations import Passage
from fitrag_integrations.models import BiLabelScorer


def logits(scorer, pairs=PAIRS):
    scores = scorer.score(pairs)
    return [x for s in scores for x in (s.has_answer_logit, s.llm_prefer_logit)]


def reload(scorer, folder):
    scorer.save_pretrained(folder)
    return BiLabelScorer.from_pretrained(folder, device="cpu")


@pytest.mark.parametrize("evidence", [False, True])
def test_a_saved_head_is_the_same_head(base, evidence, tmp_path):
    scorer = make_scorer(base, evidence=evidence, hidden=5 * evidence)
    assert logits(reload(scorer, tmp_path)) == pytest.approx(logits(scorer), abs=1e-6)


def test_tuned_layers_come_back_to_half_precision_and_then_exactly(base, tmp_path):
    scorer = make_scorer(base, evidence=True, frozen=False)
    once = reload(scorer, tmp_path / "once")
    # float16 keeps a weight to 1 part in 2048; two layers of width 32 give a few times that
    assert logits(once) == pytest.approx(logits(scorer), abs=2e-2)
    assert logits(once) != pytest.approx(logits(scorer), abs=1e-7)
    assert logits(reload(once, tmp_path / "twice")) == pytest.approx(logits(once), abs=1e-6)


def test_saving_a_loaded_model_writes_the_same_weights(bert, tmp_path):
    once = reload(make_scorer(bert, evidence=True, frozen=False), tmp_path / "once")
    reload(once, tmp_path / "twice")
    for file in ("head.safetensors", "encoder/tuned.safetensors"):
        assert (tmp_path / "once" / file).read_bytes() == (tmp_path / "twice" / file).read_bytes()


def test_probabilities_are_the_sigmoid_of_scaled_logits(bert, tmp_path):
    scorer = make_scorer(bert)
    scaled = logits(scorer)
    for score in scorer.score(PAIRS):
        assert score.has_answer == pytest.approx(1 / (1 + math.exp(-score.has_answer_logit)))
        assert score.llm_prefer == pytest.approx(1 / (1 + math.exp(-score.llm_prefer_logit)))
    scorer.save_pretrained(tmp_path)
    path = tmp_path / "model.json"
    manifest = json.loads(path.read_text())
    assert manifest["temperatures"] == [0.8, 1.5]
    path.write_text(json.dumps(manifest | {"temperatures": [1.0, 1.0]}))
    plain = logits(BiLabelScorer.from_pretrained(tmp_path, device="cpu"))
    expected = [x / (0.8, 1.5)[i % 2] for i, x in enumerate(plain)]
    assert scaled == pytest.approx(expected, abs=1e-6)


def test_evidence_counts(bert):
    with_it, without = make_scorer(bert, evidence=True), make_scorer(bert)
    assert with_it._head.out.in_features == 32 + 5 + 3
    assert without._head.out.in_features == 32
    weight = with_it._head.out.weight.data
    before = logits(with_it)
    weight[:, 32:] = 0.0
    assert logits(with_it) != pytest.approx(before, abs=1e-3)


def test_a_long_passage_takes_its_best_chunk(bert):
    scorer = make_scorer(bert, evidence=True)
    question, passage = PAIRS[1]
    chunks = scorer._engine.tokenizer.encode([(question, passage)])[0]
    assert len(chunks) > 1
    spans = [[span for span in chunk.offsets if span] for chunk in chunks]
    parts = [Passage("", passage.text[s[0][0] : s[-1][1]]) for s in spans]
    scores = scorer.score([(question, part) for part in parts])
    (whole,) = scorer.score([(question, passage)])
    for name in ("has_answer_logit", "llm_prefer_logit"):
        assert getattr(whole, name) == pytest.approx(
            max(getattr(s, name) for s in scores), abs=1e-5
        )


def test_very_sure_logits_do_not_overflow(bert):
    scorer = make_scorer(bert)
    scorer._head.out.bias.data[0], scorer._head.out.bias.data[1] = 5e3, -5e3
    (score,) = scorer.score(PAIRS[:1])
    assert (score.has_answer, score.llm_prefer) == (1.0, 0.0)
