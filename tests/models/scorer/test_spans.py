"""What a chunk's states say about spans of it, by hand; and which tokens a span is."""

import math

import numpy as np
import pytest
import torch
from tiny import encoded_pair, tokenizer_of

from fitrag_integrations import Passage
from fitrag_integrations.models.bundled import Read, sentence_numbers
from fitrag_integrations.models.encoder.items import chunk_spans, token_ranges
from fitrag_integrations.models.encoder.pairs import Batch, EncodedPair
from fitrag_integrations.models.scorer import spans
from fitrag_integrations.models.scorer.spans import COUNT, NOTHING, span_evidence

# question tokens 1 2; passage tokens 3 1 4, one character each
CHUNK = encoded_pair(
    [0, 1, 2, 0, 3, 1, 4, 0],
    [0, 1, 1, 0, 2, 2, 2, 0],
    [None, None, None, None, (0, 1), (1, 2), (2, 3), None],
)
STATES = torch.tensor(
    [[9, 9], [1, 0], [0, 2], [9, 9], [3, 4], [1, 0], [0, 1], [9, 9]], dtype=torch.float32
)
ANSWERS = torch.tensor([[9.0, 9], [9, 9], [9, 9], [9, 9], [1, -5], [0, 2], [-1, 4], [9, 9]])
RARITY = torch.tensor([0.0, 3.0, 1.0, 1.0, 1.0])
NAMES = ["near_rare", "near", "same_rare", "same", "best", "behind", "starts", "ends"]
NAMES += ["length", "share", "first", "last"]


def of_one(ranges, rarity=RARITY, chunk=CHUNK, states=STATES, answers=ANSWERS):
    return span_evidence(states[None], answers[None], Batch.of([chunk]), [ranges], rarity)


def measured(spans, rarity=RARITY):
    ranges = token_ranges(CHUNK, spans)
    evidence = of_one(ranges, rarity)
    assert evidence.numbers.shape == (len(spans), COUNT)
    rows = [dict(zip(NAMES, row, strict=True)) for row in evidence.numbers.tolist()]
    return evidence.means.tolist(), rows


def test_a_span_by_hand():
    means, (first, last) = measured([(0, 1), (1, 3)])
    assert means == [[3, 4], [0.5, 0.5]]
    assert first["near"] == pytest.approx((0.6 + 0.8) / 2)
    assert first["near_rare"] == pytest.approx((3 * 0.6 + 1 * 0.8) / 4)
    assert (first["same"], first["same_rare"]) == (0, 0)
    assert last["near"] == pytest.approx(1)
    assert (last["same"], last["same_rare"]) == (0.5, 0.75)
    assert first["length"] == pytest.approx(math.log(2) / 5)
    assert last["share"] == pytest.approx(2 / 3)
    assert (last["first"], last["last"]) == pytest.approx((5 / 8, 7 / 8))


def test_the_best_answer_begins_and_ends_inside_the_span():
    _, (first, second, both) = measured([(0, 1), (1, 2), (0, 3)])
    assert first["best"] == 1 - 5  # its own end, not the far better ones behind it
    assert second["best"] == 0 + 2
    assert (both["best"], both["behind"]) == (1 + 4, 0)
    assert first["behind"] == -4 - 5
    total = math.log(math.exp(1) + math.exp(0) + math.exp(-1))
    assert first["starts"] == pytest.approx(1 - total)
    assert both["ends"] == pytest.approx(0, abs=1e-6)


def test_without_rarity_all_tokens_weigh_alike():
    _, (row,) = measured([(0, 3)], rarity=None)
    assert row["near_rare"] == row["near"] and row["same_rare"] == row["same"]


def test_a_span_without_tokens_has_nothing():
    evidence = of_one([(0, 0)])
    assert evidence.means.tolist() == [[0, 0]]
    row = dict(zip(NAMES, evidence.numbers[0].tolist(), strict=True))
    assert row["near"] == row["same"] == row["share"] == 0
    assert row["best"] == row["starts"] == row["ends"] == NOTHING
    assert all(map(math.isfinite, row.values()))
    none = of_one([])
    assert none.means.shape == (0, 2) and none.numbers.shape == (0, COUNT)


def test_a_chunk_without_question_or_text_has_finite_numbers():
    chunk = encoded_pair([0, 0], [0, 0], [None, None])
    evidence = of_one([(0, 0)], RARITY, chunk, torch.ones(2, 2), torch.ones(2, 2))
    assert evidence.numbers.isfinite().all()


@pytest.mark.parametrize("held", [spans.HELD, 1])
def test_chunks_of_a_batch_are_measured_as_each_alone(monkeypatch, held):
    monkeypatch.setattr(spans, "HELD", held)
    short = EncodedPair(CHUNK.tokens[:, 1:-2])
    ranges = [[(4, 6), (5, 7), (6, 7)], [], [(3, 5)]]
    states = torch.stack([STATES, STATES, torch.roll(STATES, -1, 0)])
    answers = torch.stack([ANSWERS, ANSWERS, torch.roll(ANSWERS, -1, 0)])
    batch = Batch.of([CHUNK, CHUNK, short])
    found = span_evidence(states, answers, batch, ranges, RARITY)
    alone = of_one(ranges[0]), of_one(ranges[2], RARITY, short, states[2, :5], answers[2, :5])
    torch.testing.assert_close(found.means, torch.cat([each.means for each in alone]))
    torch.testing.assert_close(found.numbers, torch.cat([each.numbers for each in alone]))


def test_ranges_touch_their_characters(base):
    passage = Passage("", "the king wrote a score. in rome the film ended.", "film")
    (chunk,) = tokenizer_of(base).encode([("who", passage)])[0]
    spans = [(0, 23), (24, 47), (4, 8), (5, 7)]
    for (start, end), (first, last) in zip(spans, token_ranges(chunk, spans), strict=True):
        places = [chunk.offsets[i] for i in range(first, last)]
        assert places[0][0] <= start < places[0][1] and places[-1][0] < end <= places[-1][1]
    assert token_ranges(chunk, [(23, 24)]) == [(0, 0)]  # a blank


def test_a_span_is_judged_where_most_of_it_is_and_a_long_passage_costs_its_chunks(base):
    text = "the king wrote a score.   in rome the film ended. " * 200
    chunks = tokenizer_of(base).encode([("who", Passage("", text, "film"))])[0]
    spans = [(at, at + 23) for at in range(0, len(text), 50)] + [(23, 26), (0, len(text))]
    found = chunk_spans(chunks, spans)
    assert len(chunks) > 9 and len(found) == len(chunks)
    ranges = [token_ranges(chunk, spans) for chunk in chunks]
    counts = np.array([[end - first for first, end in each] for each in ranges])
    for n, (which, own) in enumerate(found):
        assert own == [ranges[n][span] for span in which.tolist()]
        most = np.flatnonzero((counts[n] == counts.max(0)) & (counts[n] > 0)).tolist()
        assert sorted(which.tolist()) == sorted(most + [len(spans) - 2] * (n == 0))
    assert sum(len(which) for which, _ in found) < 2 * len(spans)


def test_what_is_worth_keeping_is_measured_where_it_is_marked():
    keep = torch.tensor([[9.0], [9], [9], [9], [1.0], [4.0], [2.0], [9]])
    ranges = token_ranges(CHUNK, [(0, 1), (1, 3)])
    evidence = of_one(ranges, answers=torch.cat([ANSWERS, keep], dim=1))
    assert evidence.numbers[:, COUNT:].tolist() == [[1, 1], [3, 4]]


@pytest.mark.parametrize("seed", range(6))
def test_numbers_of_bundled_sentences_are_those_of_the_torch_head(seed):
    chance = np.random.default_rng(seed)
    answers = torch.from_numpy(chance.normal(size=(8, 3)).astype(np.float32) * 3)
    ranges = [(4, 5), (5, 7), (4, 7), (0, 0), (2, 6)]
    numbers = of_one(ranges, answers=answers).numbers
    wanted = torch.stack(
        [*numbers[:, 12:14].T, *numbers[:, 4:6].T / 5, numbers[:, 8]], dim=1
    ).numpy()
    whole = np.array([0.3, -1.2, 0, 0], dtype=np.float32)
    found = sentence_numbers(Read(whole, answers.numpy()), CHUNK.tokens[3] >= 0, ranges)
    assert found[:, [0, 1, 2, 3, 6]] == pytest.approx(wanted, abs=1e-5)
    assert found[:, 4:6] == pytest.approx(np.tile(whole[:2], (len(ranges), 1)))
