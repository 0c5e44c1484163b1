"""Gates in LlamaIndex: the selector in the stock routers, and the engine that skips retrieval."""

import json

import pytest
from decision_fakes import WordGate
from fakes import QUESTIONS, OverlapScorer
from llama_fakes import EmptyRetriever, Events, NodeRetriever, ScriptedLLM
from llama_index.core import PromptTemplate as LlamaPromptTemplate
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.query_engine import CustomQueryEngine, RetrieverQueryEngine
from test_llama_index_query_engine import engine

from fitrag_integrations import llama_index as li
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods import FitRag, PromptTemplate

KNOWN, UNKNOWN, _ = QUESTIONS
MANY = [f"{'Amarcord' if at % 3 else 'Danube'} number {at}?" for at in range(32)]


def stock(llm=None, **settings):
    return RetrieverQueryEngine.from_args(
        NodeRetriever(), llm=llm or ScriptedLLM(), response_mode="compact", **settings
    )


def router(gate=None, *, llm=None, retrieve=None, **settings):
    return li.KnowledgeRouterQueryEngine(
        gate=gate or WordGate(), retrieve=retrieve or stock(), llm=llm or ScriptedLLM(), **settings
    )


def retrieved(response):
    return response.metadata["fitrag"]["decision"]["retrieve"]


def steps(response):
    return [(step["port"], step["count"]) for step in response.metadata["fitrag"]["steps"]]


def test_the_engines_stream_passes_through_as_it_is():
    given = stock(streaming=True)
    seen = []

    class Watched(CustomQueryEngine):
        def custom_query(self, query_str):
            response = given.query(query_str)
            response.metadata = None
            seen.append(response)
            return response

    response = router(retrieve=Watched()).query(UNKNOWN)
    assert response is seen[0] and response.response_txt is None  # nobody has read it yet
    assert retrieved(response)
    assert len(list(response.response_gen)) == 2


class Echo:
    """Write how many prompts came together."""

    def generate(self, prompts):
        return [f"{len(prompts)} asked" for _ in prompts]


@pytest.mark.parametrize("make", [engine, router])
async def test_a_plain_generator_will_do(make):
    assert make(llm=Echo()).query(KNOWN).response == "1 asked"
    streaming = make(llm=Echo(), streaming=True)
    assert list(streaming.query(KNOWN).response_gen) == ["1 asked"]
    streamed = await streaming.aquery(KNOWN)
    assert [piece async for piece in streamed.async_response_gen()] == ["1 asked"]
    for made in (make(llm=Echo()), streaming):
        assert [r.response for r in made.query_many([KNOWN, KNOWN])] == ["2 asked"] * 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: li.MethodQueryEngine(FitRag(OverlapScorer()), NodeRetriever()),
        lambda: li.KnowledgeRouterQueryEngine(WordGate(), retrieve=stock()),
    ],
)
def test_the_settings_llm_is_the_default(monkeypatch, make):
    llm = ScriptedLLM()
    monkeypatch.setattr(Settings, "_llm", llm)
    assert make().query(KNOWN).response == f"Answer to Question: {KNOWN}"
    assert len(llm.prompts) == 1


async def test_empty_response_is_never_said():
    nothing = RetrieverQueryEngine.from_args(EmptyRetriever(), llm=ScriptedLLM())
    made = router(retrieve=nothing)
    assert str(nothing.query(KNOWN)) == "Empty Response"  # what it is about
    answers = [made.query(KNOWN), await made.aquery(KNOWN), *made.query_many([KNOWN])]
    assert {str(answer) for answer in answers} == {f"Answer to Question: {KNOWN}"}


async def test_an_engine_that_takes_many_gets_them_in_one_call():
    scorers = OverlapScorer(), OverlapScorer()
    engines = [
        router(
            retrieve=li.MethodQueryEngine(
                FitRag(scorer, top_n=2), NodeRetriever(), llm=ScriptedLLM()
            )
        )
        for scorer in scorers
    ]
    sync, found = engines[0].query_many(MANY), await engines[1].aquery_many(MANY)
    assert scorers[0].calls == scorers[1].calls == 2  # passages, then windows
    assert [r.response for r in sync] == [r.response for r in found]
    inner = sync[0].metadata["fitrag"]["engine"]
    assert (sync[0].metadata["fitrag"]["method"], inner["method"]) == ("iknow", "fitrag")


async def test_events_come_on_every_path():
    debug = LlamaDebugHandler(print_trace_on_end=False)
    made = router(callback_manager=CallbackManager([debug]))
    streaming = router(streaming=True)
    with Events() as events:
        made.query(KNOWN)
        await made.aquery(KNOWN)
        streaming.query(KNOWN)
        await streaming.aquery(KNOWN)
        made.query_many([KNOWN])
        decided, skipped = events.of(li.RouteDecisionEvent), events.of(li.RetrievalSkippedEvent)
        assert len(decided) == len(skipped) == 5
        assert len(events.of(QueryStartEvent)) == len(events.of(QueryEndEvent)) == 5
    told = {(e.query, e.route, e.p_known, e.threshold) for e in decided}
    assert told == {(KNOWN, "known", 0.9, 0.6)}
    assert json.loads(decided[0].model_dump_json())["why"] == "the model seems to know it"
    assert len(debug.get_event_pairs(CBEventType.QUERY)) == 2
    with Events() as events:
        made.query(UNKNOWN)
        await made.aquery_many([UNKNOWN])
    assert [event.route for event in events.of(li.RouteDecisionEvent)] == ["unknown"] * 2
    assert events.of(li.RetrievalSkippedEvent) == []


def test_templates_of_both_kinds():
    llm = ScriptedLLM()
    router(llm=llm, template="simple").query(KNOWN)
    router(llm=llm, template=PromptTemplate("mine", "Mine: {question}")).query(KNOWN)
    made = router(llm=llm, template=LlamaPromptTemplate("Stock: {query_str}"))
    made.query(KNOWN)
    assert llm.prompts[0].endswith("The answer is")
    assert llm.prompts[1:] == [f"Mine: {KNOWN}", f"Stock: {KNOWN}"]
    made.update_prompts({"no_retrieval_template": LlamaPromptTemplate("New: {query_str}")})
    made.query(KNOWN)
    assert llm.prompts[3] == f"New: {KNOWN}"
    assert "no_retrieval_template" in made.get_prompts()
    assert "retrieve:response_synthesizer:text_qa_template" in made.get_prompts()


def test_without_a_model_the_engine_still_answers(monkeypatch):
    monkeypatch.setattr(Settings, "_llm", None)
    for settings in ({}, {"streaming": True}):
        made = li.KnowledgeRouterQueryEngine(WordGate(), retrieve=stock(), **settings)
        assert retrieved(made.query(UNKNOWN))


async def test_the_choices_are_found_by_index():
    selector = li.KnowledgeSelector(WordGate(), known=2, unknown=0)
    assert selector.select(["a", "b", "c"], KNOWN).ind == 2
    assert (await selector.aselect(["a", "b", "c"], UNKNOWN)).ind == 0
    assert selector.get_prompts() == {}
    selector.update_prompts({})
    for choices in (["a", "b"], []):
        with pytest.raises(InputError, match="known` must be"):
            selector.select(choices, KNOWN)
        with pytest.raises(InputError, match="known` must be"):
            await selector.aselect(choices, KNOWN)


async def test_the_selector_tells_its_decision():
    selector = li.KnowledgeSelector(WordGate())
    with Events() as events:
        selector.select(["a", "b"], KNOWN)
        await selector.aselect(["a", "b"], UNKNOWN)
    assert [event.route for event in events.of(li.RouteDecisionEvent)] == ["known", "unknown"]
    (skipped,) = events.of(li.RetrievalSkippedEvent)
    assert (skipped.query, skipped.p_known) == (KNOWN, 0.9)
