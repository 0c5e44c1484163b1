"""The losses by hand, and calibration that finds a known temperature."""

import math

import pytest
import torch
from tiny import tokenizer_of
from training_rows import labelled_rows, reading_rows

from fitrag_integrations.evaluation.answers import tokens
from fitrag_integrations.models.encoder.encoders import load_base
from fitrag_integrations.models.encoder.heads import BiLabelHead, ReaderHead
from fitrag_integrations.training.bilabel.module import BiLabelModule, Lists, losses
from fitrag_integrations.training.calibration import fit_temperatures
from fitrag_integrations.training.losses import span_loss
from fitrag_integrations.training.reader import ReaderModule
from fitrag_integrations.training.rows import ReadingRow


def softmax(*logits):
    total = sum(map(math.exp, logits))
    return [math.exp(logit) / total for logit in logits]


def test_the_span_loss_by_hand():
    logits = torch.tensor([[1.0, 0.0], [2.0, 3.0], [0.0, 1.0]])
    start, end = softmax(1, 2, 0), softmax(0, 3, 1)
    one = -math.log(start[0] * end[1]) / 2
    assert float(span_loss(logits, [(0, 1)])) == pytest.approx(one)
    both = -math.log(start[0] * end[1] + start[1] * end[2]) / 2
    assert float(span_loss(logits, [(0, 1), (1, 2)])) == pytest.approx(both)


def test_the_list_loss_on_three_logits_by_hand():
    logits = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    labels = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])  # the second ranks nothing
    share = softmax(1, 2, -1)
    found = losses(logits, labels, [3])
    assert float(found["rank"]) == pytest.approx(0.3 * -math.log(share[0] + share[2]))


def test_cross_entropy_by_hand():
    logits = torch.tensor([[1.0, -2.0]])
    p, q = (1 / (1 + math.exp(-x)) for x in (1, -2))
    found = losses(logits, torch.tensor([[1.0, 0.0]]), [1])
    assert float(found["point"]) == pytest.approx(-(math.log(p) + math.log(1 - q)) / 2)
    assert float(found["rank"]) == 0


def test_what_is_not_known_counts_for_nothing():
    logits = torch.tensor([[1.0, 4.0], [2.0, 5.0]])
    labels = torch.tensor([[1.0, math.nan], [0.0, 1.0]])
    found = losses(logits, labels, [2])
    known = [1 / (1 + math.exp(-x)) for x in (1, -2, 5)]
    assert float(found["point"]) == pytest.approx(-sum(map(math.log, known)) / 3)
    assert float(found["rank"]) == pytest.approx(0.3 * -math.log(softmax(1, 2)[0]))


def test_lists_are_kept_apart():
    logits, labels = torch.randn(5, 2), torch.tensor([[1.0, 0], [0, 1], [0, 0], [1, 1], [0, 0]])
    parts = [float(losses(logits[a:b], labels[a:b], [b - a])["rank"]) for a, b in ((0, 2), (2, 5))]
    whole = losses(logits, labels, [2, 3])["rank"]
    assert float(whole) == pytest.approx(sum(parts) / 2, rel=1e-5)


def reader_module(base):
    trunk, _ = load_base(base)
    return ReaderModule(trunk, ReaderHead(trunk.width), tokenizer_of(base)).eval()


@torch.no_grad()
def test_the_readers_losses_by_hand(base):
    torch.manual_seed(0)
    module, row = reader_module(base), reading_rows()[1]
    passages = (row.passage, *row.negatives)
    groups = [(row, passages), (row, passages[:2])]
    found = module(groups)
    encoded = module._tokenizer.encode_cut([(row.question, p) for p in passages])
    spans, selects = module.logits(encoded)
    inside = [
        i for i, place in enumerate(encoded[0].offsets) if place and 3 <= place[0] < place[1] <= 7
    ]
    s = [float(select) for select in selects]
    log = spans[0].log_softmax(0)
    span = -float(log[inside[0], 0] + log[inside[-1], 1]) / 2
    select = -(math.log(softmax(*s)[0]) + math.log(softmax(*s[:2])[0])) / 2
    signs = [1, -1, -1, 1, -1]
    point = sum(math.log(1 + math.exp(-sign * x)) for sign, x in zip(signs, s + s[:2], strict=True))
    assert float(found["span"]) == pytest.approx(span, abs=1e-5)
    assert float(found["select"]) == pytest.approx(select, abs=1e-5)
    assert float(found["point"]) == pytest.approx(0.5 * point / 5, abs=1e-5)


@pytest.mark.parametrize(("start", "expected"), [(None, ["rome", "rome"]), (9, ["rome"])])
def test_gold_spans_are_the_answers_place_or_all_its_places(bert, start, expected):
    from fitrag_integrations import Passage

    row = ReadingRow("who", ("rome",), Passage("1", "a rome, rome! romes"), start and 8)
    module = reader_module(bert)
    (one,) = module._tokenizer.encode_cut([(row.question, row.passage)])
    gold = module._gold(row, one)
    texts = [row.passage.text[one.offsets[a][0] : one.offsets[b][1]] for a, b in gold]
    assert [tokens(text) for text in texts] == [[word] for word in expected]


@torch.no_grad()
def test_a_group_whose_answer_is_cut_off_has_no_span_loss(bert):
    row = ReadingRow("who", ("nowhere",), reading_rows()[0].passage)
    found = reader_module(bert)([(row, (row.passage,))])
    assert float(found["span"]) == 0 and all(map(torch.isfinite, found.values()))


@torch.no_grad()
def test_scorer_losses_do_not_depend_on_how_pairs_are_batched(base):
    trunk, _ = load_base(base)
    head = BiLabelHead(trunk.width)
    module = BiLabelModule(trunk, head, tokenizer_of(base)).eval()
    given = Lists(labelled_rows(), module.tokenizer)
    whole = given.encoded(range(10))
    pooled, features = module.inputs(whole.pairs)
    assert pooled.shape == (30, 32) and features.shape == (30, 0) and whole.sizes == [3] * 10
    alone = torch.cat([module.inputs(given.encoded([i]).pairs)[0] for i in range(10)])
    torch.testing.assert_close(pooled, alone, atol=1e-5, rtol=0)
    expected = losses(head(pooled, features), given.labels, whole.sizes)
    assert {k: float(v) for k, v in module(whole).items()} == pytest.approx(
        {k: float(v) for k, v in expected.items()}
    )


@pytest.mark.parametrize(("first", "second"), [(2.0, 0.5), (1.0, 4.0)])
def test_a_known_temperature_is_found(first, second):
    generator = torch.Generator().manual_seed(3)
    true = torch.randn(20_000, 2, generator=generator) * 2
    labels = torch.bernoulli(true.sigmoid(), generator=generator)
    logits = torch.cat([true * torch.tensor([first, second]), torch.full((9, 2), 50.0)])
    labels = torch.cat([labels, torch.full((9, 2), math.nan)])  # not known, and so passed over
    found = fit_temperatures(logits, labels)
    assert found == pytest.approx((first, second), rel=0.08)  # grid steps of 2.3%, and sampling


def test_a_label_nobody_knows_is_not_calibrated():
    labels = torch.tensor([[0.0, math.nan], [1.0, math.nan]])
    assert fit_temperatures(torch.tensor([[-9.0, 3.0], [9.0, 3.0]]), labels)[1] == 1.0
