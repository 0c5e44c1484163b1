"""Our own index as a LlamaIndex retriever."""

import pickle

import pytest
from fakes import PASSAGES, QUESTIONS, OverlapScorer, WordEncoder
from llama_fakes import node
from llama_index.core.schema import NodeRelationship, TextNode

from fitrag_integrations.errors import InputError
from fitrag_integrations.llama_index import FaissRetriever, FitRagRetriever

pytest.importorskip("faiss")
from fitrag_integrations.retrieval import FaissIndex  # noqa: E402

QUESTION = QUESTIONS[0]


TEXTS = [passage.text for passage in PASSAGES]
METADATAS = [{"title": p.title, "source": p.source, **p.metadata} for p in PASSAGES]
IDS = [passage.id for passage in PASSAGES]


def retriever(**settings):
    return FaissRetriever.from_texts(
        TEXTS, metadatas=METADATAS, ids=IDS, encoder=WordEncoder(), **settings
    )


def told(found):
    return [(n.node.node_id, n.node.text, n.score) for n in found]


def test_texts_are_found_with_scores_and_metadata():
    found = retriever(similarity_top_k=2).retrieve(QUESTION)
    assert len(found) == 2
    assert found[0].node.node_id == "amarcord"
    assert found[0].node.metadata["year"] == 1973
    assert found[0].score == found[0].node.metadata["retrieval_score"] >= found[1].score
    assert type(found[0].score) is float
    assert "retrieval_score" in found[0].node.excluded_llm_metadata_keys


def test_ids_and_metadata_are_optional():
    found = FaissRetriever.from_texts(TEXTS, encoder=WordEncoder()).retrieve(QUESTION)
    assert found[0].node.text == PASSAGES[0].text
    assert len({n.node.node_id for n in found}) == len(TEXTS)


async def test_many_queries_are_one_search():
    encoder = WordEncoder()
    made = FaissRetriever.from_texts(TEXTS, encoder=encoder)
    encoder.batches.clear()
    many = made.retrieve_many(QUESTIONS)
    assert encoder.batches == [3]
    assert [*map(told, many)] == [told(made.retrieve(question)) for question in QUESTIONS]
    assert [*map(told, await made.aretrieve_many(QUESTIONS))] == [*map(told, many)]
    failed = made.retrieve_many([QUESTION, ""], return_exceptions=True)
    assert told(failed[0]) == told(many[0])
    assert isinstance(failed[1], InputError)


def test_nodes_come_back_as_they_were():
    given = [node(passage, None, start_char_idx=3).node for passage in PASSAGES]
    given[0].relationships[NodeRelationship.SOURCE] = TextNode(id_="d").as_related_node_info()
    made = FaissRetriever.from_nodes(given, encoder=WordEncoder())
    found = made.retrieve(QUESTION)[0].node
    assert found.relationships == given[0].relationships
    assert (found.node_id, found.text, found.start_char_idx) == ("amarcord", given[0].text, 3)
    added = {"retrieval_score": found.metadata["retrieval_score"]}
    assert found.metadata == {**given[0].metadata, **added}


def test_it_loads_from_a_folder(tmp_path):
    retriever().index.save(tmp_path)
    assert isinstance(FaissIndex.load(tmp_path, encoder=WordEncoder()), FaissIndex)
    loaded = FaissRetriever.load(tmp_path, encoder=WordEncoder(), similarity_top_k=3)
    assert told(loaded.retrieve(QUESTION)) == told(retriever(similarity_top_k=3).retrieve(QUESTION))
    lazy = FaissRetriever(tmp_path)
    assert str(tmp_path) in repr(lazy)
    assert repr(pickle.loads(pickle.dumps(lazy))) == repr(lazy)


def test_pickle_keeps_an_index_in_memory():
    made = retriever()
    assert told(pickle.loads(pickle.dumps(made)).retrieve(QUESTION)) == told(
        made.retrieve(QUESTION)
    )


def test_it_is_a_base_for_fit_rag():
    found = FitRagRetriever(base=retriever(), scorer=OverlapScorer(), window=1).retrieve(QUESTION)
    assert found[0].text == "Nino Rota wrote the score of the film."
    assert found[0].node.metadata["retrieval_score"] > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: FaissRetriever.from_texts("text", encoder=WordEncoder()),
        lambda: FaissRetriever.from_texts(TEXTS, ids=["one"], encoder=WordEncoder()),
        lambda: FaissRetriever.from_texts(["", "a"], encoder=WordEncoder()),
        lambda: FaissRetriever.from_nodes(TEXTS, encoder=WordEncoder()),
    ],
)
def test_a_wrong_argument_is_told_at_once(make):
    with pytest.raises(InputError):
        make()
