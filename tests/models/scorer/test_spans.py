"""What a chunk's logits say about spans of it, by hand; and which tokens a span is."""

import math

import numpy as np
import pytest
from tiny import tokenizer_of

from fitrag_integrations import Passage
from fitrag_integrations.models.encoder.items import NOTHING, chunk_spans, token_ranges
from fitrag_integrations.models.encoder.sentences import Read, sentence_numbers

# eight tokens, of which those from the fourth to the sixth are the text: start, end, keep
TOKENS = np.array(
    [[9, 9, 9]] * 4 + [[1, -5, 1], [0, 2, 4], [-1, 4, 2], [9, 9, 9]], dtype=np.float32
)
TEXT = np.array([0, 0, 0, 0, 1, 1, 1, 0], dtype=bool)
NAMES = ["mean", "most", "best", "behind", "has_answer", "llm_prefer", "length"]


def measured(*spans, text=TEXT, tokens=TOKENS):
    labels = np.array([0.3, -1.2, 0, 0], dtype=np.float32)
    numbers = sentence_numbers(Read(labels, tokens), text, spans)
    assert numbers.shape == (len(spans), 7) and np.isfinite(numbers).all()
    return [dict(zip(NAMES, row, strict=True)) for row in numbers.tolist()]


def test_a_span_by_hand():
    first, both = measured((4, 5), (5, 7))
    assert first["mean"] == first["most"] == 1
    assert (both["mean"], both["most"]) == (3, 4)
    assert first["length"] == pytest.approx(math.log(2) / 5)
    assert both["length"] == pytest.approx(math.log(3) / 5)
    assert (first["has_answer"], first["llm_prefer"]) == pytest.approx((0.3, -1.2))


def test_the_best_answer_begins_and_ends_inside_the_span():
    first, second, both = measured((4, 5), (5, 6), (4, 7))
    assert first["best"] == pytest.approx((1 - 5) / 5)  # not the far better ends behind it
    assert second["best"] == pytest.approx((0 + 2) / 5)
    assert (both["best"], both["behind"]) == (1, 0)
    assert first["behind"] == pytest.approx((-4 - 5) / 5)


def test_an_answer_has_at_most_24_tokens():
    tokens = np.zeros((40, 3), dtype=np.float32)
    tokens[2, 0], tokens[25, 1], tokens[26, 1] = 5, 3, 9
    row, _ = measured((0, 40), (0, 1), text=np.ones(40, dtype=bool), tokens=tokens)
    assert row["best"] == pytest.approx(9 / 5)  # 0 + 9, or 5 + 3 for 24 tokens; not 5 + 9


def test_a_span_or_a_chunk_without_text_has_nothing():
    (nowhere,) = measured((0, 0))
    assert (nowhere["best"], nowhere["mean"], nowhere["length"]) == (NOTHING / 5, 0, 0)
    (row, _) = measured((0, 0), (1, 3), text=np.zeros(8, dtype=bool))
    assert (row["best"], row["behind"]) == (NOTHING / 5, 0)
    assert measured() == []


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
