"""`fitrag train onepass`, from rows to a scorer that loads; and what it is fitted on."""

import math

import numpy as np
import pytest
import torch
from tiny import make_reader, make_scorer
from training_rows import KINGS
from typer.testing import CliRunner

from fitrag_integrations import Passage
from fitrag_integrations.cli import app
from fitrag_integrations.errors import InputError
from fitrag_integrations.models import BiLabelScorer, OnePassScorer
from fitrag_integrations.models.scorer.spans import SpanHead
from fitrag_integrations.training.one_pass import (
    OnePassModule,
    Spans,
    chunk_rows,
    figures,
    read_rows,
)
from fitrag_integrations.training.rows import judged_row, write_jsonl
from fitrag_integrations.values.windows import windows

RAIN = "The danube ends in the black sea. What a river. The ocean is a sea."


def rows():
    return [
        {
            "question": f"in what year is the film {name}",
            "answers": [str(1950 + n)],
            "passages": [
                {
                    "title": name,
                    "text": f"In {1950 + n} the king wrote {name}. {RAIN} Rome is old.",
                },
                {"title": "", "text": f"{RAIN} Of the king of rome we know a score."},
                {"title": "blank", "text": " "},
            ],
        }
        for n, name in enumerate(KINGS)
    ]


@pytest.fixture
def scorer(bert, tmp_path):
    make_scorer(bert, evidence=True).save_pretrained(tmp_path / "scorer")
    return tmp_path / "scorer"


@pytest.fixture
def read(scorer, tmp_path):
    loaded = BiLabelScorer.from_pretrained(scorer, device="cpu")
    answers = SpanHead(32).answers

    def reading(some=None):
        given = [judged_row(row, labeled=False) for row in some or rows()]
        return read_rows(given, loaded, answers, tmp_path / "cache", window=3, seed=1), loaded

    return reading


def train(*arguments):
    return CliRunner().invoke(app, ["train", "onepass", *map(str, arguments)])


def test_rows_to_a_scorer(scorer, bert, tmp_path):
    make_reader(bert).save_pretrained(tmp_path / "reader")
    write_jsonl(tmp_path / "rows.jsonl", rows())
    out, options = tmp_path / "out", ["--steps", 20, "--hidden", 4, "--reader", tmp_path / "reader"]
    done = train(tmp_path / "rows.jsonl", "--out", out, "--scorer", scorer, *options)
    assert done.exit_code == 0, done.exception
    assert "answer kept by one-pass" in done.stderr
    onepass = OnePassScorer.from_pretrained(out, device="cpu")
    passage = Passage("1", f"In 1950 the king wrote otto. {RAIN}", "otto")
    question = "in what year is the film otto"
    ((label, spans),) = onepass.score_sentences([(question, passage, [(0, 28), (29, 62)])])
    assert len(spans) == 2
    plain = BiLabelScorer.from_pretrained(scorer, device="cpu")
    assert [label] == plain.score([(question, passage)])
    written = [path.stat().st_mtime_ns for path in (out / "run").glob("*.safetensors")]
    again = train(tmp_path / "rows.jsonl", "--out", out, "--scorer", scorer, *options)
    assert again.stderr == done.stderr
    assert [path.stat().st_mtime_ns for path in (out / "run").glob("*.safetensors")] == written


def test_a_scorer_without_spans_needs_a_reader(scorer, tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", rows())
    done = train(tmp_path / "rows.jsonl", "--out", tmp_path / "out", "--scorer", scorer)
    assert isinstance(done.exception, InputError) and "--reader" in str(done.exception)


def test_spans_carry_what_the_scorer_says_of_them(read):
    found, scorer = read()
    assert len(found) == len(KINGS)
    spans = found[0]
    assert spans.passage.unique().tolist() == [0, 1]  # the blank one is left out
    text = rows()[0]["passages"][0]["text"]
    cut = [(one.start, one.end) for one in windows(Passage("", text))]
    own = (spans.passage == 0) & spans.cut
    assert own.sum() == len(cut)
    assert spans.gold[own].tolist() == [float("1950" in text[a:b]) for a, b in cut]
    assert spans.words[own].tolist() == [len(text[a:b].split()) for a, b in cut]
    question, title = rows()[0]["question"], rows()[0]["passages"][0]["title"]
    alone = scorer.score([(question, Passage("", text[a:b], title)) for a, b in cut])
    expected = torch.tensor([[s.has_answer_logit, s.llm_prefer_logit] for s in alone])
    assert torch.allclose(spans.teacher[own], expected, atol=1e-4)


def test_targets_are_the_teachers_halfway_to_the_gold(read):
    (spans,), _ = read(rows()[:1])
    teacher = spans.teacher.sigmoid()
    assert torch.allclose(spans.targets[:, 1], teacher[:, 1])
    assert torch.allclose(spans.targets[:, 0], (teacher[:, 0] + spans.gold) / 2)
    unknown = {name: value for name, value in rows()[0].items() if name != "answers"}
    (spans,), _ = read([unknown])
    assert spans.gold.isnan().all() and torch.allclose(spans.targets, spans.teacher.sigmoid())


def test_a_span_takes_the_first_chunk_that_holds_the_most_of_it():
    zero, one, both = np.array([0]), np.array([1]), np.array([0, 1])
    apart = [(one, [(5, 9)]), (zero, [(2, 5)])]
    tie = [(both, [(1, 2), (2, 3)]), (zero, [(3, 4)])]
    assert chunk_rows([apart, [(zero, [(1, 2)])], [], tie]) == [1, 0, 2, 3, 4]


def made(teacher, gold):
    n = len(teacher)
    return Spans(
        torch.zeros(n, 8),
        torch.zeros(n, 12),
        torch.zeros(n, 8),
        torch.zeros(n, 2),
        torch.tensor([[x, -50.0] for x in teacher]),
        torch.tensor(gold),
        torch.tensor([10] * n),
        torch.tensor([0, 0, 1, 1, 1][:n]),
        torch.tensor([True, True, True, True, False][:n]),
    )


def test_figures_by_hand():
    row = made([2.0, 1.0, 0.0, -1.0, 9.0], [0.0, 1.0, 0.0, 0.0, 1.0])
    logits = torch.tensor([[1.0, -50], [2, -50], [0, -50], [-1, -50], [9, -50]])
    found = figures([logits], [row])
    assert found["same best window"] == 0.5
    assert found["rank correlation"] == pytest.approx(0.8)
    assert found["answer kept by one-pass"] == 1 and found["answer kept by windows"] == 0
    assert found["words kept by one-pass"] == found["words kept by windows"] == 20
    without = figures([logits], [made([2.0, 1.0, 0.0, -1.0, 9.0], [0.0] * 5)])
    assert math.isnan(without["answer kept by windows"])


def test_the_loss_is_least_at_the_targets():
    row = made([2.0, 0.5, -1.0, -2.0, 0.0], [math.nan] * 5)
    head = SpanHead(8, hidden=2)
    module = OnePassModule(head)

    class Told(torch.nn.Module):
        def forward(self, *_):
            return self.logits

    module.head = told = Told()
    wanted = row.targets.logit(eps=1e-4)
    told.logits = wanted
    least = sum(module([row]).values())
    for change in (torch.ones(5, 2), torch.tensor([[1.0, 0], *[[0, 0]] * 4])):
        told.logits = wanted + change
        assert sum(module([row]).values()) > least
