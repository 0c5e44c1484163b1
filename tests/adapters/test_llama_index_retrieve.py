"""Methods as retrievers: one question, many in lock step, sync and async, in hosts."""

import pytest
from fakes import (
    PASSAGES,
    QUESTIONS,
    FailingScorer,
    FixedGate,
    OverlapRetriever,
    OverlapScorer,
    SyncOverlapScorer,
    longest_pause,
)
from llama_fakes import EmptyRetriever, Events, NodeRetriever, ScriptedLLM, SlowRetriever
from llama_index.core.instrumentation.events.retrieval import (
    RetrievalEndEvent,
    RetrievalStartEvent,
)
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.tools import FunctionTool

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.llama_index import (
    FitRagRetriever,
    MethodRetriever,
    RetrievalSkippedEvent,
)
from fitrag_integrations.types import Context, Excerpt

QUESTION = QUESTIONS[0]


def pieces(found):
    return [(n.node.text, n.node.start_char_idx, n.score, n.node.metadata) for n in found]


def retriever(scorer=None, base=None, **settings):
    return FitRagRetriever(
        base=base or NodeRetriever(), scorer=scorer or OverlapScorer(), **settings
    )


class SearchMethod:
    """Show what a search finds; write the query with the language model where there is one."""

    def __call__(self, question, ports):
        query = question
        if ports.generate:
            (query,) = yield from ports.generate.ask([question])
        (found,) = yield from ports.search.ask([query])
        return Context(question, [Excerpt.whole(p) for p in found], queries=[query], method="s")


def test_the_best_windows_come_back():
    made = retriever(top_n=2, window=1)
    found = made.retrieve(QUESTION)
    assert found[0].text == "Nino Rota wrote the score of the film."
    assert found[0].metadata["source_id"] == "amarcord"
    assert found[0].metadata["retrieval_score"] == 0.5
    assert made.last_run.value.details["scored"] == 4
    assert len(found) == 2


def test_many_questions_are_one_batch_per_step():
    scorer = OverlapScorer()
    many = retriever(scorer).retrieve_many(QUESTIONS)
    assert scorer.calls == 2  # whole passages, then windows
    for question, found in zip(QUESTIONS, many, strict=True):
        assert pieces(found) == pieces(retriever().retrieve(question))


async def test_many_questions_are_one_batch_per_step_when_async():
    scorer = OverlapScorer()
    many = await retriever(scorer).aretrieve_many([QueryBundle(q) for q in QUESTIONS])
    assert len(scorer.async_batches) == 2
    assert [*map(pieces, many)] == [*map(pieces, retriever().retrieve_many(QUESTIONS))]


async def test_a_failing_question_fails_alone():
    broken = retriever(FailingScorer(QUESTION))
    sync = broken.retrieve_many(QUESTIONS, return_exceptions=True)
    found = await broken.aretrieve_many(QUESTIONS, return_exceptions=True)
    for outcomes in (sync, found):
        assert isinstance(outcomes[0], RuntimeError)
        assert all(isinstance(outcome, list) for outcome in outcomes[1:])
    with pytest.raises(RuntimeError, match="the scorer is broken"):
        broken.retrieve_many(QUESTIONS)


def test_many_nest_in_many():
    scorer, base = OverlapScorer(), OverlapScorer()
    retriever(scorer, base=retriever(base)).retrieve_many(QUESTIONS)
    assert (scorer.calls, base.calls) == (2, 2)


def test_no_question_is_no_work():
    assert retriever().retrieve_many([]) == []


@pytest.mark.parametrize(
    ("base", "seconds"), [(NodeRetriever(), 0.8), (SlowRetriever(), 0.0)], ids=["scorer", "base"]
)
async def test_the_event_loop_is_not_blocked(base, seconds):
    slow = retriever(SyncOverlapScorer(seconds=seconds), base=base)
    await retriever().aretrieve(QUESTION)  # what is imported on first use is not measured
    _, pause = await longest_pause(slow.aretrieve_many(QUESTIONS))
    assert pause < 0.6  # on a busy machine; blocked it would be 0.8


def test_a_gate_skips_retrieval_and_says_so():
    base, gate = NodeRetriever(), FixedGate(0.75)
    with Events() as events:
        assert retriever(base=base, gate=gate).retrieve(QUESTION) == []
    assert base.found.batches == []
    (skipped,) = events.of(RetrievalSkippedEvent)
    assert (skipped.query, skipped.p_known, skipped.threshold) == (QUESTION, 0.75, 0.5)
    assert "know" in skipped.why


def test_nothing_found_is_nothing():
    assert retriever(base=EmptyRetriever()).retrieve(QUESTION) == []


def test_events_of_a_batch_come_per_question():
    with Events() as events:
        retriever().retrieve_many(QUESTIONS)
    starts = [e for e in events.of(RetrievalStartEvent) if "Bundle" in type_of(e)]
    assert [str(start.str_or_query_bundle) for start in starts[:3]] == list(QUESTIONS)
    ends = [
        end for end in events.of(RetrievalEndEvent) if end.nodes[0].node.start_char_idx is not None
    ]
    assert len(ends) == 3


def type_of(event):
    return type(event.str_or_query_bundle).__name__


def test_a_bundle_reaches_the_base_with_its_embedding():
    seen = []

    class Seeing(BaseRetriever):
        def _retrieve(self, query_bundle):
            seen.append(query_bundle.embedding)
            return []

    bundle = QueryBundle(QUESTION, embedding=[0.5, 0.25])
    retriever(base=Seeing()).retrieve(bundle)
    assert seen == [[0.5, 0.25]]


def test_a_trace_can_be_had():
    (traced,) = retriever(max_share=None).trace_many([QUESTION])
    assert [step.port for step in traced.steps] == ["retrieve", "score", "score"]
    assert "kept 4 excerpts" in traced.explain()
    (failed,) = retriever().trace_many([""])
    assert isinstance(failed.error, InputError)


async def test_a_base_that_fails_is_heard():
    class Broken(BaseRetriever):
        def _retrieve(self, query_bundle):
            raise ConnectionError("no route")

    broken = retriever(base=Broken())
    with pytest.raises(ConnectionError, match="no route"):
        broken.retrieve(QUESTION)
    with pytest.raises(ConnectionError, match="no route"):
        await broken.aretrieve(QUESTION)


@pytest.mark.parametrize("bad", ["a string", [None], [3]])
def test_many_queries_are_a_sequence_of_queries(bad):
    with pytest.raises(InputError, match="quer"):
        retriever().retrieve_many(bad)


@pytest.mark.parametrize("method", [None, "fitrag", SearchMethod])
def test_a_method_is_an_object_to_call(method):
    with pytest.raises(InputError, match="method"):
        MethodRetriever(NodeRetriever(), method=method)


def found_by(search, **settings):
    made = MethodRetriever(NodeRetriever(), method=SearchMethod(), search=search, **settings)
    return made, [(n.node.node_id, n.node.text) for n in made.retrieve(QUESTION)]


HITS = [{"title": "Amarcord", "url": "https://example.org/a", "snippet": "By Nino Rota."}]


class Provider:
    def search(self, queries):
        return [[PASSAGES[0]] for _ in queries]


async def asearching(query):
    return HITS


@pytest.mark.parametrize(
    ("search", "text"),
    [
        (lambda query: HITS, "By Nino Rota."),
        (lambda query: TextNode(id_="n", text="A node."), "A node."),
        (lambda query: ["A text."], "A text."),
        (
            FunctionTool.from_defaults(lambda query: HITS, name="web", description="d"),
            "By Nino Rota.",
        ),
        (Provider(), PASSAGES[0].text),
        (NodeRetriever(OverlapRetriever(k=1)), PASSAGES[0].text),
    ],
)
async def test_many_things_can_search(search, text):
    made, found = found_by(search)
    assert [text for _, text in found] == [text]
    assert pieces(await made.aretrieve(QUESTION)) == pieces(made.retrieve(QUESTION))


async def test_a_coroutine_function_can_search():
    made = MethodRetriever(NodeRetriever(), method=SearchMethod(), search=asearching)
    (found,) = await made.aretrieve(QUESTION)
    assert found.metadata["source"] == "https://example.org/a"
    assert found.metadata["title"] == "Amarcord"
    assert found.metadata["url"] == "https://example.org/a"
    assert "snippet" not in found.metadata


def test_a_tool_that_fails_and_results_that_are_none_are_heard():
    tool = FunctionTool.from_defaults(lambda query: 3, name="web", description="d")
    with pytest.raises(InputError, match="search result"):
        found_by(tool)
    with pytest.raises(InputError, match="search"):
        MethodRetriever(NodeRetriever(), method=SearchMethod(), search=3)
    with pytest.raises(PortError, match="search"):
        found_by(None)


async def test_a_language_model_can_write_for_a_method():
    llm = ScriptedLLM()
    made, _ = found_by(lambda query: [query], llm=llm)
    (found,) = await made.aretrieve("Question: what?")
    assert found.text == "Answer to Question: what?"


def test_it_serves_in_stock_hosts():
    llm = ScriptedLLM()
    engine = RetrieverQueryEngine.from_args(retriever(window=1), llm=llm)
    assert engine.query(QUESTION).source_nodes[0].text == "Nino Rota wrote the score of the film."
    fused = QueryFusionRetriever(
        [retriever(), retriever(weight=0.0)], llm=llm, num_queries=1, use_async=False
    )
    assert fused.retrieve(QUESTION)
