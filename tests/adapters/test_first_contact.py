"""What a new user of either framework meets, with the models that ship and no fakes of ours."""

import pydoc
from dataclasses import fields
from inspect import signature

import pytest
from first_contact import LANGCHAIN, LLAMA_INDEX, NAMES, QUESTION, ROWS, Overlap, overlap

from fitrag_integrations.methods import FitRag

both = pytest.mark.parametrize("kit", [LANGCHAIN, LLAMA_INDEX], ids=["langchain", "llama_index"])
COMPRESSORS = ("BiLabelReranker", "SubDocumentCompressor", "KnowledgeRefiner")


@both
@pytest.mark.parametrize("name", NAMES)
def test_pieces_carry_flat_values_ids_of_their_own_and_true_places(kit, name):
    found = kit.found(kit.retrievers()[name])
    texts = {id_: text for id_, _, text in ROWS}
    assert len({kit.text(one)[1] for one in found}) == len(found) > 0
    for one in found:
        told = one.metadata
        assert all(isinstance(value, str | int | float | bool) for value in told.values())
        cut = texts[told["source_id"]][told["source_start"] : told["source_end"]]
        assert cut == kit.text(one)[0]
        assert 0 <= told.get("relevance_score", 0.5) <= 1
        assert kit is LANGCHAIN or one.score is None or 0 <= one.score <= 1


@both
def test_evaluators_may_have_the_sources_ids(kit):
    found = kit.found(kit.retriever("CorrectiveRetriever", ids="source"))
    assert {kit.text(one)[1] for one in found} <= {id_ for id_, _, _ in ROWS}


@both
def test_one_scale_on_every_drop_in(kit):
    for name in COMPRESSORS:
        scores = [one.metadata["relevance_score"] for one in kit.kept(getattr(kit.ours, name)())]
        assert scores and all(0 <= score <= 1 for score in scores)
    made = LANGCHAIN.ours.BiLabelReranker().as_cross_encoder()
    assert all(0 <= score <= 1 for score in made.score([(QUESTION, row[2]) for row in ROWS]))


@pytest.mark.parametrize(
    ("kit", "name", "options"),
    [
        *((kit, name, {}) for kit in (LANGCHAIN, LLAMA_INDEX) for name in COMPRESSORS),
        (LANGCHAIN, "FitRagRetriever", {"base": LANGCHAIN.shelf()}),
        (LANGCHAIN, "RetrievalGate", {"llm": str.upper}),
        (LANGCHAIN, "KnowledgeRouter", {"llm": str.upper, "unknown": str.upper}),
        (LANGCHAIN, "MethodRunnable", {"method": FitRag()}),
        (LANGCHAIN, "BiLabelCrossEncoder", {}),
        (LLAMA_INDEX, "CorrectiveRetriever", {"base": LLAMA_INDEX.shelf()}),
        (LLAMA_INDEX, "KnowledgeSelector", {}),
        (LLAMA_INDEX, "EncoderEmbedding", {}),
        (LLAMA_INDEX, "MethodQueryEngine", {"method": FitRag(), "retriever": LLAMA_INDEX.shelf()}),
    ],
)
def test_what_there_is_not_cannot_be_set(kit, name, options):
    made = getattr(kit.ours, name)(**options)
    with pytest.raises((ValueError, AttributeError), match="max_token"):
        made.max_token = 20


@both
@pytest.mark.parametrize(("name", "least"), list(zip(COMPRESSORS, (0.5, 0.5, 0.4), strict=True)))
async def test_a_least_score_leaves_out_what_says_nothing(kit, name, least):
    kind = getattr(kit.ours, name)
    kept = kit.kept(kind(min_score=least))
    assert kept[0].metadata["source_id"] == "page-0"
    assert all(one.metadata["relevance_score"] >= least for one in kept)
    assert await kit.kept(kind(min_score=least), "asdf qwer", how="a") == []
    with pytest.raises(ValueError, match="min_score"):
        kind(min_score=3)


@both
@pytest.mark.parametrize(
    ("name", "least"), [("FitRagRetriever", 0.5), ("CorrectiveRetriever", 0.4)]
)
def test_retrievers_may_keep_nothing(kit, name, least):
    made = kit.retriever(name, min_score=least)
    assert kit.found(made)
    assert kit.found(made, "asdf qwer") == [] and made.last_run.value.notes


@both
@pytest.mark.parametrize("scorer", [Overlap(), overlap])
async def test_what_gives_one_number_is_a_scorer(kit, scorer):
    made = kit.retriever("FitRagRetriever", scorer=scorer)
    reranker, compressor = (getattr(kit.ours, name)(scorer=scorer) for name in COMPRESSORS[:2])
    for found in (kit.found(made), kit.kept(reranker), kit.kept(compressor)):
        assert found[0].metadata["title"] == "Bridge over the Tirva"
    assert await kit.afound(made) == kit.found(made)
    for one in (reranker, compressor):
        assert await kit.kept(one, how="a") == kit.kept(one)


@both
@pytest.mark.parametrize("name", NAMES)
async def test_every_retriever_explains_the_last_run_and_one_asked_for(kit, name):
    retriever = kit.retrievers()[name]
    with pytest.raises(ValueError, match="nothing was run so far"):
        retriever.explain()
    kit.found(retriever)
    assert "kept" in retriever.explain() and retriever.last_run.value.question == QUESTION
    other = "Who built the lighthouse of Corran Head?"
    assert other in retriever.explain(other)
    assert other in await retriever.aexplain(other)


@both
@pytest.mark.parametrize("name", ["FitRagRetriever", "BiLabelReranker", "SlimPLMRetriever"])
def test_a_notebook_completes_all_options_before_the_first_instance(kit, name):
    completer = pytest.importorskip("IPython.core.completer")
    kind = getattr(kit.ours, name)
    found = completer.IPCompleter(namespace={"ours": kit.ours})
    found.use_jedi = True
    cell = f"ours.{name}("
    with completer.provisionalcompleter():
        shown = {one.text.rstrip("=") for one in found.completions(cell, len(cell))}
    options = {each.name for each in fields(kind.made) if each.init}
    assert options <= {*signature(kind).parameters} and options <= shown
    help_page = pydoc.render_doc(kind, renderer=pydoc.plaintext)
    assert all(option in help_page for option in options)
