"""KnowledgeRouter and RetrievalGate: the same decision in every way of asking, streams kept."""

import pytest
from decision_fakes import BrokenGate, WordGate
from fakes import QUESTIONS
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import ConfigurableField, RunnableGenerator, RunnableLambda
from langchain_fakes import Recorder, called

from fitrag_integrations.langchain import KnowledgeRouter, RetrievalGate
from fitrag_integrations.types import RetrievalDecision

KNOWN, UNKNOWN = QUESTIONS[0], QUESTIONS[1]
WHY = "the model seems to know it"


def router(**fields):
    given = {"known": str.upper, "unknown": str.lower}
    return KnowledgeRouter(**{"gate": WordGate(), **given, **fields})


def chat(text):
    return GenericFakeChatModel(messages=iter([AIMessage(text)] * 50))


async def test_the_decision_can_be_asked_for():
    expected = RetrievalDecision(False, 0.9, 0.6, WHY)
    assert router().decide(KNOWN) == await router().adecide(KNOWN) == expected
    assert router(threshold=0.95).decide(KNOWN).retrieve
    assert router(threshold=0.9).decide(KNOWN).retrieve  # known only above it
    assert router(threshold=0.0).decide(UNKNOWN) == RetrievalDecision(False, 0.2, 0.0, WHY)
    assert router(gate=WordGate(threshold=None)).decide(KNOWN).threshold == 0.5
    gate = RetrievalGate(gate=WordGate())
    assert gate.invoke(KNOWN) == await gate.ainvoke(KNOWN) == expected.to_dict()


@pytest.mark.parametrize("key", [None, "input", "question", "query"])
def test_a_dict_reaches_the_branch_unchanged(key):
    given = {key or "question": KNOWN, "history": ["before"]}
    same = router(known=lambda got: got, question_key=key)
    assert same.invoke(given) == given
    other = {"text": KNOWN}
    assert router(known=lambda got: got, question_key="text").invoke(other) is other
    assert router(known=lambda got: got).invoke({"input": HumanMessage(KNOWN)})


async def test_a_stream_passes_through():
    seen = []

    def slowly(inputs):
        for _ in inputs:
            for word in ("a", "b", "c"):
                seen.append(word)
                yield word

    routed = router(known=RunnableGenerator(slowly))
    stream = routed.stream(KNOWN)
    assert next(stream) == "a"
    assert seen == ["a"]
    assert list(stream) == ["b", "c"]
    words = [word async for word in router(known=chat("a b") | StrOutputParser()).astream(KNOWN)]
    assert words == ["a", " ", "b"]


WAYS = ("invoke", "ainvoke", "batch", "abatch", "stream", "astream")


@pytest.mark.parametrize("how", WAYS)
async def test_the_decision_is_a_run_of_its_own(how):
    recorder = Recorder()
    drafter = FakeListChatModel(responses=["Nino Rota did"])
    known = RunnableLambda(str.upper, name="branch")
    routed = router(known=known, gate=WordGate(draft_tokens=32), drafter=drafter)
    await called(routed, how, KNOWN, {"callbacks": [recorder], "tags": ["mine"]})
    for name in ("RetrievalGate", "branch"):
        runs = recorder.named(name)
        assert len(runs) == (2 if "batch" in how else 1)
        assert {recorder.parent_of(run) for run in runs} == {"KnowledgeRouter"}
        assert {"mine"} <= set(runs[0]["tags"])
    gate, branch = recorder.named("RetrievalGate")[0], recorder.named("branch")[0]
    decision = {"retrieve": False, "p_known": 0.9, "threshold": 0.6, "why": WHY}
    assert (gate["input"], gate["end"]) == (KNOWN, decision)
    assert branch["metadata"]["fitrag"] == decision
    assert "fitrag" not in gate["metadata"]
    drafts = recorder.named("FakeListChatModel")
    assert {recorder.parent_of(run) for run in drafts} == {"RetrievalGate"}


async def test_branches_get_what_the_caller_has_to_say():
    def shouted(question, *, mark="!"):
        return question + mark

    routed = router(known=shouted)
    assert routed.invoke(KNOWN, mark="?") == f"{KNOWN}?"
    assert await routed.ainvoke(KNOWN, mark="?") == f"{KNOWN}?"
    assert list(routed.stream(KNOWN, mark="?")) == [f"{KNOWN}?"]


def test_it_can_be_configured_retried_and_replaced():
    routed = router().configurable_fields(threshold=ConfigurableField("threshold"))
    assert routed.invoke(KNOWN) == KNOWN.upper()
    assert routed.invoke(KNOWN, {"configurable": {"threshold": 0.95}}) == KNOWN.lower()
    strict = router(gate=BrokenGate(), on_error="raise")
    assert strict.with_fallbacks([router()]).invoke(KNOWN) == KNOWN.upper()
    calls = []

    def shaky(question):
        calls.append(question)
        if len(calls) < 2:
            raise ConnectionError
        return question

    assert router(known=shaky).with_retry(wait_exponential_jitter=False).invoke(KNOWN) == KNOWN
