"""Nodes to passages and back: offsets, metadata, ids; what is given stays as it is."""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from fakes import PASSAGES
from hypothesis import given
from hypothesis import strategies as st
from llama_fakes import node
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    Document,
    ImageNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    TextNode,
)

from fitrag_integrations.llama_index.base.convert import (
    BOOKKEEPING,
    context_nodes,
    node_of,
    passages_of,
    piece_node,
    stored_passage,
    whole_node,
)
from fitrag_integrations.methods.metadata import summary
from fitrag_integrations.types import BiLabelScore, Context, Excerpt, Passage, RetrievalDecision


def excerpt_of(found, start=0, end=None, **more):
    (passage,) = passages_of([found])
    return Excerpt(passage, start, len(passage.text) if end is None else end, **more)


def test_a_passage_has_the_nodes_id_text_title_source_and_score():
    (passage,) = passages_of([node(PASSAGES[0], np.float32(0.5))])
    assert (passage.id, passage.text) == (PASSAGES[0].id, PASSAGES[0].text)
    assert (passage.title, passage.source) == ("Amarcord", "film.txt")
    assert passage.metadata["year"] == 1973
    assert type(passage.metadata["retrieval_score"]) is float


def test_a_passage_is_json_and_pickles_with_its_node():
    (passage,) = passages_of([node(PASSAGES[0])])
    assert Passage.from_dict(json.loads(json.dumps(passage.to_dict()))).text == passage.text
    again = pickle.loads(pickle.dumps(passage))
    assert again == passage
    assert node_of(again) == node_of(passage)


def test_a_piece_counts_in_its_own_node_where_that_has_no_place():
    found = node(PASSAGES[0])
    piece = piece_node(excerpt_of(found, 10, 20), "rerank").node
    assert found.node.text[piece.start_char_idx : piece.end_char_idx] == piece.text
    assert piece.source_node.node_id == found.node.node_id
    assert piece.node_id != found.node.node_id


def test_a_piece_counts_in_the_document_where_the_node_knows_its_place():
    document = Document(text=" ".join(p.text for p in PASSAGES), metadata={"file": "all.txt"})
    chunks = SentenceSplitter(chunk_size=60, chunk_overlap=0).get_nodes_from_documents([document])
    assert len(chunks) > 2
    for chunk in chunks:
        piece = piece_node(excerpt_of(NodeWithScore(node=chunk), 5, 25), "rerank").node
        assert piece.text == chunk.text[5:25]
        assert document.text[piece.start_char_idx : piece.end_char_idx] == piece.text
        assert piece.source_node.node_id == document.node_id
        assert piece.metadata["source_id"] == chunk.node_id


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


def test_metadata_is_kept_and_scores_are_added_as_plain_floats():
    labels = BiLabelScore(0.75, 0.25)
    made = piece_node(excerpt_of(node(PASSAGES[0]), 0, 9, score=0.5, labels=labels), "rerank")
    metadata = made.node.metadata
    assert {
        "year": 1973,
        "tags": ["film", "italy"],
        "title": "Amarcord",
    }.items() <= metadata.items()
    assert (metadata["has_answer"], metadata["llm_prefer"]) == (0.75, 0.25)
    assert metadata["relevance_score"] == made.score == 0.5
    assert metadata["raw_score"] == 0.5
    assert metadata["retrieval_score"] == 0.5
    assert metadata["source_id"] == "amarcord"
    assert (metadata["source_start"], metadata["source_end"], metadata["fitrag"]) == (
        0,
        9,
        "rerank",
    )
    assert type(made.score) is float
    json.loads(made.to_json())


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


def test_what_nobody_gave_is_left_out():
    metadata = piece_node(excerpt_of(node(PASSAGES[0], None)), "rerank").node.metadata
    assert not {"retrieval_score", "has_answer", "llm_prefer"} & metadata.keys()


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


def test_a_whole_node_keeps_id_class_and_relationships():
    image = ImageNode(id_="i", text="A cat.", image_path="cat.png")
    image.relationships[NodeRelationship.SOURCE] = TextNode(id_="d").as_related_node_info()
    copied = whole_node(excerpt_of(NodeWithScore(node=image)), "rerank").node
    assert isinstance(copied, ImageNode)
    assert (copied.node_id, copied.image_path) == ("i", "cat.png")
    assert copied.relationships == image.relationships


def test_equal_pieces_have_equal_ids_and_others_do_not():
    found, other = node(PASSAGES[0]), NodeWithScore(node=TextNode(id_="amarcord", text="x" * 99))

    def name(of, *span):
        return piece_node(excerpt_of(of, *span), "rerank").node.node_id

    assert name(found, 0, 9) == name(copy.deepcopy(found), 0, 9)
    assert len({name(found, 0, 9), name(found, 1, 9), name(other, 0, 9)}) == 3


def test_a_passage_from_elsewhere_becomes_a_node_with_title_and_source():
    made = node_of(Passage("web", "Text.", "Title", "https://example.org"))
    assert (made.node_id, made.text) == ("web", "Text.")
    assert made.metadata == {"title": "Title", "source": "https://example.org"}


def test_a_stored_passage_gives_back_its_node():
    given_node = node(PASSAGES[0], start_char_idx=7, end_char_idx=7 + len(PASSAGES[0].text)).node
    given_node.relationships[NodeRelationship.SOURCE] = TextNode(id_="d").as_related_node_info()
    given_node.excluded_llm_metadata_keys = list(BOOKKEEPING)
    given_node.excluded_embed_metadata_keys = list(BOOKKEEPING)
    passage = Passage.from_dict(json.loads(json.dumps(stored_passage(given_node).to_dict())))
    assert node_of(passage) == given_node


def test_a_summary_is_plain():
    decision = RetrievalDecision(True, 0.25, 0.5, "it does not know")
    context = Context("Who?", decision=decision, method="m", details={"n": np.int64(3)})
    told = summary(context)
    assert json.loads(json.dumps(told)) == told
    assert told["decision"]["p_known"] == 0.25
    assert (told["method"], told["details"]) == ("m", {"n": 3})
    assert context_nodes(context) == []


def test_a_missing_framework_is_worded():
    script = (
        "import sys; sys.modules['llama_index'] = None\n"
        "import fitrag_integrations.llama_index as ours\n"
        "from fitrag_integrations import MissingExtraError\n"
        "try: ours.BiLabelReranker\n"
        "except MissingExtraError as error: assert '[llama-index]' in str(error)\n"
        "else: raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
