"""The one-pass scorer: the scorer's own labels, one per span besides, saved and loaded."""

import json
import pickle

import pytest
from tiny import PAIRS, make_onepass, make_scorer

from fitrag_integrations import Passage
from fitrag_integrations.errors import ChecksumError, ModelLoadError
from fitrag_integrations.models import OnePassScorer

ITEMS = [
    (
        question,
        passage,
        [(0, len(passage.text)), (0, 4), (len(passage.text) // 2, len(passage.text))],
    )
    for question, passage in PAIRS
]


def logits(judged):
    return [one.has_answer_logit for one in judged]


def spans_of(scorer, items=ITEMS):
    return [logits(spans) for _, spans in scorer.score_sentences(items)]


@pytest.mark.parametrize("evidence", [False, True])
def test_passages_have_the_scorers_own_labels_to_the_bit(base, evidence):
    onepass = make_onepass(base, evidence=evidence)
    expected = onepass._scorer.score(PAIRS)
    assert onepass.score(PAIRS) == expected
    assert [label for label, _ in onepass.score_sentences(ITEMS)] == expected


def test_each_span_has_labels_in_its_place(base):
    onepass = make_onepass(base)
    found = onepass.score_sentences(ITEMS)
    assert [len(spans) for _, spans in found] == [3] * len(ITEMS)
    turned = [(question, passage, spans[::-1]) for question, passage, spans in ITEMS[::-1]]
    again = onepass.score_sentences(turned)[::-1]
    for (_, spans), (_, reversed_spans) in zip(found, again, strict=True):
        assert logits(reversed_spans[::-1]) == pytest.approx(logits(spans), abs=1e-4)
    whole, first, last = found[0][1]
    assert first.has_answer_logit != pytest.approx(last.has_answer_logit, abs=1e-3)
    assert 0 <= whole.has_answer <= 1 and whole.llm_prefer is None


def test_without_spans_only_the_passage_is_judged(bert):
    onepass = make_onepass(bert)
    (label, spans), (_, others) = onepass.score_sentences([(*PAIRS[0], []), (*PAIRS[3], [(0, 10)])])
    assert spans == [] and len(others) == 1
    assert label.has_answer == pytest.approx(onepass.score([PAIRS[0]])[0].has_answer, abs=1e-5)


def test_a_span_of_a_long_passage_is_judged_in_the_chunk_that_holds_it(bert):
    onepass = make_onepass(bert)
    question, passage = PAIRS[1]
    chunks = onepass._scorer._engine.tokenizer.encode([(question, passage)])[0]
    places = [[place for place in chunk.offsets if place] for chunk in chunks]
    assert len(chunks) > 1
    first, last = places[0][0][0], places[0][3][1]  # only the first chunk holds these
    part = Passage("", passage.text[first : places[0][-1][1]], passage.title)
    ((_, (found,)),) = onepass.score_sentences([(question, passage, [(first, last)])])
    ((_, (alone,)),) = onepass.score_sentences([(question, part, [(first, last)])])
    assert logits([found]) == pytest.approx(logits([alone]), abs=1e-4)


def test_a_span_the_tokenizer_knows_nothing_of_is_judged_too(bert):
    item = ("who", Passage("1", "the king     of rome"), [(9, 12)])
    ((_, (label,)),) = make_onepass(bert).score_sentences([item])
    assert 0 <= label.has_answer <= 1


def test_saved_and_loaded_it_is_the_same(base, tmp_path):
    onepass = make_onepass(base, evidence=True)
    onepass.save_pretrained(tmp_path)
    loaded = OnePassScorer.from_pretrained(tmp_path, device="cpu")
    for one, other in zip(spans_of(onepass), spans_of(loaded), strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    assert loaded.name.startswith("bilabel")
    with pytest.raises(TypeError, match="save_pretrained"):
        pickle.dumps(onepass)


def test_a_manifest_without_a_scorer_and_another_scorers_head_are_refused(bert, tmp_path):
    make_onepass(bert).save_pretrained(tmp_path)
    path = tmp_path / "model.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({name: manifest[name] for name in manifest if name != "scorer"}))
    with pytest.raises(ModelLoadError, match="scorer"):
        OnePassScorer.from_pretrained(tmp_path, device="cpu")
    path.write_text(json.dumps(manifest))
    make_scorer(bert, hidden=4).save_pretrained(tmp_path / "scorer")
    with pytest.raises(ChecksumError, match="saved together"):
        OnePassScorer.from_pretrained(tmp_path, device="cpu")
