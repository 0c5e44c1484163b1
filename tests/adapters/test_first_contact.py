"""What a new user of either framework meets, with the models that ship and no fakes of ours."""

import math
import pickle
import pydoc
import sys
from dataclasses import MISSING, fields
from inspect import Parameter, signature

import pytest
from first_contact import (
    LANGCHAIN,
    LLAMA_INDEX,
    NAMES,
    QUESTION,
    ROWS,
    SHELVES,
    Overlap,
    overlap,
    retriever,
    retrievers,
)
from frameworks import BOTH
from langchain_core.vectorstores import InMemoryVectorStore

from fitrag_integrations.errors import MissingExtraError
from fitrag_integrations.methods import Decider
from fitrag_integrations.methods.crag.evaluator import ActionJudge

COMPRESSORS = ("BiLabelReranker", "SubDocumentCompressor", "KnowledgeRefiner")


def kept(framework, compressor, question=QUESTION):
    given = framework.ask(SHELVES[framework](), QUESTION)
    return framework.pieces(framework.keep(compressor, given, question))


@pytest.mark.parametrize(
    ("framework", "name"), [(each, name) for each in BOTH for name in retrievers(each)], ids=str
)
def test_pieces_carry_flat_values_ids_of_their_own_and_true_places(framework, name):
    found = framework.ask(retrievers(framework)[name], QUESTION)
    texts, pieces = {id_: text for id_, _, text in ROWS}, framework.pieces(found)
    assert len({piece.id for piece in pieces}) == len(pieces) > 0
    for piece in pieces:
        told = piece.metadata
        assert all(isinstance(value, str | int | float | bool) for value in told.values())
        assert texts[told["source_id"]][told["source_start"] : told["source_end"]] == piece.text
        assert 0 <= told.get("relevance_score", 0.5) <= 1
    if framework is LANGCHAIN:
        again = pickle.loads(pickle.dumps(found))
        assert (again, again.explain()) == (found, found.explain())


@pytest.mark.parametrize(
    ("ours", "needs", "extra"),
    [
        (LANGCHAIN.ours, "langchain_core", "langchain"),
        (LLAMA_INDEX.ours, "llama_index.core", "llama-index"),
    ],
    ids=["langchain", "llama_index"],
)
def test_every_promised_name_is_there_and_says_what_it_is(monkeypatch, ours, needs, extra):
    for name in ours.__all__:
        assert getattr(ours, name).__name__ == name and getattr(ours, name).__doc__
    assert set(ours.__all__) <= set(dir(ours))
    assert all(getattr(ours, name) is not None for name in dir(ours))
    assert "FitRagRetriever" in pydoc.render_doc(ours, renderer=pydoc.plaintext)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ours.nothing
    monkeypatch.setitem(sys.modules, needs, None)
    with pytest.raises(MissingExtraError, match=rf'pip install "fitrag-integrations\[{extra}\]"'):
        _ = ours.BiLabelReranker


def test_one_scale_on_every_drop_in(framework):
    for name in COMPRESSORS:
        pieces = kept(framework, getattr(framework.ours, name)())
        assert pieces and all(0 <= piece.metadata["relevance_score"] <= 1 for piece in pieces)
    made = LANGCHAIN.ours.BiLabelReranker().as_cross_encoder()
    assert all(0 <= score <= 1 for score in made.score([(QUESTION, row[2]) for row in ROWS]))


@pytest.mark.parametrize("scorer", [Overlap(), overlap])
async def test_what_gives_one_number_is_a_scorer(framework, scorer):
    made = retriever(framework, "FitRagRetriever", scorer=scorer)
    found, given = framework.ask(made, QUESTION), framework.ask(SHELVES[framework](), QUESTION)
    assert framework.pieces(found)[0].metadata["title"] == "Bridge over the Tirva"
    assert await framework.aask(made, QUESTION) == found
    for name in COMPRESSORS[:2]:
        compressor = getattr(framework.ours, name)(scorer=scorer)
        pieces = await framework.kept(compressor, QUESTION, given)
        assert pieces[0].metadata["title"] == "Bridge over the Tirva"


@pytest.mark.parametrize("name", NAMES)
async def test_every_retriever_explains_the_last_run_and_one_asked_for(framework, name):
    made = retrievers(framework)[name]
    with pytest.raises(ValueError, match="nothing was run so far"):
        made.explain()
    framework.ask(made, QUESTION)
    assert "kept" in made.explain() and made.last_run.value.question == QUESTION
    other = "Who built the lighthouse of Corran Head?"
    assert other in made.explain(other)
    assert other in await made.aexplain(other)


@pytest.mark.parametrize("name", ["FitRagRetriever", "BiLabelReranker", "SlimPLMRetriever"])
def test_a_notebook_completes_all_options_before_the_first_instance(framework, name):
    completer = pytest.importorskip("IPython.core.completer")
    kind = getattr(framework.ours, name)
    found = completer.IPCompleter(namespace={"ours": framework.ours})
    found.use_jedi = True
    cell = f"ours.{name}("
    with completer.provisionalcompleter():
        shown = {one.text.rstrip("=") for one in found.completions(cell, len(cell))}
    options = {each.name for each in fields(kind.made) if each.init}
    assert options <= {*signature(kind).parameters} and options <= shown
    help_page = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    assert all(option in help_page for option in options)


DECIDED = {"KnowledgeRouterQueryEngine": Decider, "KnowledgeSelector": Decider}
DECIDED |= {"CorrectiveRouterQueryEngine": ActionJudge}
OPTIONED = [
    (each, name, getattr(getattr(each.ours, name), "made", DECIDED.get(name)))
    for each in BOTH
    for name in each.ours.__all__
]


@pytest.mark.parametrize(
    ("framework", "name", "made"), [row for row in OPTIONED if row[2]], ids=str
)
def test_the_options_of_a_method_are_spelled_out_with_its_defaults(framework, name, made):
    kind, options = getattr(framework.ours, name), [one for one in fields(made) if one.init]
    shown = signature(kind).parameters
    assert len(options) >= 3
    for one in options:
        expected = (MISSING, Parameter.empty) if one.default is MISSING else (one.default,)
        assert shown[one.name].default in expected
    if framework is LLAMA_INDEX and name not in DECIDED:
        component = kind(SHELVES[framework]()) if "base" in shown else kind()
        assert all(getattr(component, one.name) == one.default for one in options)


async def test_the_encoder_that_ships_is_an_embedding():
    one, other = LANGCHAIN.ours.EncoderEmbeddings(), LLAMA_INDEX.ours.EncoderEmbedding()
    vector, both = one.embed_query(QUESTION), [QUESTION, "Otters."]
    assert math.isclose(math.hypot(*vector), 1, rel_tol=1e-4)
    for again in (
        one.embed_documents(both)[0],
        await one.aembed_query(QUESTION),
        other.get_query_embedding(QUESTION),
        other.get_text_embedding(QUESTION),
        await other.aget_query_embedding(QUESTION),
        other.get_text_embedding_batch(both)[0],
    ):
        assert again == pytest.approx(vector, abs=1e-5)
    assert await one.aembed_documents([]) == one.embed_documents([]) == []
    store = InMemoryVectorStore(one)
    store.add_documents(SHELVES[LANGCHAIN]().invoke(QUESTION))
    assert store.similarity_search(QUESTION, k=1)[0].id == "page-0"
