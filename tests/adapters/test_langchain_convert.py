"""Documents to passages and back: ids, metadata, places and plain numbers."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from fitrag_integrations.langchain.base.convert import (
    to_document,
    to_documents,
    to_pages,
    to_passage,
)
from fitrag_integrations.methods.metadata import own_noted
from fitrag_integrations.types import BiLabelScore, Context, Excerpt, Passage

TEXT = st.text(max_size=40)


@given(text=TEXT, identity=st.none() | st.text(min_size=1), title=TEXT)
def test_a_document_keeps_id_text_and_metadata(text, identity, title):
    given_ = Document(page_content=text, id=identity, metadata={"title": title, "n": [1]})
    before = copy.deepcopy(given_)
    passage = to_passage(given_)
    back = to_document(Excerpt.whole(passage), "rerank")
    assert (back.id, back.page_content) == (given_.id, text)
    assert {name: back.metadata[name] for name in given_.metadata} == given_.metadata
    assert passage.title == title
    assert given_ == before


def test_scores_are_plain_floats_and_absent_ones_left_out():
    metadata = {"score": np.float32(0.25)}
    passage = to_passage(Document(page_content="abcdef", id="d", metadata=metadata))
    labels = BiLabelScore(np.float64(0.5))
    out = to_document(Excerpt(passage, 2, 4, np.float32(0.5), labels), "").metadata
    assert (out["relevance_score"], out["raw_score"]) == (0.5, 0.5)
    assert out["has_answer"] == 0.5
    assert out["retrieval_score"] == 0.25
    assert "llm_prefer" not in out
    for name in ("relevance_score", "has_answer", "retrieval_score"):
        assert type(out[name]) is float


def test_places_count_from_what_the_source_was_cut_from():
    passage = to_passage(Document(page_content="abcdef", id="d", metadata={"start_index": 100}))
    out = to_document(Excerpt(passage, 2, 4), "m")
    assert out.page_content == "cd"
    assert out.metadata["start_index"] == 102
    assert {"fitrag": "m", "source_start": 2, "source_end": 4}.items() <= out.metadata.items()
    again = to_document(Excerpt(to_passage(out), 1, 2), "")
    assert again.metadata["start_index"] == 103


def test_the_score_of_a_step_of_ours_is_no_retrieval_score():
    passage = to_passage(Document(page_content="a", metadata={"relevance_score": 0.5}))
    first = to_document(Excerpt.whole(passage, score=1.0), "crag")
    assert first.metadata["retrieval_score"] == 0.5
    bare = to_passage(Document(page_content="a"))
    once = to_document(Excerpt.whole(bare, score=1.0), "crag")
    twice = to_document(Excerpt.whole(to_passage(once), score=0.5), "crag")
    assert "retrieval_score" not in twice.metadata


def test_documents_of_one_context_share_nothing():
    passage = Passage("p", "text text")
    excerpts = (Excerpt(passage, 0, 4), Excerpt(passage, 5, 9))
    first, second = to_documents(Context("q", excerpts, method="m", details={"n": 1}))
    first.metadata["source_id"] = "another"
    assert second.metadata["source_id"] == "p"
    assert first.id != second.id


@pytest.mark.parametrize(
    ("found", "texts"),
    [
        ([{"title": "T", "url": "http://a", "snippet": "s"}], ["s"]),
        ({"results": [{"title": "T", "link": "http://a", "content": "c"}]}, ["c"]),
        ([Document(page_content="d"), Passage("p", "e")], ["d", "e"]),
        ("plain text", ["plain text"]),
        (" ", []),
        ("3", ["3"]),
        ('[{"title": "T", "url": "http://a", "snippet": "s"}]', ["s"]),
        ([], []),
    ],
)
def test_search_results_of_many_shapes(found, texts):
    pages = to_pages(found)
    assert [page.text for page in pages] == texts
    if texts == ["s"]:
        assert (pages[0].id, pages[0].title, pages[0].source) == ("http://a", "T", "http://a")
        assert pages[0].metadata == {"title": "T", "url": "http://a"}


def test_a_documents_own_metadata_is_kept_and_a_note_names_it():
    own = {"source_id": 17, "has_answer": "no", "source_lead": "intro"}
    passage = to_passage(Document(page_content="abcdef", id="d", metadata=own))
    context = Context("q", (Excerpt(passage, 2, 4, 1.5, BiLabelScore(0.5, 0.25)),), method="m")
    (first,) = to_documents(context)
    assert own.items() <= first.metadata.items()
    ours = {"fitrag_source_id": "d", "fitrag_has_answer": 0.5, "llm_prefer": 0.25}
    assert ours.items() <= first.metadata.items()
    (note,) = own_noted(context).notes
    assert "has_answer, source_id, source_lead of their own, which was kept" in note
    piece = to_passage(first)  # a piece of a piece leads to the document all the same
    (again,) = to_documents(Context("q", (Excerpt(piece, 1, 2),), method="m"))
    assert own.items() <= again.metadata.items()
    assert {"fitrag_source_id": "d", "source_start": 3}.items() <= again.metadata.items()
    assert to_document(Excerpt(piece, 1, 2), "m", "source").id == "d"


@pytest.mark.parametrize("own", [{}, {"source_id": "s", "source_start": 4, "source_end": 10}])
def test_what_this_package_cut_is_marked_under_the_same_names(own):
    passage = to_passage(Document(page_content="abcdef", id="d", metadata=own))
    context = Context("q", (Excerpt(passage, 2, 4),), method="m")
    (found,) = to_documents(context)
    assert not [name for name in found.metadata if name.startswith("fitrag_")]
    assert found.metadata["source_start"] == 2 + own.get("source_start", 0)
    assert own_noted(context) == context


@pytest.mark.parametrize(
    ("text", "lead", "span"),
    [
        ("name\tport\nweb\t8080\nmetrics\t9464", ((0, 9),), (19, 31)),
        ("# Ports\n\nweb: 80", ((0, 7),), (9, 16)),
        ("Steps:\n- one\n- two", ((0, 6),), (13, 18)),
        ("No lead. A sentence.", (), (9, 20)),
    ],
)
def test_offsets_are_those_of_the_text_and_of_its_lead(text, lead, span):
    source = to_passage(Document(page_content=text, id="d", metadata={"start_index": 100}))
    made = to_document(Excerpt(source, *span, lead=lead), "fitrag")
    data, shown = made.metadata, made.page_content
    slices = [text[a:b] for a, b in (*lead, (data["source_start"], data["source_end"]))]
    assert shown.replace("\n…\n", "|").replace("\n\n", "|") == "|".join(slices)
    named = " ".join(f"{a}-{b}" for a, b in lead)
    assert data.get("source_lead", "") == named
    assert text[data["start_index"] - 100 :].startswith(shown.splitlines()[0])
