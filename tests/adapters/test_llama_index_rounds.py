"""SlimPLMRetriever and ITRGRetriever in LlamaIndex, and both frameworks over the same stand-ins."""

import asyncio

import pytest
from fakes import QUESTIONS
from langchain_core.runnables import RunnableLambda
from llama_fakes import NodeRetriever, ScriptedLLM
from round_fakes import CLAIMS, LEFT_OPEN, Judge, Proxy, Rewriter, Writer
from test_equal_frameworks import documents, of_documents, of_nodes

from fitrag_integrations import langchain
from fitrag_integrations.llama_index import ITRGRetriever, MethodQueryEngine, SlimPLMRetriever
from fitrag_integrations.methods import ITRG

KNOWN, OPEN = QUESTIONS[0], QUESTIONS[1]
SLIM = [{}, {"k": 1}, {"filter": False}, {"judge_question": False}, {"with_question": True}]
ROUNDS = [{}, {"mode": "refresh"}, {"k": 2, "stop": "empty"}, {"stop": ("empty", "unchanged")}]


def roles():
    return {"proxy": Proxy(), "judge": Judge(), "rewriter": Rewriter()}


def slimplm(**settings):
    return SlimPLMRetriever(NodeRetriever(), **{**roles(), **settings})


def itrg(**settings):
    return ITRGRetriever(NodeRetriever(), **{"llm": Writer(), "rounds": 3, **settings})


@pytest.mark.parametrize("settings", SLIM, ids=str)
@pytest.mark.parametrize("question", QUESTIONS)
def test_slimplm_gives_equal_excerpts_in_both(settings, question):
    one = langchain.SlimPLMRetriever(base=RunnableLambda(documents), **roles(), **settings)
    found = of_nodes(slimplm(**settings).retrieve(question))
    assert bool(found) == (question != KNOWN or "judge_question" in settings)
    assert of_documents(one.invoke(question)) == found
    assert of_documents(asyncio.run(one.ainvoke(question))) == found
    assert of_nodes(asyncio.run(slimplm(**settings).aretrieve(question))) == found


@pytest.mark.parametrize("settings", ROUNDS, ids=str)
@pytest.mark.parametrize("question", QUESTIONS)
def test_itrg_gives_equal_excerpts_in_both(settings, question):
    one = langchain.ITRGRetriever(
        base=RunnableLambda(documents), llm=Writer().runnable(), rounds=3, **settings
    )
    found = of_nodes(itrg(**settings).retrieve(question))
    assert found
    assert of_documents(one.invoke(question)) == found
    assert of_documents(asyncio.run(one.ainvoke(question))) == found
    assert of_nodes(asyncio.run(itrg(**settings).aretrieve(question))) == found


async def test_batches_share_every_call():
    given = roles()
    retriever = slimplm(**given)
    found = retriever.retrieve_many(QUESTIONS)
    calls = [given[name].calls for name in ("proxy", "judge", "rewriter")]
    assert calls == [[3], [3, 4], [2]]
    assert [*map(of_nodes, found)] == [of_nodes(retriever.retrieve(q)) for q in QUESTIONS]
    assert [*map(of_nodes, await retriever.aretrieve_many(QUESTIONS))] == [*map(of_nodes, found)]
    writer = Writer()
    itrg(llm=writer, rounds=2).retrieve_many(QUESTIONS)
    assert writer.calls[0] == 3


def test_llms_take_every_role():
    class Fixed(ScriptedLLM):
        text: str = ""

        def _answer(self, prompt):
            return self.text

    retriever = slimplm(
        proxy=ScriptedLLM(), judge=Fixed(text="Known (False)"), rewriter=Fixed(text=CLAIMS)
    )
    assert retriever.retrieve(KNOWN)
    assert retriever.last_run.value.queries == (LEFT_OPEN, "length of the river")
    assert slimplm(rewriter=None, llm=Fixed(text=CLAIMS)).retrieve(OPEN)
    written = itrg(llm=Fixed(text="A document."), rounds=2)
    assert written.retrieve(OPEN)
    assert written.last_run.value.details["document"] == "A document."


async def test_an_answer_the_method_wrote_is_not_written_again():
    llm, method = ScriptedLLM(), ITRG(rounds=1, answers="last")
    whole = MethodQueryEngine(method, NodeRetriever(), llm=llm).query(OPEN)
    assert len(llm.prompts) == 2  # a document, and the answer
    streaming = MethodQueryEngine(method, NodeRetriever(), llm=llm, streaming=True)
    assert [*streaming.query(OPEN).response_gen] == [whole.response]
    response = await streaming.aquery(OPEN)
    assert [word async for word in response.async_response_gen()] == [whole.response]
    assert len(llm.prompts) == 6
