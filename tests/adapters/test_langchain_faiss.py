"""FaissRetriever: building, loading, searching."""

import copy
import pickle

import pytest
from fakes import QUESTIONS, OverlapScorer, WordEncoder
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from langchain_fakes import Recorder, documents
from pydantic import ValidationError

pytest.importorskip("faiss")
pytest.importorskip("torch")

from fitrag_integrations.errors import InputError
from fitrag_integrations.langchain import FaissRetriever, FitRagRetriever
from fitrag_integrations.langchain.base.convert import Documents

QUESTION = QUESTIONS[0]


@pytest.fixture
def encoder():
    return WordEncoder()


@pytest.fixture
def retriever(encoder):
    return FaissRetriever.from_documents(documents(), encoder, k=3)


async def test_it_finds_documents_with_their_ids_metadata_and_scores(retriever):
    found = retriever.invoke(QUESTION)
    assert len(found) == 3
    sources = {document.id: document for document in documents()}
    scores = [document.metadata["retrieval_score"] for document in found]
    assert scores == sorted(scores, reverse=True)
    assert all(type(score) is float for score in scores)
    for document in found:
        source = sources[document.id]
        assert document.page_content == source.page_content
        assert source.metadata.items() <= document.metadata.items()
    assert await retriever.ainvoke(QUESTION) == found


async def test_a_batch_encodes_once(retriever, encoder):
    one_by_one = [retriever.invoke(question) for question in QUESTIONS]
    encoder.batches.clear()
    assert retriever.batch(list(QUESTIONS)) == one_by_one
    assert await retriever.abatch(list(QUESTIONS)) == one_by_one
    assert encoder.batches == [3, 3]


async def test_k_at_construction_at_invoke_and_by_configuration(retriever):
    assert len(retriever.invoke(QUESTION, k=1)) == 1
    assert len(await retriever.ainvoke(QUESTION, k=2)) == 2
    assert [len(found) for found in retriever.batch(list(QUESTIONS), k=2)] == [2, 2, 2]
    configurable = retriever.configurable_fields(k=ConfigurableField(id="k"))
    assert len(configurable.invoke(QUESTION, {"configurable": {"k": 5}})) == 5
    assert len(retriever.invoke(QUESTION, k=99)) == 6
    with pytest.raises(InputError, match="k` must be"):
        retriever.invoke(QUESTION, k=0)
    with pytest.raises(ValidationError, match="k"):
        FaissRetriever(index=retriever.index, k=0)


def test_from_texts_with_metadata_and_ids(encoder):
    texts = ["The river Danube.", "The film Amarcord."]
    metadatas = [{"n": 1}, {"n": 2}]
    made = FaissRetriever.from_texts(texts, encoder, metadatas, ids=["a", "b"], k=1)
    (found,) = made.invoke("Danube river")
    assert (found.id, found.page_content, found.metadata["n"]) == ("a", texts[0], 1)
    bare = FaissRetriever.from_texts(texts, encoder).invoke("Danube river")
    assert [document.id for document in bare] == [None, None]
    for arguments in ({"metadatas": metadatas[:1]}, {"ids": ["a"]}):
        with pytest.raises(InputError, match="equal lengths"):
            FaissRetriever.from_texts(texts, encoder, **arguments)
    with pytest.raises(InputError, match="texts"):
        FaissRetriever.from_texts("one text", encoder)
    with pytest.raises(InputError, match="documents"):
        FaissRetriever.from_documents(texts, encoder)


def test_a_saved_index_is_loaded_from_its_folder(retriever, encoder, tmp_path):
    retriever.index.save(tmp_path / "index")
    loaded = FaissRetriever.load(tmp_path / "index", encoder, k=3)
    assert loaded.invoke(QUESTION) == retriever.invoke(QUESTION)
    with pytest.raises(ValidationError, match="words"):  # an encoder nobody can load by name
        FaissRetriever(index=tmp_path / "index")


@pytest.mark.slow
def test_a_folder_alone_is_enough_with_the_embedded_encoder(tmp_path):
    made = FaissRetriever.from_texts([document.page_content for document in documents()], k=1)
    made.index.save(tmp_path / "index")
    (found,) = FaissRetriever(index=str(tmp_path / "index"), k=1).invoke(QUESTION)
    assert "Amarcord" in found.page_content


@pytest.mark.parametrize("question", ["", " "])
def test_a_blank_question_finds_nothing(retriever, question):
    assert retriever.invoke(question) == []


@pytest.mark.parametrize("question", [None, 3])
def test_bad_questions_are_told_alone(retriever, question):
    with pytest.raises(InputError):
        retriever.invoke(question)
    found = retriever.batch([QUESTION, question], return_exceptions=True)
    assert [type(each) for each in found] == [Documents, InputError]


def test_runs_copies_and_repr(retriever):
    recorder = Recorder()
    retriever.invoke(QUESTION, {"callbacks": [recorder]})
    retriever.batch([QUESTION], {"callbacks": [recorder]})
    assert len(recorder.named("FaissRetriever")) == 2
    assert repr(retriever) == "FaissRetriever(k=3, index=FaissIndex)"
    expected = retriever.invoke(QUESTION)
    assert pickle.loads(pickle.dumps(retriever)).invoke(QUESTION) == expected
    assert copy.copy(retriever).invoke(QUESTION) == expected


def test_it_is_a_base_whose_scores_are_kept(retriever):
    whole = FitRagRetriever(base=retriever, scorer=OverlapScorer(), window=1)
    found = whole.invoke(QUESTION)
    kept = {each.id: each.metadata["retrieval_score"] for each in retriever.invoke(QUESTION)}
    given = {each.metadata["source_id"]: each.metadata["retrieval_score"] for each in found}
    assert given == kept


def test_what_is_stored_is_not_what_was_given(encoder):
    given = [Document(page_content="The river.", id="r", metadata={"tags": ["a"]})]
    before = copy.deepcopy(given)
    FaissRetriever.from_documents(given, encoder).invoke("river")
    assert given == before
