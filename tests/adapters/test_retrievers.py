"""Methods as retrievers in both frameworks: one question, many in lock step, sync and async."""

import importlib

import pytest
from fakes import (
    PASSAGES,
    QUESTIONS,
    FailingScorer,
    FixedGate,
    OverlapRetriever,
    OverlapScorer,
)
from langchain_fakes import OverlapBase
from llama_fakes import NodeRetriever

QUESTION = QUESTIONS[0]
BEST = "Nino Rota wrote the score of the film."


def finding():
    """Import what `fit` retrieves by, which needs torch."""
    pytest.importorskip("torch")
    return importlib.import_module("fitrag_integrations.training.fitted.fitting")


def fitrag(framework, **fields):
    made = {"base": framework.base(), "scorer": OverlapScorer()}
    return framework.ours.FitRagRetriever(**{**made, **fields})


async def test_the_best_windows_come_back(framework):
    made = fitrag(framework, max_tokens=60, window=1)
    pieces, context = await framework.in_every_way(made, QUESTION)
    best = pieces[0]
    assert (best.text, best.start) == (BEST, 65)
    assert best.metadata["source_id"] == "amarcord"
    assert (best.metadata["retrieval_score"], best.metadata["year"]) == (0.5, 1973)
    assert best.metadata["fitrag"] == "fitrag"
    assert not {piece.id for piece in pieces} & {passage.id for passage in PASSAGES}
    assert context.details["max_tokens"] == 60 >= context.details["tokens_out"]


async def test_a_batch_asks_the_scorer_once_for_all_questions(framework):
    scorer = OverlapScorer()
    retriever = fitrag(framework, scorer=scorer, top_n=2)
    alone = [framework.pieces(framework.ask(retriever, question)) for question in QUESTIONS]
    scorer.batches.clear()
    found = framework.many(retriever, QUESTIONS)
    again = await framework.amany(retriever, QUESTIONS)
    assert [*map(framework.pieces, found)] == [*map(framework.pieces, again)] == alone
    assert scorer.calls == 4  # the passages of all questions, then their windows, twice
    assert scorer.batches[0] == 12 and scorer.async_batches == scorer.batches[2:]


@pytest.mark.parametrize("part", ["base", "scorer"])
async def test_a_failing_question_fails_alone(framework, part):
    bad = {"base": framework.base(bad=QUESTIONS[1]), "scorer": FailingScorer(QUESTIONS[1])}[part]
    error = ConnectionError if part == "base" else RuntimeError
    retriever = fitrag(framework, **{part: bad})
    good = framework.pieces(framework.ask(retriever, QUESTION))
    for found in (
        framework.many(retriever, QUESTIONS, return_exceptions=True),
        await framework.amany(retriever, QUESTIONS, return_exceptions=True),
    ):
        assert [isinstance(each, error) for each in found] == [False, True, False]
        assert framework.pieces(found[0]) == good
    with pytest.raises(error):
        framework.many(retriever, QUESTIONS)
    with pytest.raises(error):
        await framework.amany(retriever, QUESTIONS)
    with pytest.raises(error):
        framework.ask(retriever, QUESTIONS[1])
    with pytest.raises(error):
        await framework.aask(retriever, QUESTIONS[1])


async def test_without_a_question_or_a_passage_nothing_is_scored(framework):
    scorer = OverlapScorer()
    nothing = fitrag(framework, base=framework.finding([]), scorer=scorer)
    assert framework.many(nothing, []) == await framework.amany(nothing, []) == []
    assert (await framework.in_every_way(nothing, QUESTION))[0] == []
    assert scorer.calls == 0


async def test_a_gate_that_knows_the_answer_retrieves_nothing(framework):
    gate = FixedGate(0.9)
    never = framework.base(bad=QUESTION)
    pieces, context = await framework.in_every_way(
        fitrag(framework, base=never, gate=gate), QUESTION
    )
    assert pieces == [] and not context.decision.retrieve
    gate.batches.clear()
    framework.many(fitrag(framework, gate=gate), QUESTIONS)
    assert gate.batches == [3]
    assert framework.ask(fitrag(framework, gate=FixedGate(0.1)), QUESTION)


async def test_a_retriever_may_be_the_base_of_another(framework):
    scorer, inner = OverlapScorer(), OverlapScorer()
    base = fitrag(framework, scorer=inner, window=1)
    outer = fitrag(framework, base=base, scorer=scorer, window=1, top_n=1)
    (piece,), _ = await framework.in_every_way(outer, QUESTION)
    assert (piece.text, piece.start, piece.metadata["retrieval_score"]) == (BEST, 65, 0.5)
    scorer.batches.clear(), inner.batches.clear()
    framework.many(outer, QUESTIONS)
    assert (scorer.calls, inner.calls) == (2, 1)


def test_fit_searches_with_the_retrievers_of_both_alike():
    found = [
        finding().finder(retriever, 3)(list(QUESTIONS))
        for retriever in (OverlapBase(), NodeRetriever(), OverlapRetriever())
    ]
    texts = [[[(p.title, p.text) for p in own] for own in each] for each in found]
    assert texts[0] == texts[1] == texts[2]
    assert all(len(own) == 3 for own in found[0])
    called = finding().finder(lambda queries: OverlapRetriever().retrieve(queries), 2)(
        QUESTIONS[:1]
    )
    assert [p.text for p in called[0]] == [p.text for p in found[2][0][:2]]


async def test_the_method_is_built_once_and_anew_where_an_option_is_set(framework):
    class Counting(OverlapScorer):
        looks = 0

        @property
        def score_sentences(self):  # is asked for when the options are settled
            Counting.looks += 1
            raise AttributeError

    for name in ("FitRagRetriever", "SubDocumentCompressor"):
        given = {"base": framework.base()} if name == "FitRagRetriever" else {}
        made = getattr(framework.ours, name)(scorer=Counting(), **given)

        def ask(made=made, name=name):
            if name == "FitRagRetriever":
                return len(framework.pieces(framework.ask(made, QUESTION)))
            return len(framework.pieces(framework.keep(made, framework.given(), QUESTION)))

        every, before = ask(), Counting.looks
        assert [ask(), ask()] == [every, every] and Counting.looks == before
        made.top_n = 1
        assert ask() == 1 < every and Counting.looks > before
        if framework.ours.__name__.endswith("langchain"):  # whose copies share what is private
            assert ask(made.model_copy(update={"top_n": None})) == every and ask() == 1
        if given:
            made.base = framework.base(bad=QUESTION)
            with pytest.raises(ConnectionError):
                ask()
