"""Methods as query engines: generated and extracted answers, streams, hosts, events."""

import asyncio
import threading

import pytest
from fakes import QUESTIONS, LongestWordReader, OverlapScorer
from llama_fakes import EmptyRetriever, MockChat, NodeRetriever, ScriptedLLM
from llama_index.core import PromptTemplate as LlamaPromptTemplate
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.llms import MockLLM
from llama_index.core.schema import QueryBundle

from fitrag_integrations.llama_index import MethodQueryEngine
from fitrag_integrations.methods import FitRag, PromptTemplate
from fitrag_integrations.methods.prompts import NOTHING_FOUND
from fitrag_integrations.types import Context

QUESTION = QUESTIONS[0]


def engine(llm=None, retriever=None, scorer=None, gate=None, **settings):
    method = FitRag(scorer or OverlapScorer(), gate=gate, window=1)
    if "reader" not in settings:
        llm = llm or ScriptedLLM()
    return MethodQueryEngine(
        method=method, retriever=retriever or NodeRetriever(), llm=llm, **settings
    )


def test_the_model_is_asked_with_the_methods_prompt():
    llm = ScriptedLLM()
    response = engine(llm).query(QUESTION)
    assert type(response) is Response
    assert response.response == f"Answer to Question: {QUESTION}"
    assert "1. Amarcord, film: Nino Rota wrote the score of the film." in llm.prompts[0]
    assert response.source_nodes[0].text == "Nino Rota wrote the score of the film."


async def test_a_reader_extracts_the_answer():
    llm = ScriptedLLM()
    made = engine(llm, reader=LongestWordReader())
    for response in (made.query(QUESTION), await made.aquery(QUESTION)):
        answer = response.metadata["fitrag"]["answer"]
        source = next(p for p in NodeRetriever().found.passages if p.id == answer["source_id"])
        assert source.text[answer["start"] : answer["end"]] == response.response
    assert llm.prompts == []


def test_a_stream_is_a_stream():
    response = engine(streaming=True).query(QUESTION)
    assert type(response) is StreamingResponse
    tokens = list(response.response_gen)
    assert len(tokens) > 3
    assert "".join(tokens) == f"Answer to Question: {QUESTION}"
    assert response.source_nodes[0].text == "Nino Rota wrote the score of the film."
    assert response.metadata["fitrag"]["method"] == "fitrag"


@pytest.mark.parametrize("llm", [ScriptedLLM(), MockLLM(), MockChat()])
async def test_an_async_stream_is_a_stream(llm):
    made = engine(llm, streaming=True)
    response = await made.aquery(QUESTION)
    assert type(response) is AsyncStreamingResponse
    tokens = [token async for token in response.async_response_gen()]
    assert len(tokens) > 3
    assert "".join(tokens).strip() == str(made.query(QUESTION)).strip()


async def test_an_extracted_answer_streams_in_one_piece():
    made = engine(reader=LongestWordReader(), streaming=True)
    (token,) = made.query(QUESTION).response_gen
    response = await made.aquery(QUESTION)
    assert [piece async for piece in response.async_response_gen()] == [token]


async def test_many_questions_are_one_batch_per_step():
    scorer, reader = OverlapScorer(), LongestWordReader()
    responses = engine(scorer=scorer, reader=reader).query_many(QUESTIONS)
    assert (scorer.calls, len(reader.batches)) == (1, 1)
    alone = [engine(reader=LongestWordReader()).query(question) for question in QUESTIONS]
    assert [r.response for r in responses] == [r.response for r in alone]
    again = await engine(reader=reader).aquery_many([QueryBundle(q) for q in QUESTIONS])
    assert [r.source_nodes for r in again] == [r.source_nodes for r in alone]


STOCK = LlamaPromptTemplate("Stock: {context_str}\nQuestion: {query_str}")


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("simple", "The answer is"),
        (PromptTemplate("mine", "Mine: {question} {passages}"), f"Mine: {QUESTION} 1. Amarcord"),
        (STOCK, "Stock: 1. Amarcord"),
        ("Theirs: {context_str}\nQ: {query_str}", "Theirs: 1. Amarcord"),
        ("Ours: {context}\nQ: {question}", "Ours: 1. Amarcord"),
    ],
)
def test_a_template_of_any_kind(template, shown):
    llm = ScriptedLLM()
    engine(llm, template=template).query(QUESTION)
    assert shown in llm.prompts[0] and QUESTION in llm.prompts[0]


def test_a_template_is_kept_for_what_was_found_and_can_be_updated():
    llm = ScriptedLLM()
    engine(llm, template=STOCK, retriever=EmptyRetriever()).query(QUESTION)
    made = engine(llm, template=STOCK)
    assert set(made.get_prompts()) == {"text_qa_template"}
    made.update_prompts({"text_qa_template": LlamaPromptTemplate("New: {query_str}")})
    made.query(QUESTION)
    assert llm.prompts == [NOTHING_FOUND.render(Context(QUESTION)), f"New: {QUESTION}"]


def test_retrieve_gives_what_would_be_answered_from():
    made = engine()
    bundle = QueryBundle(QUESTION)
    found = made.retrieve(bundle)
    assert found == made.query(QUESTION).source_nodes == asyncio.run(made.aretrieve(bundle))


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_model_without_an_async_side_is_called_in_a_thread(streaming):
    llm = ScriptedLLM()
    response = await engine(llm, streaming=streaming).aquery(QUESTION)
    if streaming:
        assert [token async for token in response.async_response_gen()]
    assert llm._threads and threading.get_ident() not in llm._threads
