"""The reranker, the sub-document compressor and the cross-encoder."""

import copy
import pickle
from uuid import UUID

import pytest
from fakes import (
    PASSAGES,
    QUESTIONS,
    EnoughOf,
    FailingScorer,
    HasAnswerScorer,
    OverlapScorer,
    StrictScorer,
    SyncOverlapScorer,
    labels,
)
from langchain_core.documents import Document
from langchain_fakes import documents
from pydantic import ValidationError

from fitrag_integrations.errors import InputError
from fitrag_integrations.flow import run
from fitrag_integrations.langchain import (
    BiLabelCrossEncoder,
    BiLabelReranker,
    SubDocumentCompressor,
)
from fitrag_integrations.langchain.base.convert import Documents, to_passages
from fitrag_integrations.methods.fitrag.method import compress, rerank
from fitrag_integrations.methods.fitrag.reducer import score_port

QUESTION = QUESTIONS[0]
COMPRESSORS = (BiLabelReranker, SubDocumentCompressor)


def test_the_reranker_keeps_the_best_by_both_labels():
    found = BiLabelReranker(top_n=2, scorer=OverlapScorer()).compress_documents(
        documents(), QUESTION
    )
    scores = {p.id: labels(QUESTION, p).combine() for p in PASSAGES}
    best = sorted(scores, key=scores.get, reverse=True)[:2]
    assert [document.id for document in found] == best
    assert [document.metadata["raw_score"] for document in found] == [scores[name] for name in best]
    assert [document.metadata["relevance_score"] for document in found] == [
        scores[name] / 2 for name in best
    ]
    told = found[0].metadata
    place = (told["source_start"], told["source_end"])
    assert (told["fitrag"], *place) == ("rerank", 0, len(PASSAGES[0].text))
    assert found.context.details == {"weight": 0.5, "top_n": 2}
    assert (told["source_id"], told["retrieval_score"]) == ("amarcord", 0.75)


def test_the_compressor_gives_true_places_within_the_budget():
    compressor = SubDocumentCompressor(max_tokens=60, window=1, scorer=OverlapScorer())
    found = compressor.compress_documents(documents(), QUESTION)
    sources = {document.id: document for document in documents()}
    assert found[0].page_content == "Nino Rota wrote the score of the film."
    for document in found:
        start = document.metadata["start_index"]
        text = sources[document.metadata["source_id"]].page_content
        assert text[start : start + len(document.page_content)] == document.page_content
    assert len(found) < len(sources)
    assert "left out by max_tokens=60" in found.context.notes[0]


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_they_give_what_the_flows_give(weight):
    scorer = OverlapScorer()
    passages, score = to_passages(documents()), score_port(scorer)
    reranked = BiLabelReranker(top_n=None, weight=weight, scorer=scorer)
    compressed = SubDocumentCompressor(weight=weight, window=2, scorer=scorer)
    for compressor, flow in (
        (reranked, rerank(QUESTION, passages, score, top_n=None, weight=weight)),
        (compressed, compress(QUESTION, passages, score, weight=weight, window=2)),
    ):
        found = compressor.compress_documents(documents(), QUESTION)
        expected = run(flow).value
        assert [d.page_content for d in found] == [e.text for e in expected]
        assert [d.metadata["raw_score"] for d in found] == [e.score for e in expected]


@pytest.mark.parametrize("make", COMPRESSORS)
def test_inputs_are_unchanged_and_metadata_kept(make):
    given = documents()
    before = copy.deepcopy(given)
    found = make(scorer=OverlapScorer()).compress_documents(given, QUESTION)
    assert given == before
    originals = {document.id: document for document in before}
    for document in found:
        original = originals[document.metadata["source_id"]]
        assert original.metadata.items() <= document.metadata.items()


@pytest.mark.parametrize("make", COMPRESSORS)
async def test_nothing_in_nothing_out_and_no_scorer_called(make):
    scorer = OverlapScorer()
    compressor = make(scorer=scorer)
    assert compressor.compress_documents([], QUESTION) == []
    assert await compressor.acompress_documents([], QUESTION) == []
    assert compressor.as_runnable().invoke({"documents": [], "query": QUESTION}) == []
    assert scorer.calls == 0


@pytest.mark.parametrize("make", COMPRESSORS)
@pytest.mark.parametrize("scorer", [OverlapScorer, SyncOverlapScorer, HasAnswerScorer])
async def test_async_equals_sync(make, scorer):
    compressor = make(scorer=scorer())
    expected = compressor.compress_documents(documents(), QUESTION)
    assert await compressor.acompress_documents(documents(), QUESTION) == expected


async def test_async_uses_the_scorers_own_twin():
    scorer = OverlapScorer()
    await BiLabelReranker(scorer=scorer).acompress_documents(documents(), QUESTION)
    assert scorer.async_batches == [6]


@pytest.mark.parametrize("make", COMPRESSORS)
async def test_a_batch_is_one_scorer_call(make):
    scorer = OverlapScorer()
    runnable = make(scorer=scorer).as_runnable()
    inputs = [{"documents": documents(), "query": question} for question in QUESTIONS]
    one_by_one = [runnable.invoke(each) for each in inputs]
    scorer.batches.clear()
    assert runnable.batch(inputs) == one_by_one
    assert scorer.calls == 1
    assert await runnable.abatch(inputs) == one_by_one
    assert scorer.calls == 2
    assert scorer.async_batches


async def test_one_bad_input_of_a_batch_fails_alone():
    runnable = BiLabelReranker(scorer=FailingScorer(QUESTIONS[1])).as_runnable()
    inputs = [{"documents": documents(), "query": question} for question in QUESTIONS]
    inputs.append({"documents": "no list", "query": QUESTION})
    for found in (
        runnable.batch(inputs, return_exceptions=True),
        await runnable.abatch(inputs, return_exceptions=True),
    ):
        kinds = [Documents, RuntimeError, Documents, InputError]
        assert [type(each) for each in found] == kinds
    with pytest.raises(RuntimeError, match="broken"):
        runnable.batch(inputs)


@pytest.mark.parametrize("make", COMPRESSORS)
@pytest.mark.parametrize("query", ["", " \n", None, 5])
def test_a_bad_query_is_told(make, query):
    with pytest.raises(InputError, match="question"):
        make(scorer=OverlapScorer()).compress_documents(documents(), query)


@pytest.mark.parametrize("bad", [["text"], [None], "text", None])
def test_bad_documents_are_told(bad):
    with pytest.raises(InputError, match="documents"):
        BiLabelReranker(scorer=OverlapScorer()).compress_documents(bad, QUESTION)


@pytest.mark.parametrize("bad", [{}, {"query": "q"}, "text", 3])
def test_a_bad_runnable_input_is_told(bad):
    with pytest.raises(InputError, match="'documents' and 'question'|a question"):
        BiLabelReranker(scorer=OverlapScorer()).as_runnable().invoke(bad)


ODD = ["", " ", "nul \x00 inside.", "שלום עולם. زر.", "🙂 one. two.", "no end", "a\ud800b"]


@pytest.mark.parametrize("make", COMPRESSORS)
def test_odd_texts_pass(make):
    given = [Document(page_content=text) for text in ODD]
    found = make(scorer=StrictScorer()).compress_documents(given, QUESTION)
    assert {document.page_content for document in found} == set(ODD) - {"", " "}
    blank = [Document(page_content="\n")]
    assert make(scorer=StrictScorer()).compress_documents(blank, QUESTION) == []
    if make is BiLabelReranker:  # a piece has an id of its own, a document keeps what it had
        assert all(document.id is None for document in found)


def test_documents_of_one_id_are_told_apart():
    given = [Document(page_content=text, id="same") for text in ("The film.", "A score.")]
    for make in COMPRESSORS:
        found = make(scorer=OverlapScorer()).compress_documents(given, QUESTION)
        assert sorted(document.page_content for document in found) == ["A score.", "The film."]
    assert len({document.id for document in found}) == 2


def test_a_piece_has_an_id_of_its_own_that_is_always_the_same():
    compressor = SubDocumentCompressor(window=1, scorer=OverlapScorer())
    found = compressor.compress_documents(documents(), QUESTION)
    ids = [document.id for document in found]
    assert len(set(ids)) == len(found)
    assert not {document.id for document in documents()} & set(ids)
    assert [d.id for d in compressor.compress_documents(documents(), QUESTION)] == ids
    nameless = [Document(page_content=document.page_content) for document in documents()]
    again = compressor.compress_documents(nameless, QUESTION)
    assert all(UUID(document.id) for document in again)
    assert not {document.id for document in again} & set(ids)


def test_a_piece_of_a_piece_leads_to_the_first_source():
    coarse = SubDocumentCompressor(window=3, scorer=OverlapScorer())
    fine = SubDocumentCompressor(window=1, scorer=OverlapScorer())
    sources = {document.id: document.page_content for document in documents()}
    pieces = coarse.compress_documents(documents(), QUESTION)
    reranked = BiLabelReranker(scorer=OverlapScorer()).compress_documents(pieces, QUESTION)
    for found in (pieces, reranked, fine.compress_documents(reranked, QUESTION)):
        assert len(found) == len(sources)
        for document in found:
            told, text = document.metadata, sources[document.metadata["source_id"]]
            assert text[told["source_start"] : told["source_end"]] == document.page_content
            assert told["start_index"] == told["source_start"]


def test_a_piece_that_was_changed_is_a_source_of_its_own():
    (piece, *_) = SubDocumentCompressor(scorer=OverlapScorer()).compress_documents(
        documents(), QUESTION
    )
    changed = Document(page_content="Another text.", id="new", metadata=piece.metadata)
    (found,) = SubDocumentCompressor(scorer=OverlapScorer()).compress_documents([changed], QUESTION)
    assert found.metadata["source_id"] == "new"
    assert found.metadata["source_start"] == 0


def test_a_detector_stops_early_and_a_tokenizers_name_counts():
    compressor = SubDocumentCompressor(
        scorer=OverlapScorer(), detector=EnoughOf(2), count_tokens=lambda text: len(text.split())
    )
    assert len(compressor.compress_documents(documents(), QUESTION)) == 2
    with pytest.raises(ValidationError, match="encoding"):
        SubDocumentCompressor(scorer=OverlapScorer(), count_tokens="no such encoding")


def test_reprs_are_short_and_models_stay_out_of_dumps():
    reranker = BiLabelReranker(top_n=3, scorer=OverlapScorer())
    assert repr(reranker) == "BiLabelReranker(top_n=3, scorer=OverlapScorer)"
    assert repr(SubDocumentCompressor()) == "SubDocumentCompressor()"
    assert repr(reranker.as_cross_encoder()) == "BiLabelCrossEncoder(weight=0.5)"
    assert reranker.model_dump() == {
        "top_n": 3,
        "weight": 0.5,
        "min_score": None,
        "deduplicate": True,
        "max_passages": 1000,
        "max_sentences": 5000,
    }


async def test_the_cross_encoder_scores_pairs():
    encoder = BiLabelReranker(weight=0.25, scorer=OverlapScorer()).as_cross_encoder()
    pairs = [(question, passage.text) for question in QUESTIONS for passage in PASSAGES]
    scores = encoder.score(pairs)
    bare = to_passages([Document(page_content=passage.text) for passage in PASSAGES])
    expected = [labels(question, each).combine(0.25) / 2 for question in QUESTIONS for each in bare]
    assert scores == expected
    assert all(type(score) is float for score in scores)
    assert await encoder.ascore(pairs) == expected
    assert encoder.score([]) == []
    strict = BiLabelCrossEncoder(StrictScorer(), weight=0.25)
    assert strict.score([(QUESTION, " "), pairs[0]]) == [0.0, expected[0]]
    assert pickle.loads(pickle.dumps(encoder)).score(pairs) == expected
