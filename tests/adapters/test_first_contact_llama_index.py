"""What a new user of LlamaIndex meets, with the models that ship and no fakes of ours."""

import asyncio
from pathlib import Path

import pytest
from fakes import FixedGate
from first_contact import LLAMA_INDEX, NAMES, QUESTION, ROWS, retrievers
from first_contact import NodeShelf as Shelf
from llama_fakes import Events
from llama_index.core.base.response.schema import Response
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import HierarchicalNodeParser
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import Document, ImageNode, MediaResource, Node, NodeWithScore

from fitrag_integrations import llama_index as li
from fitrag_integrations.errors import InputError
from fitrag_integrations.llama_index.base import events
from fitrag_integrations.methods import FitRag

COMPRESSORS = [li.BiLabelReranker, li.SubDocumentCompressor, li.KnowledgeRefiner]


# --- 3, 7, 8 and 13: what stands on a node


@pytest.mark.parametrize("name", NAMES)
def test_a_similarity_cutoff_leaves_what_is_good(name):
    engine = RetrieverQueryEngine.from_args(
        retrievers(LLAMA_INDEX)[name],
        llm=MockLLM(),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.5)],
    )
    assert "designed by Ilse Marbach" in str(engine.query(QUESTION))


@pytest.mark.parametrize("name", NAMES)
async def test_an_evaluator_that_matches_by_id(name):
    made = retrievers(LLAMA_INDEX)[name]
    made.ids = "source"
    evaluator = RetrieverEvaluator.from_metric_names(["hit_rate"], retriever=made)
    result = await evaluator.aevaluate(QUESTION, expected_ids=["page-0"])
    assert result.metric_vals_dict["hit_rate"] == 1.0


def test_what_is_set_afterwards_counts():
    retriever = li.FitRagRetriever(Shelf())
    before = retriever.retrieve(QUESTION)
    retriever.max_tokens = 25
    after = retriever.retrieve(QUESTION)
    assert sum(len(n.text) for n in after) < sum(len(n.text) for n in before)
    with pytest.raises(InputError, match="max_tokens"):
        retriever.max_tokens = 0
    with pytest.raises(AttributeError, match=r"no option 'max_token', but .*max_tokens"):
        retriever.max_token = 20
    assert retriever.max_tokens == 25
    selector = li.KnowledgeSelector(llm=MockLLM())
    selector.threshold = 0.01
    choices = ["from memory", "from the pages"]
    assert selector.select(choices, QUESTION).selections
    assert selector.threshold == 0.01
    with pytest.raises(InputError, match="threshold"):
        selector.threshold = 2
    with pytest.raises(AttributeError, match="no option 'treshold'"):
        selector.treshold = 0.5
    engine = li.MethodQueryEngine(FitRag(), Shelf(), llm=MockLLM())
    engine.template = "{context_str}\nMy own words: {query_str}"
    assert "My own words" in str(engine.query(QUESTION))
    router = li.KnowledgeRouterQueryEngine(FixedGate(0.1), retrieve=engine, llm=MockLLM())
    router.retrieve = li.MethodQueryEngine(
        FitRag(), Shelf(), llm=MockLLM(), template="{context_str}!"
    )
    assert str(router.query(QUESTION)).endswith("!")
    with pytest.raises(InputError, match="retrieve"):
        router.retrieve = 3
    compressor = li.SubDocumentCompressor()
    compressor.max_tokens = 20
    kept = compressor.postprocess_nodes(Shelf().retrieve(QUESTION), query_str=QUESTION)
    assert sum(len(node.text.split()) for node in kept) < 25


# --- 13: images


FILE = MediaResource(path=Path("bridge.png"))
MEDIA = [
    ImageNode(image_path="bridge.png"),
    Node(image_resource=FILE),
    Node(audio_resource=FILE, text_resource=MediaResource(text=" ")),
    Node(video_resource=FILE),
    Document(image_resource=FILE),
]


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize("node", MEDIA, ids=lambda node: type(node).__name__)
async def test_an_image_audio_or_video_without_text_stays(kind, node):
    image = NodeWithScore(node=node, score=0.9)
    given = [image, *Shelf().retrieve(QUESTION)]
    for kept in (
        kind().postprocess_nodes(given, query_str=QUESTION),
        await kind().apostprocess_nodes(given, query_str=QUESTION),
    ):
        assert kept[-1] == image
        assert len(kept) > 1


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize(
    "node",
    [ImageNode(image_path="bridge.png"), Node(image_resource=FILE), Document(video_resource=FILE)],
)
def test_a_picture_stays_where_its_text_is_cut(kind, node):
    node.set_content(ROWS[0][2])
    kept = kind().postprocess_nodes([NodeWithScore(node=node, score=0.9)], query_str=QUESTION)
    shown = [
        each.node
        for each in kept
        if getattr(each.node, "image_path", None) or FILE in vars(each.node).values()
    ]
    assert [each.node_id for each in shown] == [node.node_id]
    assert "\n".join(each.get_content() for each in kept).count("Ilse Marbach") == 1


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_a_subclass_runs_its_own_postprocessing(kind):
    class First(kind):
        def _postprocess_nodes(self, nodes, query_bundle=None):
            return super()._postprocess_nodes(nodes, query_bundle)[:1]

    given = Shelf().retrieve(QUESTION)
    assert len(First().postprocess_nodes(given, query_str=QUESTION)) == 1
    assert len(asyncio.run(First().apostprocess_nodes(given, query_str=QUESTION))) == 1


def test_a_subclass_answers_by_its_own_query():
    class Own(li.MethodQueryEngine):
        def _query(self, query_bundle):
            return Response(f"own: {query_bundle.query_str}")

    engine = Own(FitRag(), Shelf(), llm=MockLLM())
    answers = [engine.query("a"), *engine.query_many(["a"]), asyncio.run(engine.aquery("a"))]
    assert {str(each) for each in (*answers, *asyncio.run(engine.aquery_many(["a"])))} == {"own: a"}


# --- 14: offsets of the hierarchical parser


@pytest.mark.parametrize("kind", [li.SubDocumentCompressor, li.KnowledgeRefiner])
def test_offsets_over_the_hierarchical_parser(kind):
    whole = Document(text="\n\n".join(text for _, _, text in ROWS), id_="whole")
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[128, 64, 32], chunk_overlap=4)
    nodes = parser.get_nodes_from_documents([whole])
    texts = {"whole": whole.text, **{node.node_id: node.text for node in nodes}}
    given = [NodeWithScore(node=node) for node in nodes]
    for piece in kind().postprocess_nodes(given, query_str=QUESTION):
        source, node = texts[piece.node.source_node.node_id], piece.node
        assert source[node.start_char_idx : node.end_char_idx] == node.text


# --- what was missing


def test_a_fitrag_retriever_reports_reranking_and_compression():
    with Events() as heard:
        found = li.FitRagRetriever(Shelf()).retrieve(QUESTION)
    (start,), (end,) = heard.of(ReRankStartEvent), heard.of(ReRankEndEvent)
    (told,) = heard.of(li.CompressionEvent)
    assert len(start.nodes) == len(ROWS) >= len(end.nodes)
    assert [node.score for node in start.nodes] == [0.7] * len(ROWS)  # the retriever's
    assert end.nodes[0].node.node_id == "page-0"
    assert told.nodes_out == len(found) and told.tokens_out < told.tokens_in


def test_no_node_is_built_for_events_that_nobody_hears(monkeypatch):
    monkeypatch.setattr(events, "scored_nodes", None)
    assert li.FitRagRetriever(Shelf()).retrieve(QUESTION)
