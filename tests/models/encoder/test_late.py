"""Late interaction over token vectors chosen by hand, and over tiny checkpoints."""

import math

import pytest
import torch
from tiny import PAIRS, encoded, tokenizer_of
from torch import nn

from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.late import LATE_COUNT, LateInteraction, _apart
from fitrag_integrations.models.encoder.lexical import LEXICAL_COUNT, lexical_features
from fitrag_integrations.models.encoder.pairs import Batch

VECTORS = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 4.0], [-2.0, 0.0]]
RARITY = [0.0, 3.0, 1.0, 1.0, 1.0]


class Table(nn.Module):
    """Stand for an encoder whose states are one fixed vector per token id."""

    def __init__(self):
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(torch.tensor(VECTORS))

    def forward(self, ids, mask, types):
        return self.vectors(ids)


@pytest.fixture
def table():
    return LateInteraction(Table(), RARITY, pad_id=0, budget=8)


def late(interaction, pairs):
    """Return the late numbers alone, after checking that the lexical ones precede them."""
    found = interaction.features(pairs)
    words = torch.tensor(lexical_features(Batch.of(pairs), interaction.rarity)).float()
    assert found[:, :LEXICAL_COUNT].equal(words)
    return found[:, LEXICAL_COUNT:].tolist()


def test_a_pair_by_hand(table):
    # question: [0] 1 2 [0], mean (3, 1) / 4; passage: [0] 3 [0], mean (5, 4) / 3
    ((cosine, plain, weighed),) = late(table, [encoded([1, 2], [3])])
    assert cosine == pytest.approx((3 * 5 + 1 * 4) / math.sqrt((9 + 1) * (25 + 16)))
    assert plain == pytest.approx((0.6 + 0.8) / 2)
    assert weighed == pytest.approx((3 * 0.6 + 1 * 0.8) / 4)


def test_each_question_token_takes_its_best_match(table):
    ((_, plain, weighed),) = late(table, [encoded([1, 2], [4, 3, 1])])
    assert (plain, weighed) == pytest.approx(((1 + 0.8) / 2, (3 * 1 + 1 * 0.8) / 4))
    ((_, opposite, _),) = late(table, [encoded([1], [4])])
    assert opposite == pytest.approx(-1)


@pytest.mark.parametrize(("question", "passage"), [([], [3]), ([1], []), ([], [])])
def test_without_tokens_there_is_no_match(table, question, passage):
    ((cosine, *matches),) = late(table, [encoded(question, passage)])
    assert matches == [0, 0] and -1 <= cosine <= 1 + 1e-6


def test_tokens_without_rarity_weigh_nothing():
    weightless = LateInteraction(Table(), [0.0] * 5, pad_id=0)
    assert late(weightless, [encoded([1], [1])])[0][1:] == [pytest.approx(1), 0]


def test_features_are_in_range_whatever_the_order_and_the_budget(base):
    trunk, tokenizer = load_base(base)
    chunks = [c for group in tokenizer_of(base).encode(PAIRS) for c in group]
    rarity = [1.0 + i % 3 for i in range(len(tokenizer))]
    one, many = (LateInteraction(trunk, rarity, pad_id=0, budget=b) for b in (1, 4096))
    expected = one.features(chunks)
    found = many.features(chunks[::-1]).flip(0)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert expected[:, LEXICAL_COUNT:].abs().max() <= 1 + 1e-5
    assert many.features([]).shape == (0, LATE_COUNT)


def test_a_passage_is_read_apart_from_the_question(base):
    (king,), (river,) = tokenizer_of(base).encode([("king", PAIRS[0][1]), ("river", PAIRS[0][1])])
    (_, who, one), (_, where, other) = _apart(king), _apart(river)
    assert one == other and who != where
