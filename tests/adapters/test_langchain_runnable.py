"""MethodRunnable: traced contexts, answers, streams and batches."""

import copy
import pickle

import pytest
from fakes import QUESTIONS, LongestWordReader, OverlapScorer
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_fakes import OverlapBase

from fitrag_integrations.flow import Traced, run
from fitrag_integrations.langchain import Answer, MethodRunnable
from fitrag_integrations.langchain.base.ports import Offer
from fitrag_integrations.methods import FitRag
from fitrag_integrations.types import Context

QUESTION = QUESTIONS[0]


def method(**fields):
    return FitRag(OverlapScorer(), window=1, max_tokens=60, **fields)


def runnable(**fields):
    return MethodRunnable(**{"method": method(), "retriever": OverlapBase(), **fields})


def echo(prompt):
    """Answer with the prompt's last line, so that each answer tells its question."""
    return prompt.strip().splitlines()[-1].upper()


def chat(text):
    return GenericFakeChatModel(messages=iter([AIMessage(text)] * 50))


async def test_without_a_model_it_gives_the_traced_context():
    traced = runnable().invoke(QUESTION)
    assert isinstance(traced, Traced)
    expected = run(method()(QUESTION, Offer.of(OverlapBase()).to({}))).value
    assert traced.value == expected
    assert (await runnable().ainvoke(QUESTION)).value == expected
    assert [step.port for step in traced.steps] == ["retrieve", "score"]
    assert traced.explain().startswith(f"question: {QUESTION}")


async def test_with_a_model_it_answers_in_text():
    answering = runnable(llm=chat("Nino Rota"))
    answer = answering.invoke(QUESTION)
    assert answer == "Nino Rota"
    assert isinstance(answer, Answer)
    assert isinstance(answer.context, Context)
    assert answer.prompt == answer.context.prompt()
    assert (answer.source, answer.score, answer.text) == (None, None, "Nino Rota")
    assert answer.explain().splitlines()[0] == f"question: {QUESTION}"
    assert "answer: Nino Rota" in answer.explain().splitlines()
    assert answer.to_dict()["text"] == "Nino Rota"
    again = await answering.ainvoke(QUESTION)
    assert again == "Nino Rota"
    assert [step.port for step in again.traced.steps] == ["retrieve", "score", "generate"]


async def test_a_reader_answers_from_the_passages():
    reader = LongestWordReader()
    reading = runnable(reader=reader, llm=chat("never asked"))
    answer = reading.invoke(QUESTION)
    source = answer.source
    assert answer == source.text == source.passage.text[source.start : source.end]
    assert type(answer.score) is float
    assert reading.batch(list(QUESTIONS))[0] == answer
    assert len(reader.batches) == 2
    assert list(reading.stream(QUESTION)) == [answer]
    assert [each async for each in reading.astream(QUESTION)] == [answer]


async def test_the_models_words_are_streamed():
    streaming = runnable(llm=chat("Nino Rota wrote it"))
    words = list(streaming.stream(QUESTION))
    assert len(words) > 3
    assert "".join(words) == streaming.invoke(QUESTION)
    assert [word async for word in streaming.astream(QUESTION)] == words
    assert all(type(word) is str for word in words)


async def test_a_stream_without_a_model_is_one_trace():
    (traced,) = runnable().stream(QUESTION)
    assert isinstance(traced.value, Context)
    found = [each async for each in runnable().astream(QUESTION)]
    assert [each.value for each in found] == [traced.value]


async def test_a_batch_asks_everything_once():
    base, scorer = OverlapBase(), OverlapScorer()
    asked = []

    class Model(FakeListChatModel):
        def batch(self, inputs, config=None, **kwargs):
            asked.append(len(inputs))
            return super().batch(inputs, config, **kwargs)

        async def abatch(self, inputs, config=None, **kwargs):
            asked.append(len(inputs))
            return await super().abatch(inputs, config, **kwargs)

    whole = runnable(method=FitRag(scorer), retriever=base, llm=Model(responses=["same"]))
    answers = whole.batch(list(QUESTIONS))
    assert answers == ["same"] * 3
    assert [answer.context.question for answer in answers] == list(QUESTIONS)
    assert (base.batches, asked, scorer.calls) == ([3], [3], 1)
    assert await whole.abatch(list(QUESTIONS)) == answers
    assert (base.batches, asked, scorer.calls) == ([3, 3], [3, 3], 2)


async def test_a_question_that_fails_leaves_the_others():
    whole = runnable(retriever=OverlapBase(bad=QUESTIONS[1]), llm=echo)
    for found in (
        whole.batch(list(QUESTIONS), return_exceptions=True),
        await whole.abatch(list(QUESTIONS), return_exceptions=True),
    ):
        assert [type(each) for each in found] == [Answer, ConnectionError, Answer]
    with pytest.raises(ConnectionError):
        list(whole.stream(QUESTIONS[1]))
    with pytest.raises(ConnectionError):
        whole.invoke(QUESTIONS[1])


def test_a_method_that_raises_when_called_fails_alone():
    def picky(question, ports):
        if question == QUESTIONS[1]:
            raise KeyError(question)
        return method()(question, ports)

    found = runnable(method=picky).batch(list(QUESTIONS), return_exceptions=True)
    assert [type(each) for each in found] == [Traced, KeyError, Traced]


def test_pickle_copy_and_repr():
    whole = runnable(llm=echo, template="simple")
    assert repr(whole) == (
        "MethodRunnable(method=FitRag, retriever=OverlapBase, llm=RunnableLambda, "
        "template='simple')"
    )
    answer = runnable(llm=chat("Nino Rota")).invoke(QUESTION)
    for twin in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
        assert isinstance(twin, Answer)
        assert (twin, twin.context, twin.prompt) == (answer, answer.context, answer.prompt)
    traced = pickle.loads(pickle.dumps(runnable().invoke(QUESTION)))
    assert traced.value == runnable().invoke(QUESTION).value
    reading = pickle.loads(pickle.dumps(runnable(reader=LongestWordReader())))
    assert reading.invoke(QUESTION) == runnable(reader=LongestWordReader()).invoke(QUESTION)
