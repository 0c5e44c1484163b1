"""What a new user of either framework meets, with the models that ship and no fakes of ours."""

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
        (LANGCHAIN, "RetrievalGate", {}),
        (LANGCHAIN, "KnowledgeRouter", {"known": str.upper, "unknown": str.upper}),
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


WRONG = [
    ("FitRagRetriever", lambda kit: {"base": kit.llm}),
    ("FitRagRetriever", lambda kit: {"detector": kit.llm}),
    ("FitRagRetriever", lambda kit: {"split": "nope"}),
    ("FitRagRetriever", lambda kit: {"count_tokens": "nope"}),
    ("FitRagRetriever", lambda kit: {"scorer": kit.llm}),
    ("FitRagRetriever", lambda kit: {"gate": kit.llm}),
    ("CorrectiveRetriever", lambda kit: {"search": kit.llm}),
    ("CorrectiveRetriever", lambda kit: {"thresholds": "nope"}),
    ("CorrectiveRetriever", lambda kit: {"thresholds": 0.5}),
    ("CorrectiveRetriever", lambda kit: {"evaluator": kit.llm}),
    ("SlimPLMRetriever", lambda kit: {"judge": Overlap()}),
]


@both
@pytest.mark.parametrize(("name", "options"), WRONG)
def test_a_retriever_of_what_cannot_do_the_work_is_refused(kit, name, options):
    with pytest.raises(ValueError):
        kit.retriever(name, **options(kit))


CHAT, MOCK = LANGCHAIN.llm, LLAMA_INDEX.llm


@pytest.mark.parametrize(
    ("kit", "make"),
    [
        *((kit, lambda ours: ours.SubDocumentCompressor(count_tokens="nope")) for kit in (1, 2)),
        (1, lambda ours: ours.BiLabelReranker(scorer=CHAT)),
        (1, lambda ours: ours.SubDocumentCompressor(scorer=CHAT)),
        (1, lambda ours: ours.KnowledgeRefiner(evaluator=CHAT)),
        (1, lambda ours: ours.KnowledgeRefiner(count_tokens="nope")),
        (1, lambda ours: ours.BiLabelCrossEncoder(CHAT)),
        (1, lambda ours: ours.CompressingRetriever(base=CHAT, compressors=[])),
        (1, lambda ours: ours.MethodRunnable(method=FitRag(), retriever=CHAT)),
        (1, lambda ours: ours.MethodRunnable(method=FitRag(), reader=CHAT)),
        (1, lambda ours: ours.RetrievalGate(drafter=Overlap())),
        (1, lambda ours: ours.RetrievalGate(gate=CHAT)),
        (2, lambda ours: ours.BiLabelReranker(scorer=MOCK)),
        (2, lambda ours: ours.SubDocumentCompressor(scorer=MOCK)),
        (2, lambda ours: ours.KnowledgeRefiner(evaluator=MOCK)),
        (2, lambda ours: ours.KnowledgeRefiner(count_tokens="nope")),
        (2, lambda ours: ours.MethodQueryEngine(FitRag(), MOCK)),
        (2, lambda ours: ours.MethodQueryEngine(FitRag(), LLAMA_INDEX.shelf(), reader=MOCK)),
        (2, lambda ours: ours.KnowledgeSelector(drafter=Overlap())),
        (2, lambda ours: ours.KnowledgeSelector(MOCK)),
    ],
)
def test_what_cannot_do_the_work_is_refused_at_once(kit, make):
    with pytest.raises(ValueError):
        make((LANGCHAIN, LLAMA_INDEX)[kit - 1].ours)


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
