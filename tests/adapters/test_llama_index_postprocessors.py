"""The reranker and the compressor, by themselves and in the stock query engine."""

import json
import pickle

import pytest
from decision_fakes import OverlapEvaluator
from fakes import PASSAGES, QUESTIONS, OverlapScorer
from frameworks import Finding
from llama_fakes import Events, node
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import NodeRelationship

from fitrag_integrations import llama_index as li

QUESTION = QUESTIONS[0]


def nodes():
    return [node(passage) for passage in PASSAGES]


def test_a_note_names_what_nodes_came_with():
    given = nodes()
    given[0].node.metadata["has_answer"] = "no"
    made = li.SubDocumentCompressor(scorer=OverlapScorer(), window=1)
    assert made.postprocess_nodes(given, query_str=QUESTION)
    (note,) = [note for note in made.last_run.value.notes if "their own" in note]
    assert "has_answer" in note
    found = li.FitRagRetriever(Finding(given), scorer=OverlapScorer(), window=1)
    assert found.retrieve(QUESTION) and note in found.last_run.value.notes


def test_pickle_does_not_drop_a_model_in_silence():
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(li.BiLabelReranker(scorer=lambda pairs: []))


@pytest.mark.parametrize("given", [nodes(), []])
async def test_rerank_events_come_on_every_path(given):
    debug = LlamaDebugHandler(print_trace_on_end=False)
    reranker = li.BiLabelReranker(
        top_n=2, scorer=OverlapScorer(), callback_manager=CallbackManager([debug])
    )
    with Events() as events:
        kept = reranker.postprocess_nodes(given, query_str=QUESTION)
        assert await reranker.apostprocess_nodes(given, query_str=QUESTION) == kept
    starts, ends = events.of(ReRankStartEvent), events.of(ReRankEndEvent)
    assert [(start.top_n, start.model_name) for start in starts] == [(2, "OverlapScorer")] * 2
    assert [start.nodes for start in starts] == [given, given]
    assert [end.nodes for end in ends] == [kept, kept]
    assert len(debug.get_event_pairs(CBEventType.RERANKING)) == 2


@pytest.mark.parametrize(
    "component",
    [
        li.SubDocumentCompressor(scorer=OverlapScorer(), window=1),
        li.KnowledgeRefiner(evaluator=OverlapEvaluator()),
    ],
    ids=lambda component: component.class_name(),
)
async def test_pieces_lead_to_their_source_and_are_counted_in_an_event(component):
    with Events() as events:
        kept = component.postprocess_nodes(nodes(), query_str=QUESTION)
        assert await component.apostprocess_nodes(nodes(), query_str=QUESTION) == kept
    for each in kept:
        source = each.node.relationships[NodeRelationship.SOURCE]
        assert source.node_id == each.metadata["source_id"]
        assert json.loads(each.to_json())["score"] == each.score
    first, second = events.of(li.CompressionEvent)
    assert (first.nodes_in, first.nodes_out) == (6.0, float(len(kept)))
    assert first.tokens_in == second.tokens_in > first.tokens_out == second.tokens_out > 0
    names = ("nodes_in", "nodes_out", "tokens_in", "tokens_out")
    assert {type(getattr(second, name)) for name in names} == {float}
    json.dumps(second.model_dump(), default=str)
