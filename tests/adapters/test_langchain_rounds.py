"""SlimPLMRetriever and ITRGRetriever in LangChain."""

import json

from fakes import QUESTIONS
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_fakes import OverlapBase, Recorder
from round_fakes import CLAIMS, LEFT_OPEN, Judge, Proxy, Rewriter, Writer

from fitrag_integrations.langchain import ITRGRetriever, MethodRunnable, SlimPLMRetriever
from fitrag_integrations.methods import ITRG

KNOWN, OPEN = QUESTIONS[0], QUESTIONS[1]


def slimplm(**fields):
    made = {"base": OverlapBase(), "proxy": Proxy(), "judge": Judge(), "rewriter": Rewriter()}
    return SlimPLMRetriever(**{**made, **fields})


def itrg(writer=None, **fields):
    writer = Writer() if writer is None else writer
    return ITRGRetriever(**{"base": OverlapBase(), "llm": writer.runnable(), "rounds": 2, **fields})


def test_a_known_question_is_not_retrieved_for():
    base = OverlapBase()
    assert slimplm(base=base).invoke(KNOWN) == []
    assert base.batches == []


def test_an_open_question_is_retrieved_for_by_its_claims():
    found = slimplm(k=2).invoke(OPEN)
    assert len(found) == 2
    told = found.context.to_dict()
    assert told["method"] == "slimplm"
    assert told["queries"] == [LEFT_OPEN]
    assert [verdict["known"] for verdict in told["details"]["verdicts"]] == [False, True]
    assert json.loads(json.dumps(found[0].metadata)) == found[0].metadata


async def test_batches_share_every_call():
    for retriever in (slimplm(), itrg()):
        one_by_one = [retriever.invoke(question) for question in QUESTIONS]
        assert await retriever.abatch(list(QUESTIONS)) == one_by_one
        assert retriever.batch(list(QUESTIONS)) == one_by_one
        assert await retriever.ainvoke(OPEN) == one_by_one[1]
    proxy, judge, rewriter, base = Proxy(), Judge(), Rewriter(), OverlapBase()
    slimplm(proxy=proxy, judge=judge, rewriter=rewriter, base=base).batch(list(QUESTIONS))
    assert (proxy.calls, judge.calls, rewriter.calls, base.batches) == ([3], [3, 4], [2], [2])
    writer, base = Writer(), OverlapBase()
    itrg(writer, base=base).batch(list(QUESTIONS))
    assert base.batches == [3, 3]
    assert writer.calls[0] == 3


def test_runnables_take_every_role():
    recorder, base = Recorder(), OverlapBase()
    retriever = slimplm(
        base=base,
        proxy=FakeListChatModel(responses=["a guess"] * 9),
        judge=RunnableLambda(lambda prompt: "Known (False)").with_config(run_name="judge"),
        rewriter=RunnableLambda(lambda prompt: CLAIMS),
    )
    assert len(retriever.batch(list(QUESTIONS), config={"callbacks": [recorder]})) == 3
    assert base.batches == [6]  # both claims of each question, in one call
    judged = recorder.named("judge")
    assert {recorder.parent_of(run) for run in judged} == {"SlimPLMRetriever"}
    assert len(judged) == 9  # each question, and its two claims


def test_the_llm_writes_claims_where_there_is_no_rewriter():
    found = slimplm(rewriter=None, llm=RunnableLambda(lambda prompt: CLAIMS)).invoke(OPEN)
    assert found.context.queries == (LEFT_OPEN,)
    told = slimplm(rewriter=None).invoke(OPEN).context.to_dict()
    assert told["notes"] == [
        "no rewriter and no generate port were given: the question itself is retrieved for"
    ]


def test_rounds_and_their_texts_are_in_the_context():
    writer = Writer()
    found = itrg(writer, k=3).invoke(OPEN)
    assert len(found) == 3
    details = found.context.details
    assert details["rounds"][1]["query"] == f"{OPEN} Document 1."
    assert details["document"] == writer.written[-1]
    assert len(itrg(k=3).invoke(OPEN, k=1)) == 1
    assert len(itrg(k=None).invoke(OPEN)) == 5


def test_a_writer_that_fails_on_one_question_leaves_the_others():
    good = itrg().batch([KNOWN, QUESTIONS[2]])
    found = itrg(Writer(bad="Danube")).batch(list(QUESTIONS))
    assert [found[0], found[2]] == good
    assert "the language model wrote no document" in found[1].context.notes[0]
    strict = itrg(Writer(bad="Danube"), on_error="raise")
    failed = strict.batch(list(QUESTIONS), return_exceptions=True)
    assert [*map(type, failed)] == [type(good[0]), RuntimeError, type(good[0])]


async def test_an_answer_the_method_wrote_is_not_written_again():
    writer = Writer()
    method = ITRG(rounds=1, answers="last")
    runnable = MethodRunnable(method=method, retriever=OverlapBase(), llm=writer.runnable())
    assert [*runnable.stream(OPEN)] == ["Document 2."]  # the prompt for the answer shows the first
    assert [word async for word in runnable.astream(OPEN)] == ["Document 2."]
    assert runnable.invoke(OPEN) == "Document 2."
    assert len(writer.written) == 6  # a document and an answer each
