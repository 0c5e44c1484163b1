"""Our own index as a retriever of both frameworks: building, loading, searching."""

import copy
import pickle
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from uuid import UUID

import pytest
from fakes import PASSAGES, QUESTIONS, OverlapScorer, WordEncoder
from frameworks import BOTH
from langchain_fakes import Recorder, documents
from llama_fakes import node
from llama_index.core.schema import NodeRelationship, TextNode

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.errors import InputError

pytest.importorskip("faiss")
pytest.importorskip("torch")

QUESTION = QUESTIONS[0]
TEXTS = [passage.text for passage in PASSAGES]
METADATAS = [{"title": p.title, "source": p.source, **p.metadata} for p in PASSAGES]
IDS = [passage.id for passage in PASSAGES]
MOST = {langchain: "k", llama_index: "similarity_top_k"}


def texts(framework, encoder=None, most=3, given=TEXTS, **options):
    fields = {"encoder": encoder or WordEncoder(), MOST[framework.ours]: most, **options}
    return framework.ours.FaissRetriever.from_texts(given, **fields)


def retriever(framework, encoder=None, most=3):
    return texts(framework, encoder, most, metadatas=METADATAS, ids=IDS)


def whole(framework, given, encoder=None):
    kind = framework.ours.FaissRetriever
    build = kind.from_documents if framework.ours is langchain else kind.from_nodes
    return build(given, encoder=encoder or WordEncoder())


def found(framework, made, question=QUESTION):
    return framework.pieces(framework.ask(made, question))


async def test_both_find_texts_with_their_ids_metadata_and_scores():
    kept = []
    for each in BOTH:
        pieces, _ = await each.in_every_way(retriever(each), QUESTION)
        scores = [piece.metadata["retrieval_score"] for piece in pieces]
        assert scores == sorted(scores, reverse=True) and {*map(type, scores)} == {float}
        assert pieces[0].metadata["year"] == 1973
        assert len(found(each, retriever(each, most=99))) == len(TEXTS)
        kept.append([(piece.id, piece.text, piece.metadata) for piece in pieces])
    assert kept[0] == kept[1] and [one[0] for one in kept[0]][0] == "amarcord"
    (first, *_) = BOTH[1].ask(retriever(BOTH[1]), QUESTION)
    assert "retrieval_score" in first.node.excluded_llm_metadata_keys


async def test_a_batch_is_one_search(framework):
    encoder = WordEncoder()
    made = retriever(framework, encoder)
    alone = [found(framework, made, question) for question in QUESTIONS]
    encoder.batches.clear()
    many, again = framework.many(made, QUESTIONS), await framework.amany(made, QUESTIONS)
    assert [*map(framework.pieces, many)] == [*map(framework.pieces, again)] == alone
    assert encoder.batches == [3, 3]
    for bad in (None, 3) if framework.ours is langchain else ("",):
        with pytest.raises(InputError):
            framework.ask(made, bad)
    bad = "" if framework.ours is llama_index else 3
    outcomes = framework.many(made, [QUESTION, bad], return_exceptions=True)
    assert framework.pieces(outcomes[0]) == alone[0] and isinstance(outcomes[1], InputError)


def test_ids_and_metadata_are_optional_and_what_is_wrong_is_refused(framework):
    pieces = found(framework, texts(framework))
    assert pieces[0].text == TEXTS[0]
    assert {piece.id for piece in pieces} == {None} or framework.ours is llama_index
    for wrong in ({"metadatas": METADATAS[:1]}, {"ids": ["a"]}):
        with pytest.raises(InputError, match="equal lengths"):
            texts(framework, **wrong)
    for given in ("one text", ["", "a"] if framework.ours is llama_index else "text"):
        with pytest.raises(InputError):
            texts(framework, given=given)
    with pytest.raises(InputError, match="documents|nodes"):
        whole(framework, TEXTS)


def test_a_saved_index_is_loaded_from_its_folder(framework, tmp_path):
    made, kind = retriever(framework), framework.ours.FaissRetriever
    made.index.save(tmp_path / "index")
    loaded = kind.load(tmp_path / "index", encoder=WordEncoder(), **{MOST[framework.ours]: 3})
    assert found(framework, loaded) == found(framework, made)
    with pytest.raises(ValueError, match="words"):  # an encoder nobody can load by name
        kind(index=tmp_path / "index")


def test_metadata_is_the_same_plain_values_before_and_after_saving(framework, tmp_path):
    given = {
        "published": date(2024, 5, 1),
        "changed": datetime(2024, 5, 1, 8, 30, tzinfo=UTC),
        "at": time(8, 30),
        "key": UUID(int=7),
        "file": PurePosixPath("docs/a.md"),
        "price": Decimal("19.90"),
        "lasts": timedelta(hours=1),
        "about": {"dates": (date(2024, 5, 1),)},
        "year": 1973,
    }
    plain = {
        "published": "2024-05-01",
        "changed": "2024-05-01T08:30:00+00:00",
        "at": "08:30:00",
        "key": "00000000-0000-0000-0000-000000000007",
        "file": "docs/a.md",
        "price": 19.9,
        "lasts": "1:00:00",
        "about": {"dates": ["2024-05-01"]},
        "year": 1973,
    }
    made = texts(framework, given=TEXTS[:1], metadatas=[given])
    made.index.save(tmp_path / "index")
    loaded = framework.ours.FaissRetriever.load(tmp_path / "index", encoder=WordEncoder())
    for each in (made, loaded, pickle.loads(pickle.dumps(made))):
        (piece,) = found(framework, each)
        kept = {name: piece.metadata[name] for name in plain}
        assert kept == plain and list(map(type, kept.values())) == list(map(type, plain.values()))
        (note,) = each.index.notes
        assert "published (date)" in note and "about (dict)" in note and "year" not in note
    if framework.ours is langchain:
        assert loaded.invoke(QUESTION).context.notes == (note,)


@pytest.mark.slow
def test_a_folder_alone_is_enough_with_the_embedded_encoder(tmp_path):
    made = langchain.FaissRetriever.from_texts(TEXTS, k=1)
    made.index.save(tmp_path / "index")
    (kept,) = langchain.FaissRetriever(index=str(tmp_path / "index"), k=1).invoke(QUESTION)
    assert "Amarcord" in kept.page_content


def test_runs_copies_and_repr(framework):
    made = retriever(framework)
    for twin in (pickle.loads(pickle.dumps(made)), copy.copy(made)):
        assert found(framework, twin) == found(framework, made)
    if framework.ours is langchain:
        recorder = Recorder()
        made.invoke(QUESTION, {"callbacks": [recorder]})
        made.batch([QUESTION], {"callbacks": [recorder]})
        assert len(recorder.named("FaissRetriever")) == 2
        assert repr(made) == "FaissRetriever(k=3, index=FaissIndex)"


def test_it_is_a_base_whose_scores_are_kept(framework):
    made = retriever(framework)
    cut = framework.ours.FitRagRetriever(base=made, scorer=OverlapScorer(), window=1)
    pieces = found(framework, cut)
    given = {piece.id: piece.metadata["retrieval_score"] for piece in found(framework, made)}
    assert pieces[0].text == "Nino Rota wrote the score of the film."
    assert all(given[p.metadata["source_id"]] == p.metadata["retrieval_score"] for p in pieces)


def test_what_is_stored_is_not_what_was_given(framework):
    given = documents() if framework.ours is langchain else framework.given()
    before = copy.deepcopy(given)
    made = whole(framework, given if framework.ours is langchain else [one.node for one in given])
    assert found(framework, made)[0].id == "amarcord" and given == before


def test_nodes_come_back_as_they_were():
    given = [node(passage, None, start_char_idx=3).node for passage in PASSAGES]
    given[0].relationships[NodeRelationship.SOURCE] = TextNode(id_="d").as_related_node_info()
    kept = whole(BOTH[1], given).retrieve(QUESTION)[0].node
    assert kept.relationships == given[0].relationships
    assert (kept.node_id, kept.text, kept.start_char_idx) == ("amarcord", given[0].text, 3)
    added = {"retrieval_score": kept.metadata["retrieval_score"]}
    assert kept.metadata == {**given[0].metadata, **added}
