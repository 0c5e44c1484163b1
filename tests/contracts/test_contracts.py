"""The checks third parties run: ours pass them, and what is broken on purpose does not."""

import importlib
import itertools
import random
from functools import cache

import pytest
from closed_book import GATE

from contracts import (
    PASSAGES,
    ContractError,
    compressor_checks,
    evaluator_checks,
    gate_checks,
    method_checks,
    retriever_checks,
    scorer_checks,
)
from fitrag_integrations.methods import ActionThresholds, Crag, FitRag, IKnow
from fitrag_integrations.methods.baselines import GenRead, Vanilla
from fitrag_integrations.methods.fitrag.functional import compress
from fitrag_integrations.retrieval import FaissIndex
from fitrag_integrations.retrieval.index import IndexRetriever
from fitrag_integrations.types import BiLabelScore, Context, Excerpt


class Overlap:
    """Score by shared words: a third party's scorer, evaluator and gate at once."""

    name = "overlap-1"
    threshold = 0.5

    def score(self, pairs):
        return [BiLabelScore(self._share(q, p.text)) for q, p in pairs]

    def evaluate(self, pairs):
        return [2 * self._share(q, p.text) - 1 for q, p in pairs]

    def p_known(self, questions, drafts):
        return [self._share(q, d) for q, d in zip(questions, drafts, strict=True)]

    def _share(self, question, text):
        words = question.lower().split()
        return sum(word in text.lower() for word in words) / len(words)


@cache
def embedded(kind):
    """Open an embedded model of torch once for all its checks, or skip."""
    pytest.importorskip("torch")
    return getattr(importlib.import_module("fitrag_integrations.models"), kind).embedded()


@cache
def ik_gate():
    pytest.importorskip("torch")
    return importlib.import_module("fitrag_integrations.models").IKClassifier.from_pretrained(GATE)


@cache
def embedded_index():
    pytest.importorskip("torch")
    index = FaissIndex()
    index.add(PASSAGES)
    return IndexRetriever(index, 3)


def sentences_of(scorer):
    return lambda question, passages: compress(question, passages, scorer=scorer)


OURS = [
    *scorer_checks(Overlap),
    *evaluator_checks(Overlap),
    *gate_checks(Overlap),
    *scorer_checks(lambda: embedded("BiLabelScorer")),
    *evaluator_checks(lambda: embedded("RetrievalEvaluator")),
    *gate_checks(ik_gate),
    *retriever_checks(embedded_index),
    *compressor_checks(lambda: sentences_of(Overlap())),
    *compressor_checks(lambda: sentences_of(embedded("BiLabelScorer"))),
    *method_checks(lambda: FitRag(Overlap())),
    *method_checks(lambda: FitRag(Overlap(), gate=Overlap())),
    *method_checks(lambda: Crag(Overlap(), thresholds=ActionThresholds(0.3, -0.3))),
    *method_checks(lambda: IKnow(Overlap())),
    *method_checks(Vanilla),
    *method_checks(GenRead),
]


@pytest.mark.parametrize("check", OURS, ids=[f"{at}-{check}" for at, check in enumerate(OURS)])
def test_ours_keep_their_promises(check):
    check()


class Shuffled(Overlap):
    """Answers by length, as batching by length does when nobody puts the answers back."""

    def score(self, pairs):
        return super().score(sorted(pairs, key=lambda pair: len(pair[1].text)))


class Dropout(Overlap):
    """Was never put into eval mode."""

    def __init__(self):
        self.noise = random.Random(7)

    def score(self, pairs):
        return [
            BiLabelScore(min(1, s.has_answer * self.noise.uniform(0.8, 1)))
            for s in super().score(pairs)
        ]


class Leaking(Overlap):
    """Lets the longest of a batch, to which all are padded, into everybody's score."""

    def score(self, pairs):
        longest = max((len(p.text) for _, p in pairs), default=1)
        given = zip(super().score(pairs), pairs, strict=True)
        return [BiLabelScore(s.has_answer * len(p.text) / longest) for s, (_, p) in given]


class Short(Overlap):
    def score(self, pairs):
        return super().score(pairs)[:10]


class Nameless(Overlap):
    name = None


class Sorting(Overlap):
    def score(self, pairs):
        pairs.sort(key=str)
        return super().score(pairs)


@pytest.mark.parametrize(
    ("broken", "caught"),
    [
        (Shuffled, "answers_alone_as_in_a_batch"),
        (Dropout, "repeats_itself"),
        (Leaking, "answers_alone_as_in_a_batch"),
        (Short, "gives_one_valid_answer_each"),
        (Nameless, "carries_a_name"),
        (Sorting, "changes_no_input"),
    ],
)
def test_a_broken_scorer_is_caught_by_the_check_that_names_it(broken, caught):
    (check,) = (check for check in scorer_checks(broken) if check.name == caught)
    with pytest.raises(ContractError):
        check()


def test_a_broken_gate_evaluator_and_retriever_are_caught():
    class Unsure(Overlap):
        def p_known(self, questions, drafts):
            return [1.2] * len(questions)

        def evaluate(self, pairs):
            return [float("nan")] * len(pairs)

        def retrieve(self, queries):
            return [[PASSAGES[0], PASSAGES[0]] for _ in queries]

    for checks in (gate_checks(Unsure), evaluator_checks(Unsure), retriever_checks(Unsure)):
        (check,) = (check for check in checks if check.name == "gives_one_valid_answer_each")
        with pytest.raises(ContractError, match="not in|two passages of one id"):
            check()


def test_a_broken_compressor_is_caught():
    def invents(question, passages):
        return [Excerpt(type(p)(p.id, p.text.upper()), 0, 1) for p in passages]

    def repeats(question, passages):
        return [Excerpt.whole(p) for p in passages for _ in range(2)]

    for broken in (invents, repeats):
        with pytest.raises(ContractError):
            for check in compressor_checks(lambda broken=broken: broken):
                check()


def test_a_broken_method_is_caught():
    seen = itertools.count()

    def forgets(question, ports):
        (found,) = yield from ports.retrieve.ask([question])
        return Context(question or "?", tuple(map(Excerpt.whole, found[: 1 + next(seen) % 2])))

    with pytest.raises(ContractError):
        for check in method_checks(lambda: forgets):
            check()
