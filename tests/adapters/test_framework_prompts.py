"""The same prompts in both frameworks, from one source."""

from string import Formatter

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from llama_fakes import ScriptedLLM, node
from llama_index.core import PromptTemplate as LlamaPromptTemplate
from llama_index.core.response_synthesizers import get_response_synthesizer

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods import prompt_named
from fitrag_integrations.methods.prompts import PROMPTS, TEMPLATES
from fitrag_integrations.types import Context, Excerpt, Passage

SLY = "{question} {0} {{x}} } {context_str!r:>9}"
CONTEXT = Context(
    "Who wrote {x}?",
    (Excerpt.whole(Passage("f", "Nino Rota. " + SLY, "Film")),),
    draft="A {draft} of it.",
)
SHOWN = "1. Film: Nino Rota. " + SLY
GIVEN = {"context": SHOWN, "question": CONTEXT.question, "draft": CONTEXT.draft}
ASKED = [
    *("comprehensive", "background_first", "retrieval", "no_retrieval", "cot", "simple"),
    *("slimplm_short", "slimplm_long", "crag", "crag_verdict", "crag_keywords"),
    *("itrg_refine", "itrg_refresh", "itrg_answer"),
]


def fields_of(text):
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_every_template_and_every_name_of_the_papers_is_a_prompt():
    assert set(ASKED) <= set(PROMPTS)
    assert set(PROMPTS) == set(TEMPLATES) | {"comprehensive", "background_first"}
    assert prompt_named("comprehensive") == prompt_named("retrieval")
    assert prompt_named("Background-First") == prompt_named("no_retrieval")


@pytest.mark.parametrize("name", PROMPTS)
def test_both_frameworks_write_the_same_text_as_we_do(name):
    ours, theirs = langchain.prompt(name), llama_index.prompt(name)
    assert isinstance(ours, ChatPromptTemplate) and isinstance(theirs, LlamaPromptTemplate)
    fields = fields_of(PROMPTS[name])
    assert fields <= set(GIVEN) and set(ours.input_variables) == fields
    given = {field: GIVEN[field] for field in fields}
    (message,) = ours.format_messages(**given)
    own = {"comprehensive": "retrieval", "background_first": "no_retrieval"}.get(name, name)
    assert message.type == "human"
    assert message.content == theirs.format(**given) == CONTEXT.prompt(TEMPLATES[own])
    named = {"context": "context_str", "question": "query_str", "draft": "draft"}
    assert theirs.format(**{named[field]: value for field, value in given.items()}) == (
        message.content
    )


@pytest.mark.parametrize("wrong", ["nope", "", None, 7])
def test_an_unknown_name_lists_those_there_are(wrong):
    for make in (prompt_named, langchain.prompt, llama_index.prompt):
        with pytest.raises(InputError, match=r"prompt` must be one of comprehensive, .*itrg_ref"):
            make(wrong)


def test_in_a_chain():
    documents = [Document(page_content="Nino Rota. " + SLY, metadata={"title": "Film"})]
    chain = {
        "context": RunnableLambda(lambda _: documents) | langchain.numbered_documents,
        "question": RunnablePassthrough(),
    } | langchain.prompt("comprehensive")
    text = chain.invoke("Who?").to_string()
    assert SLY in text and text.startswith("Human: Refer to the passages below")


def test_in_a_synthesizer():
    llm = ScriptedLLM()
    synthesizer = get_response_synthesizer(
        llm=llm, text_qa_template=llama_index.prompt("simple"), response_mode="compact"
    )
    synthesizer.synthesize("Who?", nodes=[node(Passage("f", "Nino Rota. " + SLY))])
    (text,) = llm.prompts
    assert text.startswith("Refer to the passages below") and SLY in text
    assert text.endswith("Question: Who?\nThe answer is")
