"""Nodes to passages and back: offsets, metadata, ids; what is given stays as it is."""

import copy
import json
import pickle

import pytest
from fakes import PASSAGES
from hypothesis import given
from hypothesis import strategies as st
from llama_fakes import node
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from fitrag_integrations.llama_index.base.convert import (
    BOOKKEEPING,
    node_of,
    passages_of,
    piece_node,
    whole_node,
)
from fitrag_integrations.types import BiLabelScore, Excerpt, Passage


def excerpt_of(found, start=0, end=None, **more):
    (passage,) = passages_of([found])
    return Excerpt(passage, start, len(passage.text) if end is None else end, **more)


def test_a_passage_is_json_and_pickles_with_its_node():
    (passage,) = passages_of([node(PASSAGES[0])])
    assert Passage.from_dict(json.loads(json.dumps(passage.to_dict()))).text == passage.text
    again = pickle.loads(pickle.dumps(passage))
    assert again == passage
    assert node_of(again) == node_of(passage)


def test_offsets_that_do_not_span_the_text_are_not_believed():
    stale = node(PASSAGES[0], start_char_idx=1000, end_char_idx=1001)
    piece = piece_node(excerpt_of(stale, 3, 9), "rerank").node
    assert (piece.start_char_idx, piece.end_char_idx) == (3, 9)
    assert piece.source_node.node_id == stale.node.node_id


@given(st.text(), st.data())
def test_any_text_is_sliced_truly(text, data):
    found = NodeWithScore(node=TextNode(text=text))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    piece = piece_node(excerpt_of(found, start, end), "rerank").node
    assert piece.text == text[start:end] == text[piece.start_char_idx : piece.end_char_idx]
    assert piece.source_node.node_id == found.node_id != piece.node_id


def test_a_nodes_own_values_are_kept_shown_and_noted():
    own = {"source_id": 17, "has_answer": "no", "source_lead": "intro"}
    found = NodeWithScore(node=TextNode(text="abcdef", id_="d", metadata=own))
    excerpt = excerpt_of(found, 2, 4, score=0.75, labels=BiLabelScore(0.5, 0.25))
    for made in (piece_node(excerpt, "m"), whole_node(excerpt, "rerank")):
        assert own.items() <= made.node.metadata.items()
        ours = {"fitrag_source_id": "d", "fitrag_has_answer": 0.5, "llm_prefer": 0.25}
        assert ours.items() <= made.node.metadata.items()
        shown = made.node.get_content(metadata_mode=MetadataMode.LLM)
        assert "source_id: 17" in shown and "fitrag" not in shown
    piece = piece_node(excerpt, "m")  # a piece of a piece leads to the node all the same
    again = piece_node(excerpt_of(piece, 1, 2), "m", "source").node
    assert own.items() <= again.metadata.items()
    assert (again.node_id, again.metadata["fitrag_source_id"]) == ("d", "d")


def test_labels_of_an_earlier_step_do_not_stay():
    once = whole_node(excerpt_of(node(PASSAGES[0]), labels=BiLabelScore(0.75, 0.25)), "rerank")
    twice = whole_node(excerpt_of(once, labels=BiLabelScore(0.5)), "rerank").node.metadata
    assert twice["has_answer"] == 0.5
    assert "llm_prefer" not in twice
    assert twice["retrieval_score"] == 0.5
    bare = piece_node(excerpt_of(node(PASSAGES[0], None)), "rerank").node.metadata
    assert not {"retrieval_score", "has_answer", "llm_prefer"} & bare.keys()


@pytest.mark.parametrize("make", [piece_node, whole_node])
@pytest.mark.parametrize("mode", [MetadataMode.LLM, MetadataMode.EMBED])
def test_readers_of_a_node_do_not_see_the_bookkeeping(make, mode):
    found = node(PASSAGES[0])
    found.node.excluded_llm_metadata_keys = found.node.excluded_embed_metadata_keys = ["year"]
    labels = BiLabelScore(0.75, 0.25)
    shown = make(excerpt_of(found, labels=labels), "rerank").node.get_content(metadata_mode=mode)
    assert not [key for key in (*BOOKKEEPING, "year") if f"{key}:" in shown]
    assert "title: Amarcord" in shown


@pytest.mark.parametrize("make", [piece_node, whole_node])
def test_the_node_given_is_never_written_to(make):
    found = node(PASSAGES[0])
    before = copy.deepcopy(found)
    made = make(excerpt_of(found, labels=BiLabelScore(0.5)), "rerank")
    made.node.metadata["new"] = 1
    made.node.relationships.clear()
    made.node.excluded_llm_metadata_keys.clear()
    assert found == before


def test_a_passage_from_elsewhere_becomes_a_node_with_title_and_source():
    made = node_of(Passage("web", "Text.", "Title", "https://example.org"))
    assert (made.node_id, made.text) == ("web", "Text.")
    assert made.metadata == {"title": "Title", "source": "https://example.org"}
