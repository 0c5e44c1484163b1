"""Methods as retrievers: one question, many in lock step, sync and async, in hosts."""

import threading

import pytest
from fakes import QUESTIONS, FixedGate, OverlapScorer
from llama_fakes import Events, NodeRetriever, ScriptedLLM
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import FunctionTool

from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.llama_index import FitRagRetriever, MethodRetriever, RetrievalSkippedEvent
from fitrag_integrations.types import Context, Excerpt

QUESTION = QUESTIONS[0]


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


def test_a_gate_skips_retrieval_and_says_so():
    base, gate = NodeRetriever(), FixedGate(0.75)
    with Events() as events:
        assert retriever(base=base, gate=gate).retrieve(QUESTION) == []
    assert base.found.batches == []
    (skipped,) = events.of(RetrievalSkippedEvent)
    assert (skipped.query, skipped.p_known, skipped.threshold) == (QUESTION, 0.75, 0.5)
    assert "know" in skipped.why


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


async def test_a_base_without_an_async_side_is_called_in_a_thread():
    threads = set()

    class Plain(BaseRetriever):  # the framework's own async side calls the sync one
        def _retrieve(self, query_bundle):
            threads.add(threading.get_ident())
            return []

    await retriever(base=Plain()).aretrieve_many(QUESTIONS)
    assert threads and threading.get_ident() not in threads


def test_a_trace_can_be_had():
    (traced,) = retriever(max_share=None).trace_many([QUESTION])
    assert [step.port for step in traced.steps] == ["retrieve", "score", "score"]
    assert "kept 4 excerpts" in traced.explain()
    (failed,) = retriever().trace_many([""])
    assert isinstance(failed.error, InputError)


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
