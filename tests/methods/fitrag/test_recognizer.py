"""Equations 12 to 14 by hand, Algorithm 1 with its own gate, and fitting it."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fitrag_integrations.errors import InputError, PortError, ThresholdMismatchError
from fitrag_integrations.flow import arun_many, run, run_many
from fitrag_integrations.methods import FitRag, SelfKnowledgeRecognizer, fit_recognizer
from fitrag_integrations.methods.fitrag.recognizer import RecognizerThresholds
from fitrag_integrations.models.bundled import BundledScorer
from fitrag_integrations.ports import Ports, Recognizer
from fitrag_integrations.types import BiLabelScore, Passage

QUESTION = "Who built the bridge?"
CUTS = RecognizerThresholds(2.0, 0.25, 0.5, k=4, rows=8)


class FixedBank:
    """Gate that returns given answers and keeps its questions."""

    def __init__(self, *known, encoder="words"):
        self.known = list(known)
        self.encoder = SimpleNamespace(name=encoder)
        self.calls = []

    def neighbours(self, questions, k):
        self.calls.append((list(questions), k))
        return [self.known[:k] for _ in questions]


class Logits:
    """Score a passage by the number in its text."""

    name = "logits"

    def score(self, pairs):
        return [scored(float(passage.text.split()[0])) for _, passage in pairs]


def scored(*logits):
    labels = [BiLabelScore(0.5, 0.5, logit, 0.0) for logit in logits]
    return labels[0] if len(labels) == 1 else labels


def decided(logits, known, thresholds=CUTS):
    recognizer = SelfKnowledgeRecognizer(FixedBank(*known), thresholds)
    return run(recognizer.decide(QUESTION, scored(*logits))).value


@pytest.mark.parametrize(
    ("logits", "known", "retrieve"),
    [
        ((3.0, 2.5, 0.0, 0.0), (True, True, True, False), False),  # 0.5 > 0.25, 0.75 > 0.5
        ((3.0, 2.0, 0.0, 0.0), (True, True, True, False), True),  # 2.0 is not above: 0.25
        ((3.0, 2.5, 0.0, 0.0), (True, True, False, False), True),  # 0.5 is not above 0.5
        ((0.0, 0.0, 0.0, 0.0), (True, True, True, True), True),
        ((3.0, 2.5, 0.0, 0.0), (True, False, True, True, False, False), False),  # k is 4
    ],
)
def test_the_and_rule(logits, known, retrieve):
    assert decided(logits, known).retrieve is retrieve


def test_the_decision_tells_both_facets():
    decision = decided((3.0, 2.5, 0.0, 0.0), (True, True, False, True))
    assert decision.why == "S_ltod 0.500 > 0.25 and S_nn 0.750 > 0.5"
    assert (decision.p_known, decision.threshold) == (None, None)
    paper = decided((5.0, 0.0), (True,), RecognizerThresholds())
    assert paper.why == (
        "S_ltod 0.500 > 0.04 and S_nn 1.000 > 0.55 "
        "(thresholds not fitted for this scorer and encoder)"
    )


def test_a_score_without_a_logit_and_a_bank_without_neighbours_are_errors():
    recognizer = SelfKnowledgeRecognizer(FixedBank(True), CUTS)
    assert isinstance(recognizer, Recognizer)
    for scores in ([], [BiLabelScore(0.5)]):
        with pytest.raises(InputError, match="has_answer_logit"):
            run(recognizer.decide(QUESTION, scores)).value  # noqa: B018
    with pytest.raises(PortError, match="no neighbour"):
        run(SelfKnowledgeRecognizer(FixedBank(), CUTS).decide("q", scored(1.0, 2.0))).value  # noqa: B018


def test_fitrag_with_its_recognizer_end_to_end():
    bank = FixedBank(True, True, True, False)
    method = FitRag(Logits(), gate=SelfKnowledgeRecognizer(bank, CUTS), top_n=1)
    shelf = {
        "known": [Passage("a", "3 bridges."), Passage("b", "4 bridges.")],
        "unknown": [Passage("c", "0 bridges."), Passage("d", "1 bridge.")],
    }
    ports = Ports(lambda queries: [shelf[query] for query in queries])
    known, unknown = run_many([method(name, ports) for name in shelf])
    assert [step.port for step in known.steps] == ["retrieve", "score", "neighbours"]
    assert known.value.excerpts == () and not known.value.decision.retrieve
    assert unknown.value.excerpts and unknown.value.decision.retrieve
    assert bank.calls == [(["known", "unknown"], 4)]
    assert "do not retrieve: S_ltod 1.000 > 0.25 and S_nn 0.750 > 0.5" in known.explain()
    waiting = asyncio.run(arun_many([method(name, ports) for name in shelf]))
    assert [trace.value for trace in waiting] == [known.value, unknown.value]


def test_thresholds_of_another_scorer_or_encoder_are_refused_unless_allowed():
    fitted = RecognizerThresholds(2.0, 0.2, 0.5, 3, "other", "words", rows=9)
    bank = FixedBank(True, False)
    recognizer = SelfKnowledgeRecognizer(bank, fitted)
    with pytest.raises(ThresholdMismatchError, match="scorer 'other', given 'logits'"):
        FitRag(Logits(), gate=recognizer)
    with pytest.raises(ThresholdMismatchError, match="scorer 'other', given 'mine'"):
        SelfKnowledgeRecognizer(bank, fitted, scorer="mine")
    bundled = BundledScorer.embedded().name
    with pytest.raises(ThresholdMismatchError, match=f"scorer 'other', given '{bundled}'"):
        FitRag(gate=recognizer)  # None is the bundled scorer, which has a name too
    FitRag(gate=SelfKnowledgeRecognizer(bank, replace(fitted, scorer=bundled)))
    FitRag(Logits(), gate=SelfKnowledgeRecognizer(bank, fitted, allow_other_model=True))
    strange = FixedBank(True, encoder="strange")
    with pytest.raises(ThresholdMismatchError, match="encoder 'words', given 'strange'"):
        SelfKnowledgeRecognizer(strange, fitted)
    SelfKnowledgeRecognizer(strange, fitted, allow_other_model=True)


def test_thresholds_come_back_from_plain_values():
    assert RecognizerThresholds.from_dict(json.loads(json.dumps(CUTS.to_dict()))) == CUTS
    for wrong in ({"s_l": 1.5}, {"s_n": -0.1}, {"k": 0}, {"delta": float("nan")}):
        with pytest.raises(InputError, match=f"{next(iter(wrong))}` must be"):
            RecognizerThresholds(**wrong)
    with pytest.raises(InputError, match="bank` must be"):
        SelfKnowledgeRecognizer(lambda questions: questions)


def test_fitting_finds_the_best_accuracy():
    class ByWord:
        """The three nearest of a question that begins with 'easy' were known."""

        encoder = SimpleNamespace(name="words")

        def neighbours(self, questions, k):
            return [[q.startswith("easy")] * min(k, 3) + [True] * (k - 3) for q in questions]

    rows = [
        ("easy one", scored(6.0, 1.0), True),
        ("easy two", scored(5.0, 0.5), True),
        ("easy but rare", scored(1.0, 0.5), False),
        ("hard one", scored(6.0, 1.0), False),
        ("hard two", scored(0.5, 0.0), False),
    ]
    bank = ByWord()
    fitted = fit_recognizer(rows, bank, scorer="logits")
    assert (fitted.accuracy, fitted.rows) == (1.0, 5)
    assert (fitted.scorer, fitted.encoder) == ("logits", "words")
    recognizer = SelfKnowledgeRecognizer(bank, fitted, scorer="logits")
    for question, scores, known in rows:
        assert run(recognizer.decide(question, scores)).value.retrieve is not known
    with pytest.raises(InputError, match="rows"):
        fit_recognizer([], bank)


def test_fitting_agrees_with_trying_every_pair_of_shares():
    import random

    draw = random.Random(3)
    bank = FixedBank(*[draw.random() < 0.5 for _ in range(8)])
    questions = [f"q{n}" for n in range(12)]
    near = {q: [draw.random() < 0.5 for _ in range(8)] for q in questions}
    bank.neighbours = lambda asked, k: [near[q][:k] for q in asked]
    rows = [
        (q, [scored(draw.gauss(0, 2)) for _ in range(6)], draw.random() < 0.5) for q in questions
    ]
    fitted = fit_recognizer(rows, bank, deltas=[-1.0, 0.5], ks=[2, 5])
    best = 0.0
    for delta in (-1.0, 0.5):
        for k in (2, 5):
            for s_l in range(7):
                for s_n in range(11):
                    cuts = RecognizerThresholds(delta, s_l / 6, s_n / 10, k)
                    recognizer = SelfKnowledgeRecognizer(bank, cuts)
                    right = [
                        run(recognizer.decide(q, s)).value.retrieve is not known
                        for q, s, known in rows
                    ]
                    best = max(best, sum(right) / len(right))
    assert fitted.accuracy == pytest.approx(best)
