"""Methods as retrievers: one question, many in lock step, sync and async, in hosts."""

import threading

import pytest
from by_sentence import BySentence
from fakes import QUESTIONS, FixedGate, OverlapScorer, WordEncoder
from llama_fakes import Events, NodeRetriever
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import IndexNode, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool

from fitrag_integrations import llama_index as li
from fitrag_integrations.errors import InputError, PortError
from fitrag_integrations.types import Context, Excerpt

QUESTION = QUESTIONS[0]


def retriever(scorer=None, base=None, **settings):
    return li.FitRagRetriever(
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
    (skipped,) = events.of(li.RetrievalSkippedEvent)
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


class Best(li.FitRagRetriever):
    def __init__(self, base, best):
        super().__init__(base, scorer=OverlapScorer())
        self.best = best  # an attribute of its own

    def _retrieve(self, query_bundle):
        return super()._retrieve(query_bundle)[: self.best]


class AsyncBest(li.FitRagRetriever):
    async def _aretrieve(self, query_bundle):
        return (await super()._aretrieve(query_bundle))[:1]


async def test_a_subclass_answers_by_its_own_retrieve_in_every_way():
    own, waiting = Best(NodeRetriever(), 1), AsyncBest(NodeRetriever(), scorer=OverlapScorer())
    assert len(own.retrieve(QUESTION)) == len(await own.aretrieve(QUESTION)) == 1
    assert [len(found) for found in own.retrieve_many(QUESTIONS)] == [1, 1, 1]
    for one in (own, waiting):
        assert [len(found) for found in await one.aretrieve_many(QUESTIONS)] == [1, 1, 1]
    bad, good = Best(NodeRetriever(bad=QUESTION), 1).retrieve_many(
        QUESTIONS[:2], return_exceptions=True
    )
    assert isinstance(bad, ConnectionError) and len(good) == 1


async def test_what_the_base_class_takes_and_does_holds_in_batches_too():
    part = IndexNode(text="Rivers of Europe.", index_id="rivers")
    stored = {"rivers": TextNode(text="The Danube ends in the Black Sea.")}
    made = li.FaissRetriever.from_nodes(
        [part], encoder=WordEncoder(), object_map=stored, verbose=True
    )
    one = retriever(ids="source", scorer=BySentence(OverlapScorer().score), max_share=None)
    for each, question in ((made, "Which rivers?"), (one, QUESTION)):
        found = each.retrieve(question)
        assert each.retrieve_many([question]) == [found] == await each.aretrieve_many([question])
    assert [node.text for node in made.retrieve("Which rivers?")] == [stored["rivers"].text]
    assert len({node.node_id for node in one.retrieve(QUESTION)}) == len(one.retrieve(QUESTION))


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


async def test_a_trace_can_be_had():
    (traced,) = retriever(max_share=None).trace_many([QUESTION])
    (again,) = await retriever(max_share=None).atrace_many([QUESTION])
    assert [step.port for step in traced.steps] == ["retrieve", "score"]
    assert "kept 4 excerpts" in traced.explain() and again.value == traced.value
    (failed,) = retriever().trace_many([""])
    assert isinstance(failed.error, InputError)


def found_by(search, **settings):
    made = li.MethodRetriever(NodeRetriever(), method=SearchMethod(), search=search, **settings)
    return made, [(n.node.node_id, n.node.text) for n in made.retrieve(QUESTION)]


def test_a_tool_that_fails_and_results_that_are_none_are_heard():
    tool = FunctionTool.from_defaults(lambda query: 3, name="web", description="d")
    with pytest.raises(InputError, match="search result"):
        found_by(tool)
    with pytest.raises(InputError, match="search"):
        li.MethodRetriever(NodeRetriever(), method=SearchMethod(), search=3)
    with pytest.raises(PortError, match="search"):
        found_by(None)
