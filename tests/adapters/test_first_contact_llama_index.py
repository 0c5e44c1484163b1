"""What a new user of LlamaIndex meets, with the models that ship and no fakes of ours."""

import inspect
import math

import pytest
from first_contact import LLAMA_INDEX, NAMES, QUESTION, ROWS
from llama_index.core.evaluation import RetrieverEvaluator
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import HierarchicalNodeParser
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import Document, ImageNode, NodeWithScore

from fitrag_integrations.errors import InputError, ThresholdMismatchError
from fitrag_integrations.llama_index import (
    BiLabelReranker,
    CompressionEvent,
    CorrectiveRetriever,
    EncoderEmbedding,
    FitRagRetriever,
    KnowledgeRefiner,
    KnowledgeRouterQueryEngine,
    KnowledgeSelector,
    MethodQueryEngine,
    SubDocumentCompressor,
)
from fitrag_integrations.methods import Crag, FitRag
from fitrag_integrations.methods.settings import settings_of

Shelf, retrievers = LLAMA_INDEX.shelf, LLAMA_INDEX.retrievers
COMPRESSORS = [BiLabelReranker, SubDocumentCompressor, KnowledgeRefiner]


# --- 3, 7, 8 and 13: what stands on a node


@pytest.mark.parametrize("name", NAMES)
def test_a_similarity_cutoff_leaves_what_is_good(name):
    engine = RetrieverQueryEngine.from_args(
        retrievers()[name],
        llm=MockLLM(),
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.5)],
    )
    assert "designed by Ilse Marbach" in str(engine.query(QUESTION))


@pytest.mark.parametrize("name", NAMES)
async def test_an_evaluator_that_matches_by_id(name):
    made = retrievers()[name]
    made.ids = "source"
    evaluator = RetrieverEvaluator.from_metric_names(["hit_rate"], retriever=made)
    result = await evaluator.aevaluate(QUESTION, expected_ids=["page-0"])
    assert result.metric_vals_dict["hit_rate"] == 1.0


# --- 5: the gate judges another model than the one that answers


class Named(MockLLM):
    @property
    def metadata(self):
        return super().metadata.model_copy(update={"model_name": "gpt-9"})


@pytest.mark.parametrize("llm", [Named(), MockLLM()])
async def test_the_demo_gate_does_not_answer_for_another_model(llm):
    engine = RetrieverQueryEngine.from_args(Shelf(), llm=MockLLM())
    made = KnowledgeRouterQueryEngine(retrieve=engine, llm=llm)
    with pytest.raises(ThresholdMismatchError, match=r"fitrag calibrate.*allow_other_model"):
        made.query(QUESTION)
    with pytest.raises(ThresholdMismatchError):
        await made.aquery(QUESTION)
    made.allow_other_model = True
    assert str(made.query(QUESTION))


def test_what_is_set_afterwards_counts():
    made = FitRagRetriever(Shelf())
    before = made.retrieve(QUESTION)
    made.max_tokens = 25
    assert made.max_tokens == 25
    assert sum(len(n.text) for n in made.retrieve(QUESTION)) < sum(len(n.text) for n in before)
    with pytest.raises(InputError, match="max_tokens"):
        made.max_tokens = 0
    with pytest.raises(AttributeError, match=r"no option 'max_token', but .*max_tokens"):
        made.max_token = 20
    assert made.max_tokens == 25


def test_what_is_set_on_routers_and_engines_counts():
    selector = KnowledgeSelector()
    selector.threshold = 0.01
    choices = ["from memory", "from the pages"]
    assert selector.select(choices, QUESTION).selections
    assert selector.threshold == 0.01
    with pytest.raises(InputError, match="threshold"):
        selector.threshold = 2
    with pytest.raises(AttributeError, match="no option 'treshold'"):
        selector.treshold = 0.5
    engine = MethodQueryEngine(FitRag(), Shelf(), llm=MockLLM())
    engine.template = "{context_str}\nMy own words: {query_str}"
    assert "My own words" in str(engine.query(QUESTION))
    compressor = SubDocumentCompressor()
    compressor.max_tokens = 20
    kept = compressor.postprocess_nodes(Shelf().retrieve(QUESTION), query_str=QUESTION)
    assert sum(len(node.text.split()) for node in kept) < 25


async def test_a_language_model_drafts_for_a_gate():
    selector = KnowledgeSelector(drafter=MockLLM(), allow_other_model=True)
    choices = ["from memory", "from the pages"]
    assert "p_known" in selector.select(choices, QUESTION).selections[0].reason
    assert "p_known" in (await selector.aselect(choices, QUESTION)).selections[0].reason


# --- 13: images


@pytest.mark.parametrize("kind", COMPRESSORS)
async def test_an_image_without_text_stays(kind):
    image = NodeWithScore(node=ImageNode(image_path="bridge.png"), score=0.9)
    given = [image, *Shelf().retrieve(QUESTION)]
    for kept in (
        kind().postprocess_nodes(given, query_str=QUESTION),
        await kind().apostprocess_nodes(given, query_str=QUESTION),
    ):
        assert kept[-1] == image
        assert len(kept) > 1


# --- 14: offsets of the hierarchical parser


@pytest.mark.parametrize("kind", [SubDocumentCompressor, KnowledgeRefiner])
def test_offsets_over_the_hierarchical_parser(kind):
    whole = Document(text="\n\n".join(text for _, _, text in ROWS) * 4, id_="whole")
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[256, 64, 32], chunk_overlap=4)
    nodes = parser.get_nodes_from_documents([whole])
    texts = {"whole": whole.text, **{node.node_id: node.text for node in nodes}}
    given = [NodeWithScore(node=node) for node in nodes]
    for piece in kind().postprocess_nodes(given, query_str=QUESTION):
        source, node = texts[piece.node.source_node.node_id], piece.node
        assert source[node.start_char_idx : node.end_char_idx] == node.text


# --- what was missing


class Heard(BaseEventHandler):
    events: list = []

    @classmethod
    def class_name(cls):
        return "Heard"

    def handle(self, event, **kwargs):
        self.events.append(event)


def test_a_fitrag_retriever_reports_reranking_and_compression():
    heard, dispatcher = Heard(), get_dispatcher()
    dispatcher.add_event_handler(heard)
    try:
        found = FitRagRetriever(Shelf()).retrieve(QUESTION)
    finally:
        dispatcher.event_handlers.remove(heard)
    kinds = (ReRankStartEvent, ReRankEndEvent, CompressionEvent)
    (start, end, told) = [event for event in heard.events if isinstance(event, kinds)]
    assert len(start.nodes) == len(ROWS) >= len(end.nodes)
    assert end.nodes[0].node.node_id == "page-0"
    assert told.nodes_out == len(found) and told.tokens_out < told.tokens_in


@pytest.mark.parametrize(
    "template",
    [
        PromptTemplate("{context_str}\nQ: {query_str}"),
        "{context_str}\nQ: {query_str}",
        "{context}\nQ: {question}",
        "simple",
    ],
)
def test_a_template_of_any_kind(template):
    engine = MethodQueryEngine(FitRag(), Shelf(), llm=MockLLM(), template=template)
    shown = str(engine.query(QUESTION))
    assert QUESTION in shown and "designed by Ilse Marbach" in shown


async def test_the_encoder_that_ships_is_an_embedding():
    embedding = EncoderEmbedding()
    vector = embedding.get_query_embedding(QUESTION)
    assert math.isclose(math.hypot(*vector), 1, rel_tol=1e-4)
    assert embedding.get_text_embedding(QUESTION) == pytest.approx(vector, abs=1e-5)
    assert await embedding.aget_query_embedding(QUESTION) == pytest.approx(vector, abs=1e-5)
    batch = embedding.get_text_embedding_batch([QUESTION, "Otters."])
    assert batch[0] == pytest.approx(vector, abs=1e-5)


# --- the options are the methods' own


@pytest.mark.parametrize(("made", "of"), [(FitRagRetriever, FitRag), (CorrectiveRetriever, Crag)])
def test_a_methods_option_is_a_keyword_and_an_attribute(made, of):
    parameters = inspect.signature(made).parameters
    retriever = made(Shelf())
    for option in settings_of(of):
        assert parameters[option.name].default == option.default
        value = getattr(retriever, option.name)
        assert value == option.default or not (value or option.default)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        made(Shelf(), nothing=1)
