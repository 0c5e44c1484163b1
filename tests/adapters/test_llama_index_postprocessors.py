"""The reranker and the compressor, by themselves and in the stock query engine."""

import asyncio
import copy
import json
import pickle

import pytest
from fakes import (
    PASSAGES,
    QUESTIONS,
    EnoughOf,
    FailingScorer,
    OverlapScorer,
    StrictScorer,
    SyncOverlapScorer,
    labels,
    longest_pause,
)
from llama_fakes import Events, NodeRetriever, ScriptedLLM, node
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from fitrag_integrations.errors import InputError
from fitrag_integrations.llama_index import (
    BiLabelReranker,
    CompressionEvent,
    SubDocumentCompressor,
)

QUESTION = QUESTIONS[0]
BOTH = [BiLabelReranker, SubDocumentCompressor]


def nodes():
    return [node(passage) for passage in PASSAGES]


def texts(found):
    return [(scored.node.get_content(), scored.score) for scored in found]


class AsyncOnlyScorer:
    async def __call__(self, pairs):
        return [labels(question, passage) for question, passage in pairs]


def test_the_reranker_orders_by_the_sum_of_the_labels():
    kept = BiLabelReranker(top_n=3, scorer=OverlapScorer()).postprocess_nodes(
        nodes(), query_str=QUESTION
    )
    expected = sorted(PASSAGES, key=lambda p: -labels(QUESTION, p).combine())[:3]
    assert [scored.node.node_id for scored in kept] == [passage.id for passage in expected]
    assert [scored.score for scored in kept] == [
        labels(QUESTION, p).combine() / 2 for p in expected
    ]


def test_the_weight_decides_between_the_labels():
    only = BiLabelReranker(scorer=OverlapScorer(), weight=1)
    kept = only.postprocess_nodes(nodes(), query_str=QUESTION)
    assert [scored.score for scored in kept] == sorted(
        (labels(QUESTION, passage).llm_prefer for passage in PASSAGES), reverse=True
    )


def test_the_compressor_keeps_the_best_window_of_each_node():
    compressor = SubDocumentCompressor(window=1, scorer=OverlapScorer())
    kept = compressor.postprocess_nodes(nodes()[:2], query_str=QUESTION)
    assert [scored.node.text for scored in kept] == [
        "Nino Rota wrote the score of the film.",
        "He wrote music for many films.",
    ]
    for scored, passage in zip(kept, PASSAGES, strict=False):
        place = slice(scored.node.start_char_idx, scored.node.end_char_idx)
        assert passage.text[place] == scored.node.text


def test_the_budget_and_the_detector_cut():
    scorer = OverlapScorer()
    every = SubDocumentCompressor(scorer=scorer, max_share=None).postprocess_nodes(
        nodes(), query_str=QUESTION
    )
    small = SubDocumentCompressor(scorer=scorer, max_tokens=40)
    enough = SubDocumentCompressor(scorer=scorer, detector=EnoughOf(2))
    words = SubDocumentCompressor(scorer=scorer, max_tokens=40, count_tokens=len)
    assert len(every) == len(PASSAGES)
    assert 0 < len(small.postprocess_nodes(nodes(), query_str=QUESTION)) < len(PASSAGES)
    assert len(enough.postprocess_nodes(nodes(), query_str=QUESTION)) == 2
    assert len(words.postprocess_nodes(nodes(), query_str=QUESTION)) < 2


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("scorer", [OverlapScorer(), SyncOverlapScorer(), AsyncOnlyScorer()])
async def test_async_equals_sync(kind, scorer):
    sync = kind(scorer=OverlapScorer()).postprocess_nodes(nodes(), query_str=QUESTION)
    found = await kind(scorer=scorer).apostprocess_nodes(nodes(), query_str=QUESTION)
    assert found == sync


@pytest.mark.parametrize("kind", BOTH)
async def test_what_is_given_stays_as_it_is(kind):
    given = nodes()
    before = copy.deepcopy(given)
    kind(scorer=OverlapScorer()).postprocess_nodes(given, query_str=QUESTION)
    await kind(scorer=OverlapScorer()).apostprocess_nodes(given, query_str=QUESTION)
    assert given == before


@pytest.mark.parametrize("kind", BOTH)
async def test_no_nodes_are_no_work(kind):
    scorer = OverlapScorer()
    assert kind(scorer=scorer).postprocess_nodes([], query_str=QUESTION) == []
    assert await kind(scorer=scorer).apostprocess_nodes([], query_str=QUESTION) == []
    assert scorer.calls == 0


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("query", [None, QueryBundle(""), QueryBundle(" \n"), "a plain string"])
async def test_without_a_query_there_is_nothing_to_score_by(kind, query):
    component = kind(scorer=OverlapScorer())
    with pytest.raises(InputError, match="query"):
        component.postprocess_nodes(nodes(), query_bundle=query)
    with pytest.raises(InputError, match="query"):
        await component.apostprocess_nodes(nodes(), query_bundle=query)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("bad", [None, "nodes", [TextNode(text="bare")], [None]])
def test_anything_but_scored_nodes_is_refused(kind, bad):
    with pytest.raises(InputError, match="nodes"):
        kind(scorer=OverlapScorer()).postprocess_nodes(bad, query_str=QUESTION)


@pytest.mark.parametrize("kind", BOTH)
async def test_nodes_without_text_do_not_come_back_and_fail_nothing(kind):
    blank = [NodeWithScore(node=TextNode(text=text)) for text in ("", " \n")]
    made = kind(scorer=StrictScorer())
    expected = texts(made.postprocess_nodes(nodes(), query_str=QUESTION))
    given = [blank[0], *nodes(), blank[1]]
    assert texts(made.postprocess_nodes(given, query_str=QUESTION)) == expected
    assert texts(await made.apostprocess_nodes(given, query_str=QUESTION)) == expected
    assert made.postprocess_nodes(blank, query_str=QUESTION) == []


def test_repeated_ids_do_not_mix_texts_or_scores():
    twins = [NodeWithScore(node=TextNode(id_="same", text=p.text)) for p in PASSAGES[:3]]
    scorer = OverlapScorer()
    for made in (
        BiLabelReranker(scorer=scorer),
        SubDocumentCompressor(scorer=scorer, max_share=None),
    ):
        found = made.postprocess_nodes(twins, query_str=QUESTION)
        assert len(found) == 3
        for scored in found:
            assert any(scored.text in twin.text for twin in twins)
    assert len({scored.node_id for scored in found}) == 3


@pytest.mark.parametrize("kind", BOTH)
def test_a_scorers_failure_is_its_own(kind):
    with pytest.raises(RuntimeError, match="the scorer is broken"):
        kind(scorer=FailingScorer()).postprocess_nodes(nodes(), query_str=QUESTION)


def test_pickle_does_not_drop_a_model_in_silence():
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(BiLabelReranker(scorer=lambda pairs: []))


def test_numbers_travel_as_json():
    compressor = SubDocumentCompressor(max_tokens=40)
    told = json.loads(compressor.to_json())
    assert told["class_name"] == "SubDocumentCompressor"
    assert SubDocumentCompressor.from_dict(told).max_tokens == 40
    assert BiLabelReranker.from_json(BiLabelReranker(top_n=3).to_json()).top_n == 3


@pytest.mark.parametrize("given", [nodes(), []])
async def test_rerank_events_come_on_every_path(given):
    debug = LlamaDebugHandler(print_trace_on_end=False)
    reranker = BiLabelReranker(
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


async def test_compression_events_hold_floats():
    compressor = SubDocumentCompressor(scorer=OverlapScorer(), window=1)
    with Events() as events:
        compressor.postprocess_nodes(nodes(), query_str=QUESTION)
        await compressor.apostprocess_nodes(nodes(), query_str=QUESTION)
    first, second = events.of(CompressionEvent)
    assert first.nodes_in == first.nodes_out == 6.0
    assert first.tokens_in > first.tokens_out > 0
    names = ("nodes_in", "nodes_out", "tokens_in", "tokens_out")
    assert {type(getattr(second, name)) for name in names} == {float}
    json.dumps(second.model_dump(), default=str)


@pytest.mark.parametrize("kind", BOTH)
async def test_the_event_loop_is_not_blocked(kind):
    slow = kind(scorer=SyncOverlapScorer(seconds=0.8))
    many = [node(passage) for passage in PASSAGES * 20]
    _, pause = await longest_pause(slow.apostprocess_nodes(many, query_str=QUESTION))
    assert pause < 0.6  # on a busy machine; blocked it would be 0.8


@pytest.mark.parametrize("is_async", [False, True])
def test_both_serve_in_the_stock_query_engine(is_async):
    llm, scorer = ScriptedLLM(), OverlapScorer()
    engine = RetrieverQueryEngine.from_args(
        NodeRetriever(),
        llm=llm,
        node_postprocessors=[
            BiLabelReranker(top_n=2, scorer=scorer),
            SubDocumentCompressor(max_tokens=60, window=1, scorer=scorer),
        ],
    )
    response = asyncio.run(engine.aquery(QUESTION)) if is_async else engine.query(QUESTION)
    assert response.source_nodes[0].text == "Nino Rota wrote the score of the film."
    assert response.source_nodes[0].metadata["retrieval_score"] == 0.5
    assert "Nino Rota wrote the score of the film." in llm.prompts[0]
    assert "relevance_score" not in llm.prompts[0]
    assert "It won an award" not in llm.prompts[0]
