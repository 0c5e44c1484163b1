"""The heads, with weights set by hand, and the search for the best span."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fitrag_integrations.models.encoder.heads import BiLabelHead, ReaderHead, best_spans

logits = st.integers(-9, 9).map(float)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(logits, logits, st.booleans()), min_size=1, max_size=12), st.integers(1, 5)
)
def test_the_best_span_by_brute_force(rows, max_tokens):
    starts, ends, allowed = zip(*rows, strict=True)
    places = [i for i, ok in enumerate(allowed) if ok]
    spans = [(i, j) for i in places for j in places if i <= j < i + max_tokens]
    expected = max((starts[i] + ends[j] for i, j in spans), default=-math.inf)
    best, first, last = best_spans(
        torch.tensor([starts, ends]).T.unsqueeze(0), torch.tensor([allowed]), max_tokens=max_tokens
    )
    assert best.tolist() == [expected]
    if spans:
        assert (int(first), int(last)) in spans
        assert starts[int(first)] + ends[int(last)] == expected


def test_each_row_has_its_own_span():
    scores = torch.zeros(2, 4, 2)
    scores[0, 1, 0] = scores[0, 2, 1] = scores[1, 3, 0] = scores[1, 3, 1] = 1.0
    best, first, last = best_spans(scores, torch.ones(2, 4, dtype=torch.bool))
    assert (best.tolist(), first.tolist(), last.tolist()) == ([2, 2], [1, 3], [2, 3])


def test_a_span_has_24_tokens_unless_told():
    scores = torch.zeros(1, 40, 2)
    scores[0, 0, 0], scores[0, 23, 1], scores[0, 24, 1] = 5.0, 5.0, 9.0
    best, first, last = best_spans(scores, torch.ones(1, 40, dtype=torch.bool))
    assert (float(best), int(first), int(last)) == (10, 0, 23)


def test_a_bilabel_head_by_hand():
    head = BiLabelHead(2, features=1)
    head.out.weight.data.copy_(torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, -1.0]]))
    head.out.bias.data.copy_(torch.tensor([0.5, 0.0]))
    found = head.eval()(torch.tensor([[1.0, 10.0]]), torch.tensor([[100.0]]))
    assert found.tolist() == [[321.5, -100.0]]


def test_features_are_standardized_by_hand():
    head = BiLabelHead(1, features=2).eval()
    head.out.weight.data.copy_(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    head.out.bias.data.zero_()
    head.standardize(torch.tensor([[1.0, 5.0], [3.0, 5.0], [5.0, 5.0]]))  # deviations 2 and 0
    found = head(torch.zeros(1, 1), torch.tensor([[6.0, 5.0]]))
    assert found.tolist() == [[1.5, 0.0]]
    assert {"shift", "scale"} < head.state_dict().keys()


def test_a_head_without_features_has_nothing_to_standardize():
    head = BiLabelHead(1)
    head.standardize(torch.zeros(3, 0))
    assert head(torch.ones(1, 1), torch.zeros(1, 0)).isfinite().all()


def test_a_hidden_layer_by_hand():
    head = BiLabelHead(1, hidden=1)
    weights = {"hidden.weight": 2.0, "hidden.bias": 1.0, "out.weight": 3.0, "out.bias": 4.0}
    for name, value in weights.items():
        head.get_parameter(name).data.fill_(value)
    expected = 3 * math.tanh(2 * 0.25 + 1) + 4
    found = head.eval()(torch.tensor([[0.25]]), torch.zeros(1, 0))
    assert found[0].tolist() == pytest.approx([expected, expected])


def test_a_reader_head_by_hand():
    head = ReaderHead(2)
    head.span.load_state_dict({"weight": torch.tensor([[1.0, 0], [0, 1.0]]), "bias": torch.ones(2)})
    head.select.load_state_dict({"weight": torch.tensor([[2.0, 3.0]]), "bias": torch.zeros(1)})
    states = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    span, select = head(states, states[:, 0])
    assert span.tolist() == [[[2, 3], [4, 5]]] and select.tolist() == [8]
