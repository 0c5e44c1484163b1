"""The cosine of the untouched base in the bundled scorer: by hand, kept, and turned off."""

import math
import multiprocessing
import os
import pickle
from importlib import resources

import numpy as np
import pytest
from tiny import forget

from fitrag_integrations import Passage, rerank
from fitrag_integrations.errors import InputError
from fitrag_integrations.models import BiLabelScorer, RetrievalEvaluator
from fitrag_integrations.models.bundled import BundledEvaluator, BundledScorer
from fitrag_integrations.models.encoder import sentences
from fitrag_integrations.models.encoder.encoders import load_encoder
from fitrag_integrations.models.encoder.items import Lines, kind_of
from fitrag_integrations.models.encoder.pairs import Batch
from fitrag_integrations.models.runtime.folder import read_arrays, read_manifest, unscaled
from fitrag_integrations.models.runtime.saved import embedded_folder
from fitrag_integrations.retrieval import Encoder
from fitrag_integrations.text.sentences import split_sentences

FAQ = resources.files("fitrag_integrations") / "embedded" / "handbook" / "documents" / "faq"
LAYOUTS = ["Q: {q}\nA: {a}", "## {q}\n\n{a}", "Question: {q}\nAnswer: {a}", "**{q}**\n{a}"]
TEXT = "The Danube rises in the Black Forest. It ends in the Black Sea. Vienna lies on it."
SPANS = split_sentences(TEXT)
TABLE = "| river | ends in |\n|---|---|\n| Danube | Black Sea |\n| Rhine | North Sea |\n"
ASKED = "Where does the Danube end?"
LONG = Passage("3", "Hamlet is a play by William Shakespeare. " * 60, "Hamlet")
ITEMS = [
    (ASKED, Passage("1", TEXT, "Danube"), SPANS),
    ("Who wrote Hamlet?", LONG, [(0, 40), (2000, 2040)]),
    (ASKED, Passage("4", "?", ""), []),
    (ASKED, Passage("5", TABLE, "Rivers"), [(0, len(TABLE))]),
]


def entries():
    """Return the questions and answers of a page of the handbook."""
    parts = (FAQ / "billing.md").read_text("utf-8").split("\n\n")[1:]
    return [tuple(part.strip().removeprefix("**").split("** ", 1)) for part in parts]


@pytest.fixture(scope="module")
def scorer():
    return BundledScorer("int8")


def cosines(scorer, items):
    return scorer._engine.worker.call(scorer._engine.nearness.of, items)


def test_a_sentence_is_the_mean_over_its_tokens_in_a_pass_over_its_passage(scorer):
    question, passage, spans = ITEMS[0]
    engine = scorer._engine
    graph, _ = engine.over("base")
    (asked,), (read,) = engine.tokenizer.alone([(question,), ("Danube", TEXT)], 384)
    one, other = (graph.run(("states",), Batch.of([each]))[0][0] for each in (asked, read))
    unit = one.mean(0) / np.linalg.norm(one.mean(0))
    wanted = [other.mean(0)]
    for start, end in spans:
        inside = (read.tokens[3] < end) & (read.tokens[4] > start)
        wanted.append(other[inside].mean(0))
    by_hand = [own @ unit / np.linalg.norm(own) for own in wanted]
    assert cosines(scorer, ITEMS[:1])[0] == pytest.approx(by_hand, abs=1e-3)
    assert np.argmax(by_hand[1:]) == 1  # "It ends in the Black Sea."
    vectors = Encoder().encode([question, f"Danube. {TEXT}"])  # as published
    assert by_hand[0] == pytest.approx(vectors[0] @ vectors[1], abs=0.02)


def test_scores_are_a_line_over_logit_and_cosine(scorer):
    near = cosines(scorer, ITEMS)
    found = scorer.score_sentences(ITEMS)
    kept, scorer._lines = scorer._lines, Lines()
    try:
        raw = scorer.score_sentences(ITEMS)
    finally:
        scorer._lines = kept
    lines = scorer.manifest["similarity"]
    for item, own, new, old in zip(ITEMS, near, found, raw, strict=True):
        kind = kind_of(item[1].text)
        slope, weight, shift = lines["passages"][kind]
        wanted = slope * old[0].has_answer_logit + weight * own[0] + shift
        assert new[0].has_answer_logit == pytest.approx(wanted, abs=1e-4)
        moved = old[0].llm_prefer_logit
        if weight:  # a line without a cosine is of has_answer alone
            moved = slope * moved + weight * own[0] + shift
        assert new[0].llm_prefer_logit == pytest.approx(moved, abs=1e-4)
        slope, weight, shift = lines["sentences"][kind]
        wanted = [
            slope * was.has_answer_logit + weight * cosine + shift
            for was, cosine in zip(old[1], own[1:], strict=True)
        ]
        assert [one.has_answer_logit for one in new[1]] == pytest.approx(wanted, abs=1e-4)


def test_what_was_read_is_kept_within_bounds(scorer, monkeypatch):
    nearness, read = scorer._engine.nearness, []
    forget(scorer._engine)
    run = nearness._read
    monkeypatch.setattr(
        nearness, "_read", lambda chunks, weights: read.append(len(chunks)) or run(chunks, weights)
    )
    first = cosines(scorer, ITEMS)
    read.clear()
    again = cosines(scorer, [(ASKED, passage, spans) for _, passage, spans in ITEMS[::-1]])
    assert sum(read) == 0 and again[-1] == pytest.approx(first[0], abs=1e-6)
    cosines(scorer, [(ASKED, ITEMS[0][1], [(4, 10)])])  # another span of a text that is known
    assert sum(read) == 1
    assert nearness._count == sum(len(one) for one in nearness._kept.values())
    monkeypatch.setattr(sentences, "KEPT_VECTORS", 6)
    assert cosines(scorer, ITEMS)[0] == pytest.approx(first[0], abs=1e-6)
    assert nearness._count == sum(len(one) for one in nearness._kept.values()) <= 6
    forget(scorer._engine)
    assert (nearness._count, nearness._kept) == (0, {})


def test_a_text_alone_has_the_cosines_that_it_has_among_others(scorer):
    together = cosines(scorer, ITEMS)
    for item, wanted in zip(ITEMS, together, strict=True):
        forget(scorer._engine)
        assert cosines(scorer, [item])[0] == pytest.approx(wanted, abs=1e-3)


def test_torch_adds_the_same():
    light, other = BundledScorer("float32"), BiLabelScorer.embedded(device="cpu", dtype="float32")
    assert light.name == other.name
    found, wanted = light.score_sentences(ITEMS), other.score_sentences(ITEMS)
    for (one, parts), (two, others) in zip(found, wanted, strict=True):
        for a, b in zip([one, *parts], [two, *others], strict=True):
            assert a.has_answer == pytest.approx(b.has_answer, abs=1e-4)
    other.unload()


def test_entries_asked_word_for_word_are_the_first():
    """Half of them were: other entries are as near to a scorer that has read Wikipedia."""
    found = []
    for layout in LAYOUTS:
        page = [Passage(str(i), layout.format(q=q, a=a)) for i, (q, a) in enumerate(entries())]
        for at, (question, _) in enumerate(entries()):
            found.append(rerank(question, page)[0].passage.id == str(at))
    assert len(found) == sum(found) == 36, found


def test_without_it_scores_are_what_they_were():
    plain, pair = BundledScorer("int8", similarity=False), ITEMS[0][:2]
    (found,) = plain.score([pair])
    assert found.has_answer_logit == pytest.approx(2.4947338, abs=1e-4)
    assert found.llm_prefer_logit == pytest.approx(1.9336406, abs=1e-4)
    assert plain.name == "bilabel all-MiniLM-L6-v2 212db24f" != BundledScorer("int8").name
    again = pickle.loads(pickle.dumps(plain))
    assert (again.name, again.dtype, again.score([pair])) == (plain.name, "int8", [found])
    with pytest.raises(InputError, match="`similarity` must be"):
        BundledScorer(similarity="no")


def test_grades_have_their_share_with_thresholds_of_their_own():
    pairs = [item[:2] for item in ITEMS]
    with_it, plain = BundledEvaluator("int8"), BundledEvaluator("int8", similarity=False)
    near = cosines(with_it, [(*pair, ()) for pair in pairs])
    slope, weight, shift = with_it.manifest["similarity"]["passages"]["prose"]
    for new, old, (cosine,) in zip(
        with_it.evaluate(pairs), plain.evaluate(pairs), near, strict=True
    ):
        logit = slope * 2 * math.atanh(old) + weight * float(cosine) + shift
        assert new == pytest.approx(math.tanh(logit / 2), abs=1e-4)
    assert plain.evaluate(pairs[:1]) == pytest.approx([0.9945030], abs=1e-4)  # as it was
    assert (with_it.name, plain.name) == ("fitrag-minilm-6", "fitrag-minilm-5")
    assert with_it.thresholds.model == with_it.name and plain.thresholds.model == plain.name
    for one in (with_it, plain):
        other = RetrievalEvaluator.embedded(device="cpu", similarity=one.similarity)
        assert (other.name, other.thresholds) == (one.name, one.thresholds)
        other.unload()


def test_torch_reads_the_whole_numbers_that_the_graph_multiplies():
    for name in ("trunk", "base"):
        folder = embedded_folder(name)
        entry = read_manifest(folder, "encoder.json", kind="encoder")["tuned"]
        arrays = read_arrays(folder, entry)
        trunk, tokenizer = load_encoder(folder)
        layer = "encoder.layer.3.attention.self.query"
        weight = dict(trunk.encoder.named_parameters())[f"{layer}.weight"].detach().numpy()
        whole, scale = arrays[f"{layer}.weight"], arrays[f"{layer}.scale"]
        assert whole.dtype == np.int8 and abs(whole).max() == 63
        assert weight == pytest.approx(whole * scale, abs=1e-7)
        assert unscaled(arrays)[f"{layer}.weight"] == pytest.approx(weight, abs=1e-7)
        assert tokenizer.max_length == 384


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_fork_scores_as_its_parent(scorer):
    wanted = [one.has_answer for one in scorer.score([item[:2] for item in ITEMS])]
    home = multiprocessing.get_context("fork")
    ends, other = home.Pipe()

    def work():
        forget(scorer._engine)
        other.send([one.has_answer for one in scorer.score([item[:2] for item in ITEMS])])

    child = home.Process(target=work)
    child.start()
    assert ends.poll(60)
    found = ends.recv()
    child.join()
    assert found == pytest.approx(wanted, abs=1e-5)
