"""Retrievers of both frameworks find, note and ask the same, in every way of asking."""

import pytest
from decision_fakes import OverlapEvaluator, PageSearch
from fakes import QUESTIONS, EnoughOf, FixedGate, OverlapScorer
from frameworks import BOTH, told
from round_fakes import Judge, Proxy, Rewriter, Writer

from fitrag_integrations.methods import Crag, FitRag
from fitrag_integrations.methods.crag.evaluator import ActionThresholds

ASKED = (
    *QUESTIONS,
    "Who baked bread for the emperor?",
    "When does the ferry to Corran Head leave?",
)


def fitrag(each, scorer=None, **options):
    return each.ours.FitRagRetriever(base=each.base(), scorer=scorer or OverlapScorer(), **options)


def corrective(each, evaluator=None, **options):
    given = {"base": each.base(), "evaluator": evaluator or OverlapEvaluator()}
    return each.ours.CorrectiveRetriever(**given, search=PageSearch(), **options)


def web(each, search=None, **options):
    return each.ours.WebSearchRetriever(search=search or PageSearch(), **options)


def slimplm(each, judge=None, **options):
    given = {"base": each.base(), "proxy": Proxy(), "rewriter": Rewriter()}
    return each.ours.SlimPLMRetriever(judge=judge or Judge(), **given, **options)


def itrg(each, llm=None, **options):
    llm = llm or Writer()
    llm = llm.runnable() if each is BOTH[0] else llm
    return each.ours.ITRGRetriever(base=each.base(), llm=llm, rounds=3, **options)


def general(each, make, **options):
    """Make a retriever of the method itself, where there is one."""
    kinds = {fitrag: (FitRag, OverlapScorer, {})}
    kinds[corrective] = (Crag, OverlapEvaluator, {"search": PageSearch()})
    method, model, given = kinds[make]
    made = method(model(), **options)
    return each.ours.MethodRetriever(base=each.base(), method=made, **given)


SETTINGS = {
    fitrag: [
        {},
        {"top_n": 2, "window": 1},
        {"max_tokens": 60},
        {"weight": 0.0, "window": 2},
        {"detector": EnoughOf(2)},
        {"gate": FixedGate(0.25)},
        {"gate": FixedGate(0.75)},
    ],
    corrective: [
        {},
        {"top_n": 1, "sentences": 1},
        {"max_tokens": 40},
        {"strip_threshold": 0.9},
        {"thresholds": ActionThresholds(0.99, -0.99)},
        {"without": ["ambiguous"]},
        {"without": ("refine", "rewrite", "select")},
    ],
    web: [{}, {"rewrite": True}],
    slimplm: [{}, {"k": 1}, {"filter": False}, {"judge_question": False}, {"with_question": True}],
    itrg: [{}, {"mode": "refresh"}, {"k": 2, "stop": "empty"}, {"stop": ("empty", "unchanged")}],
}
COUNTED = {fitrag: OverlapScorer, corrective: OverlapEvaluator, web: PageSearch}
COUNTED |= {slimplm: Judge, itrg: Writer}  # what counts the batches that it is asked


@pytest.mark.parametrize(
    ("make", "settings"),
    [(make, settings) for make, rows in SETTINGS.items() for settings in rows],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
async def test_both_frameworks_find_note_and_ask_the_same(make, settings):
    found, batches = [], []
    for each in BOTH:
        found.append([])
        for question in ASKED:
            pieces, context = await each.in_every_way(make(each, **settings), question)
            if make in (fitrag, corrective):
                whole = general(each, make, **settings)
                assert each.pieces(each.ask(whole, question)) == pieces
            skipped = make is slimplm and question == ASKED[0] and "judge_question" not in settings
            skipped |= getattr(settings.get("gate"), "probability", 0) > 0.5
            assert bool(pieces) is not skipped or make is corrective
            noted = (context.action, context.queries, context.notes, context.details)
            shown = told(pieces) if make is not web else [piece.told()[2:] for piece in pieces]
            found[-1].append((shown, *noted))
        counted = COUNTED[make]()
        many = each.many(make(each, counted, **settings), ASKED)
        if make is not web:
            assert [told(each.pieces(one)) for one in many] == [pieces for pieces, *_ in found[-1]]
        batches.append(getattr(counted, "batches", None) or counted.calls)
    assert found[0] == found[1]
    assert batches[0] == batches[1]
