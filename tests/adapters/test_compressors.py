"""The reranker and the sub-document compressor in both frameworks, sync and async."""

import copy
import threading

import pytest
from fakes import (
    PASSAGES,
    QUESTIONS,
    HasAnswerScorer,
    OverlapScorer,
    StrictScorer,
    SyncOverlapScorer,
    labels,
)
from frameworks import BOTH, told

from fitrag_integrations.methods.fitrag.functional import compress, rerank
from fitrag_integrations.types import Passage

QUESTION = QUESTIONS[0]
KINDS = ("BiLabelReranker", "SubDocumentCompressor")
ODD = ["", " ", "nul \x00 inside.", "שלום עולם. زر.", "🙂 one. two.", "no end", "a\ud800b"]
kinds = pytest.mark.parametrize("kind", KINDS)


def made(framework, kind, scorer=None, **settings):
    return getattr(framework.ours, kind)(scorer=scorer or OverlapScorer(), **settings)


def passages(texts):
    return [Passage(f"p{n}", text) for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("BiLabelReranker", {"top_n": 3}),
        ("BiLabelReranker", {"top_n": None, "weight": 0.0}),
        ("BiLabelReranker", {"weight": 1.0}),
        ("SubDocumentCompressor", {}),
        ("SubDocumentCompressor", {"max_tokens": 60, "window": 1}),
        ("SubDocumentCompressor", {"weight": 0.0, "window": 2}),
    ],
)
async def test_both_frameworks_keep_what_the_functions_keep(kind, settings):
    found = [await each.kept(made(each, kind, **settings), QUESTION) for each in BOTH]
    places = [[(piece.text, *piece.told()[2:]) for piece in pieces] for pieces in found]
    assert places[0] == places[1]
    flow = {"BiLabelReranker": rerank, "SubDocumentCompressor": compress}[kind]
    texts = [
        {"text": each.text, "metadata": {"title": each.title, "source": each.source}}
        for each in PASSAGES
    ]
    expected = flow(QUESTION, texts, scorer=OverlapScorer(), **settings)
    pieces = [(piece.text, piece.metadata["raw_score"]) for piece in found[0]]
    assert pieces == [(excerpt.text, excerpt.score) for excerpt in expected]


async def test_the_reranker_keeps_the_best_by_both_labels(framework):
    reranker = made(framework, "BiLabelReranker", top_n=2)
    found = await framework.kept(reranker, QUESTION)
    scores = {p.id: labels(QUESTION, p).relevance(0.5) for p in PASSAGES}
    best = sorted(scores, key=scores.get, reverse=True)[:2]
    assert [piece.id for piece in found] == best
    for name in ("raw_score", "relevance_score"):
        assert [piece.metadata[name] for piece in found] == [scores[each] for each in best]
    first = found[0].metadata
    assert (first["fitrag"], first["source_start"]) == ("rerank", 0)
    assert first["source_end"] == len(PASSAGES[0].text)
    assert (first["source_id"], first["retrieval_score"]) == ("amarcord", 0.5)
    last = framework.keep(reranker, framework.given(), QUESTION)
    assert framework.context(reranker, last).details == {
        **{"weight": 0.5, "prior": 0.0, "top_n": 2, "min_score": 0.0},
        **{"scored": len(PASSAGES), "reranked": 2},
    }


async def test_the_compressor_gives_true_places_within_the_budget(framework):
    compressor = made(framework, "SubDocumentCompressor", max_tokens=60, window=1)
    found = await framework.kept(compressor, QUESTION)
    sources = {passage.id: passage for passage in PASSAGES}
    assert found[0].text == "Nino Rota wrote the score of the film."
    for piece in found:
        source = sources[piece.metadata["source_id"]]
        assert source.text[piece.start : piece.start + len(piece.text)] == piece.text
    assert len(found) < len(sources)
    last = framework.keep(compressor, framework.given(), QUESTION)
    assert "left out by max_tokens=60" in framework.context(compressor, last).notes[0]


@kinds
async def test_what_is_given_stays_as_it_is_and_its_metadata_is_kept(framework, kind):
    given = framework.given()
    before = copy.deepcopy(given)
    found = await framework.kept(made(framework, kind), QUESTION, given)
    assert given == before
    originals = {passage.id: passage for passage in PASSAGES}
    for piece in found:
        assert originals[piece.metadata["source_id"]].metadata.items() <= piece.metadata.items()


class AsyncOnlyScorer:
    async def __call__(self, pairs):
        return [labels(question, passage) for question, passage in pairs]


@kinds
async def test_every_kind_of_scorer_serves(framework, kind):
    expected = await framework.kept(made(framework, kind), QUESTION)
    twin, plain = OverlapScorer(), SyncOverlapScorer()
    for scorer in (twin, plain, AsyncOnlyScorer()):
        given = framework.given()
        found = await framework.akeep(made(framework, kind, scorer), given, QUESTION)
        assert framework.pieces(found) == expected
    assert twin.async_batches == twin.batches
    assert plain.calls == 1 and threading.get_ident() not in plain.threads
    assert await framework.kept(made(framework, kind, HasAnswerScorer()), QUESTION)


@kinds
async def test_odd_texts_pass_and_blank_ones_do_not_come_back(framework, kind):
    compressor = made(framework, kind, StrictScorer())
    found = await framework.kept(compressor, QUESTION, framework.given(passages(ODD)))
    assert {piece.text for piece in found} == set(ODD) - {"", " "}
    assert await framework.kept(compressor, QUESTION, framework.given(passages(["\n"]))) == []
    expected = await framework.kept(compressor, QUESTION)
    blank = Passage("blank", " \n")
    among = framework.given([blank, *PASSAGES, blank])
    assert told(await framework.kept(compressor, QUESTION, among)) == told(expected)


async def test_repeated_ids_do_not_mix_texts(framework):
    given = framework.given([Passage("same", passage.text) for passage in PASSAGES[:3]])
    for kind, settings in zip(KINDS, ({}, {"max_share": None}), strict=True):
        found = await framework.kept(made(framework, kind, **settings), QUESTION, given)
        assert len(found) == 3
        assert all(any(p.text in one.text for one in PASSAGES[:3]) for p in found)
    assert len({piece.id for piece in found}) == 3


async def test_a_piece_has_an_id_of_its_own_that_is_always_the_same(framework):
    compressor = made(framework, "SubDocumentCompressor", window=1)
    ids = [piece.id for piece in await framework.kept(compressor, QUESTION)]
    assert len(set(ids)) == len(ids)
    assert not {passage.id for passage in PASSAGES} & set(ids)
    assert [piece.id for piece in await framework.kept(compressor, QUESTION)] == ids
