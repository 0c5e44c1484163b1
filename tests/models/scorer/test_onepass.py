"""The one-pass scorer: the scorer's own labels, one per span besides, saved and loaded."""

import json
import pickle

import pytest
import torch
from tiny import PAIRS, make_scorer

from fitrag_integrations import Passage
from fitrag_integrations.errors import ChecksumError, InputError, ModelLoadError
from fitrag_integrations.models import OnePassScorer
from fitrag_integrations.models.scorer.spans import SpanHead

ITEMS = [
    (
        question,
        passage,
        [(0, len(passage.text)), (0, 4), (len(passage.text) // 2, len(passage.text))],
    )
    for question, passage in PAIRS
]


def make_onepass(base, **options):
    scorer = make_scorer(base, **options)
    torch.manual_seed(2)
    head = SpanHead(scorer._engine.trunk.width, hidden=5)
    return OnePassScorer(scorer, head, manifest={"temperatures": [0.5, 2.0]})


def logits(judged):
    return [x for s in judged for x in (s.has_answer_logit, s.llm_prefer_logit)]


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
    assert 0 <= whole.has_answer <= 1 and 0 <= whole.llm_prefer <= 1


def test_a_batch_of_another_size_gives_the_same(bert, tmp_path):
    onepass = make_onepass(bert)
    onepass.save_pretrained(tmp_path)
    small = OnePassScorer.from_pretrained(tmp_path, device="cpu", batch_tokens=1)
    for one, other in zip(spans_of(onepass), spans_of(small), strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_without_spans_only_the_passage_is_judged(bert):
    onepass = make_onepass(bert)
    (label, spans), (_, others) = onepass.score_sentences([(*PAIRS[0], []), (*PAIRS[3], [(0, 10)])])
    assert spans == [] and len(others) == 1
    assert label.has_answer == pytest.approx(onepass.score([PAIRS[0]])[0].has_answer, abs=1e-5)
    assert onepass.score_sentences([]) == []


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
    again = pickle.loads(pickle.dumps(loaded))
    assert spans_of(again) == spans_of(loaded)
    assert again.name == loaded.name and loaded.name.startswith("bilabel")
    with pytest.raises(TypeError, match="save_pretrained"):
        pickle.dumps(onepass)


def test_a_head_of_one_label_gives_one_also_saved_and_loaded(bert, tmp_path):
    both = make_onepass(bert)
    one = OnePassScorer(
        both._scorer, both._span_head, manifest={**both.manifest, "head": {"labels": 1}}
    )
    one.save_pretrained(tmp_path)
    for scorer in (one, OnePassScorer.from_pretrained(tmp_path, device="cpu")):
        for (whole, spans), (_, full) in zip(
            scorer.score_sentences(ITEMS), both.score_sentences(ITEMS), strict=True
        ):
            assert whole.llm_prefer is not None
            assert {(span.llm_prefer, span.llm_prefer_logit) for span in spans} == {(None, None)}
            alone, has = ([span.has_answer for span in each] for each in (spans, full))
            assert alone == pytest.approx(has, abs=1e-4)
    path = tmp_path / "model.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "head": {**manifest["head"], "labels": 3}}))
    with pytest.raises(ModelLoadError, match="labels"):
        OnePassScorer.from_pretrained(tmp_path, device="cpu")


def test_another_scorers_head_is_refused(bert, tmp_path):
    make_onepass(bert).save_pretrained(tmp_path / "one")
    make_scorer(bert, hidden=4).save_pretrained(tmp_path / "one" / "scorer")
    with pytest.raises(ChecksumError, match="fitrag train onepass"):
        OnePassScorer.from_pretrained(tmp_path / "one", device="cpu")


def test_changed_and_missing_files_are_refused(bert, tmp_path):
    make_onepass(bert).save_pretrained(tmp_path)
    head = tmp_path / "head.safetensors"
    whole = head.read_bytes()
    head.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ChecksumError):
        OnePassScorer.from_pretrained(tmp_path, device="cpu")
    head.write_bytes(whole)
    path = tmp_path / "model.json"
    manifest = json.loads(path.read_text())
    del manifest["scorer"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(ModelLoadError, match="scorer"):
        OnePassScorer.from_pretrained(tmp_path, device="cpu")


def test_an_unloaded_one_says_so(bert):
    onepass = make_onepass(bert)
    onepass.unload()
    with pytest.raises(ModelLoadError, match="unloaded"):
        onepass.score_sentences(ITEMS)


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (PAIRS[0], r"items\[1\]"),
        ((*PAIRS[0], [(0, 99)]), r"items\[1\].spans\[0\].end"),
        ((*PAIRS[0], [(0, 4), (3, 3)]), r"items\[1\].spans\[1\].start"),
        ((*PAIRS[0], [4]), r"items\[1\].spans\[0\]"),
        (("", PAIRS[0][1], []), r"pairs\[1\].question"),
    ],
)
def test_a_wrong_item_is_named(bert, item, field):
    with pytest.raises(InputError, match=field):
        make_onepass(bert).score_sentences([ITEMS[0], item])


async def test_async_gives_the_same(bert):
    onepass = make_onepass(bert)
    assert await onepass.ascore_sentences(ITEMS) == onepass.score_sentences(ITEMS)
    assert await onepass.ascore(PAIRS) == onepass.score(PAIRS)
