"""The reranker, the sub-document compressor and the cross-encoder."""

import pickle
from uuid import UUID

import pytest
from decision_fakes import OverlapEvaluator
from fakes import PASSAGES, QUESTIONS, FailingScorer, OverlapScorer, StrictScorer, labels
from langchain_core.documents import Document
from langchain_fakes import documents

from fitrag_integrations import langchain as lc
from fitrag_integrations.errors import InputError
from fitrag_integrations.langchain.base.convert import Documents, to_passages

QUESTION = QUESTIONS[0]


@pytest.mark.parametrize(
    ("make", "role", "scorer"),
    [
        (lc.BiLabelReranker, "scorer", OverlapScorer()),
        (lc.SubDocumentCompressor, "scorer", OverlapScorer()),
        (lc.KnowledgeRefiner, "evaluator", OverlapEvaluator()),
    ],
)
async def test_a_batch_is_one_call_of_the_model(make, role, scorer):
    runnable = make(**{role: scorer}).as_runnable()
    assert runnable.invoke({"documents": [], "query": QUESTION}) == [] == scorer.batches
    inputs = [{"documents": documents(), "query": question} for question in QUESTIONS]
    one_by_one = [runnable.invoke(each) for each in inputs]
    scorer.batches.clear()
    assert runnable.batch(inputs) == one_by_one
    assert await runnable.abatch(inputs) == one_by_one
    assert len(scorer.batches) == 2


async def test_one_bad_input_of_a_batch_fails_alone():
    runnable = lc.BiLabelReranker(scorer=FailingScorer(QUESTIONS[1])).as_runnable()
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


def test_a_piece_of_a_nameless_document_has_an_id_too():
    compressor = lc.SubDocumentCompressor(window=1, scorer=OverlapScorer())
    nameless = [Document(page_content=document.page_content) for document in documents()]
    found, again = (
        compressor.compress_documents(given, QUESTION) for given in (documents(), nameless)
    )
    assert all(UUID(document.id) for document in again)
    assert not {document.id for document in again} & {document.id for document in found}
    reranked = lc.BiLabelReranker(scorer=OverlapScorer()).compress_documents(nameless, QUESTION)
    assert {document.id for document in reranked} == {None}  # a document keeps what it had


def test_a_piece_of_a_piece_leads_to_the_first_source():
    coarse = lc.SubDocumentCompressor(window=3, scorer=OverlapScorer())
    fine = lc.SubDocumentCompressor(window=1, scorer=OverlapScorer())
    sources = {document.id: document.page_content for document in documents()}
    pieces = coarse.compress_documents(documents(), QUESTION)
    reranked = lc.BiLabelReranker(scorer=OverlapScorer()).compress_documents(pieces, QUESTION)
    for found in (pieces, reranked, fine.compress_documents(reranked, QUESTION)):
        assert len(found) == len(sources)
        for document in found:
            told, text = document.metadata, sources[document.metadata["source_id"]]
            assert text[told["source_start"] : told["source_end"]] == document.page_content
            assert told["start_index"] == told["source_start"]


def test_a_piece_that_was_changed_is_a_source_of_its_own():
    (piece, *_) = lc.SubDocumentCompressor(scorer=OverlapScorer()).compress_documents(
        documents(), QUESTION
    )
    changed = Document(page_content="Another text.", id="new", metadata=piece.metadata)
    (found,) = lc.SubDocumentCompressor(scorer=OverlapScorer()).compress_documents(
        [changed], QUESTION
    )
    assert found.metadata["source_id"] == "new"
    assert found.metadata["source_start"] == 0


def test_models_stay_out_of_dumps():
    reranker = lc.BiLabelReranker(top_n=3, scorer=OverlapScorer())
    assert reranker.model_dump()["top_n"] == 3 and "scorer" not in reranker.model_dump()
    assert repr(reranker.as_cross_encoder()) == "BiLabelCrossEncoder(weight=0.5)"


async def test_the_cross_encoder_scores_pairs():
    encoder = lc.BiLabelReranker(weight=0.25, scorer=OverlapScorer()).as_cross_encoder()
    pairs = [(question, passage.text) for question in QUESTIONS for passage in PASSAGES]
    scores = encoder.score(pairs)
    bare = to_passages([Document(page_content=passage.text) for passage in PASSAGES])
    expected = [labels(question, each).combine(0.25) / 2 for question in QUESTIONS for each in bare]
    assert scores == expected
    assert all(type(score) is float for score in scores)
    assert await encoder.ascore(pairs) == expected
    assert encoder.score([]) == []
    strict = lc.BiLabelCrossEncoder(StrictScorer(), weight=0.25)
    assert strict.score([(QUESTION, " "), pairs[0]]) == [0.0, expected[0]]
    assert pickle.loads(pickle.dumps(encoder)).score(pairs) == expected


def test_the_stock_cross_encoder_reranker():
    stock = pytest.importorskip("langchain_classic.retrievers.document_compressors")
    reranker = lc.BiLabelReranker(scorer=OverlapScorer())
    made = stock.CrossEncoderReranker(model=reranker.as_cross_encoder(), top_n=3)
    given = [Document(page_content=each.page_content) for each in documents()]
    kept = [each.page_content for each in reranker.compress_documents(given, QUESTION)]
    assert [each.page_content for each in made.compress_documents(given, QUESTION)] == kept[:3]
