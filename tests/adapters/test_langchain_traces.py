"""What a handler sees: every run, under its parent, with its question's own callbacks."""

import pytest
from fakes import QUESTIONS, FailingScorer, OverlapScorer
from langchain_core.language_models import FakeListChatModel
from langchain_fakes import OverlapBase, Recorder, called, documents

from fitrag_integrations import langchain as lc
from fitrag_integrations.langchain.base.convert import Documents
from fitrag_integrations.methods import FitRag

QUESTION = QUESTIONS[0]
WAYS = ("invoke", "ainvoke", "batch", "abatch")


@pytest.mark.parametrize("how", WAYS)
async def test_the_base_is_a_child_of_the_retriever(how):
    recorder = Recorder()
    retriever = lc.FitRagRetriever(
        base=OverlapBase(), scorer=OverlapScorer(), tags=["mine"], metadata={"team": "a"}
    )
    config = {"callbacks": [recorder], "tags": ["call"]}
    await called(retriever, how, QUESTION, config)
    own, inner = recorder.named("FitRagRetriever"), recorder.named("OverlapBase")
    assert len(own) == len(inner) == (2 if "batch" in how else 1)
    for run in own:
        assert run["parent"] is None
        assert {"mine", "call"} <= set(run["tags"])
        assert run["metadata"]["team"] == "a"
        assert run["input"] == QUESTION
        assert run["end"][0].metadata["source_id"] == "amarcord"
    assert {recorder.parent_of(run) for run in inner} == {"FitRagRetriever"}
    assert len({run["parent"] for run in inner}) == len(inner)


@pytest.mark.parametrize("how", ["batch", "abatch"])
async def test_each_question_of_a_batch_keeps_its_own_callbacks(how):
    recorders = [Recorder() for _ in QUESTIONS]
    configs = [{"callbacks": [each], "run_name": f"run {i}"} for i, each in enumerate(recorders)]
    retriever = lc.FitRagRetriever(base=OverlapBase(), scorer=OverlapScorer(), top_n=2)
    found = getattr(retriever, how)(list(QUESTIONS), configs)
    _ = await found if how == "abatch" else found
    for i, recorder in enumerate(recorders):
        own, base, *scores = recorder.runs.values()
        assert [own["name"], base["name"]] == [f"run {i}", "OverlapBase"]
        assert own["input"] == base["input"] == QUESTIONS[i]
        assert [run["name"] for run in scores] == ["score", "score"]
        for run in scores:
            assert {question for question, _ in run["input"]["items"]} == {QUESTIONS[i]}
            assert len(run["end"]["answers"]) == len(run["input"]["items"])
            assert recorder.parent_of(run) == own["name"]


@pytest.mark.parametrize("how", WAYS)
async def test_compressors_are_seen_under_a_compressing_retriever(how):
    recorder, scorer = Recorder(), OverlapScorer()
    compressors = [lc.BiLabelReranker(scorer=scorer), lc.SubDocumentCompressor(scorer=scorer)]
    retriever = lc.CompressingRetriever(base=OverlapBase(), compressors=compressors)
    await called(retriever, how, QUESTION, {"callbacks": [recorder]})
    for name in ("OverlapBase", "BiLabelReranker", "SubDocumentCompressor"):
        runs = recorder.named(name)
        assert runs
        assert {recorder.parent_of(run) for run in runs} == {"CompressingRetriever"}
    assert recorder.named("BiLabelReranker")[0]["input"]["query"] == QUESTION


async def test_a_compressor_opens_a_run_for_callbacks_given_bare():
    recorder = Recorder()
    reranker = lc.BiLabelReranker(scorer=OverlapScorer())
    found = reranker.compress_documents(documents(), QUESTION, callbacks=[recorder])
    await reranker.acompress_documents(documents(), QUESTION, callbacks=[recorder])
    first, second = recorder.named("BiLabelReranker")
    assert first["end"] == second["end"] == found


async def test_a_failure_is_seen():
    recorder = Recorder()
    reranker = lc.BiLabelReranker(scorer=FailingScorer())
    with pytest.raises(RuntimeError):
        reranker.compress_documents(documents(), QUESTION, callbacks=[recorder])
    retriever = lc.FitRagRetriever(base=OverlapBase(), scorer=FailingScorer(QUESTIONS[1]))
    retriever.batch(list(QUESTIONS), {"callbacks": [recorder]}, return_exceptions=True)
    ends = [run["end"] for run in recorder.named("FitRagRetriever")]
    assert [type(end) for end in ends] == [Documents, RuntimeError, Documents]
    assert type(recorder.named("BiLabelReranker")[0]["end"]) is RuntimeError


@pytest.mark.parametrize("how", [*WAYS, "stream", "astream"])
async def test_retriever_and_model_are_children_of_the_runnable(how):
    recorder = Recorder()
    whole = lc.MethodRunnable(
        method=FitRag(OverlapScorer()),
        retriever=OverlapBase(),
        llm=FakeListChatModel(responses=["Rota"]),
    )
    await called(whole, how, QUESTION, {"callbacks": [recorder]})
    for name in ("OverlapBase", "FakeListChatModel"):
        runs = recorder.named(name)
        assert len(runs) == (2 if "batch" in how else 1)
        assert {recorder.parent_of(run) for run in runs} == {"MethodRunnable"}
    assert recorder.named("MethodRunnable")[0]["end"] == "Rota"
