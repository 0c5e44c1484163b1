"""Whatever a framework calls a language model works as the model of a gate and as a drafter."""

from __future__ import annotations

import asyncio

import pytest
from fakes import FixedGate
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough
from llama_fakes import MockChat, ScriptedLLM
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockLLMWithNonyieldingChatStream

from fitrag_integrations.flow import run
from fitrag_integrations.langchain import RetrievalGate
from fitrag_integrations.langchain.base.ports import Writer
from fitrag_integrations.methods import AskGate, Decider, SlimPLM
from fitrag_integrations.ports import Ports, model_name, port_of, writer_of

QUESTION = "Who wrote the score of Amarcord?"


class Broken(FakeListChatModel):
    def _call(self, *args, **kwargs):
        raise ConnectionError("away")


class Blocks(FakeListChatModel):
    """Answer in blocks of content, a thought first."""

    def invoke(self, *args, **kwargs):
        text = super().invoke(*args, **kwargs).content
        thought = {"type": "reasoning", "reasoning": "No, no, no"}
        return AIMessage([thought, {"type": "text", "text": text}])


def chat(*replies: str) -> FakeListChatModel:
    return FakeListChatModel(responses=list(replies or ["Yes"]))


def alternatives():
    field = ConfigurableField(id="llm")
    return chat().configurable_alternatives(field, default_key="a", b=chat("No"))


LANGCHAIN = {
    "chat": chat,
    "completion": lambda: FakeListLLM(responses=["Yes"]),
    "with_config": lambda: chat().with_config(tags=["mine"]),
    "bind": lambda: chat().bind(stop=["\n"]),
    "bound twice": lambda: chat().bind(stop=["\n"]).with_config(run_name="gate"),
    "alternatives": alternatives,
    "fields": lambda: chat().configurable_fields(responses=ConfigurableField(id="responses")),
    "with_retry": lambda: chat().with_retry(),
    "with_fallbacks": lambda: Broken(responses=["x"]).with_fallbacks([chat()]),
    "parser": lambda: chat() | StrOutputParser(),
    "prompt and parser": lambda: PromptTemplate.from_template("{x}") | chat() | StrOutputParser(),
    "lambda": lambda: RunnableLambda(lambda prompt: "Yes"),
    "lambda to a message": lambda: RunnableLambda(lambda prompt: AIMessage("Yes")),
    "to a message": lambda: RunnablePassthrough() | chat(),
    "blocks": lambda: Blocks(responses=["Yes"]),
    "invoke": lambda: chat().invoke,
    "ainvoke": lambda: chat().ainvoke,
    "invoke of a chain": lambda: (chat() | StrOutputParser()).invoke,
}


class Yes(ScriptedLLM):
    def _answer(self, prompt: str) -> str:
        self._prompts.append(prompt)
        return "Yes"


LLAMA = {
    "custom": Yes,
    "complete": lambda: Yes().complete,
    "acomplete": lambda: Yes().acomplete,
    "predict": lambda: Yes().predict,
    "stream_complete": lambda: Yes().stream_complete,
    "chat": lambda: Yes().chat,
}
EVERY = {**{f"LangChain {k}": v for k, v in LANGCHAIN.items()}, **LLAMA}


@pytest.mark.parametrize("name", EVERY)
def test_any_model_answers_a_gate_and_writes_drafts(name):
    gate = AskGate(EVERY[name](), draft_tokens=0)
    assert gate.p_known([QUESTION], [""]) == [1.0]
    assert gate.p_known([QUESTION] * 2, ["Nino Rota", ""]) == [1.0, 1.0]
    assert asyncio.run(gate.ap_known([QUESTION], ["Nino Rota"])) == [1.0]
    both = run(Decider(AskGate(EVERY[name]()))(QUESTION)).value
    assert both.draft in (None, "Yes") and not both.decision.retrieve, both.decision.why
    known = FixedGate(0.9)
    known.draft_tokens = 8
    drafted = run(Decider(known, drafter=EVERY[name]())(QUESTION)).value
    assert drafted.draft == "Yes" and not drafted.decision.retrieve


def test_mock_models_of_llama_index_are_asked_and_not_refused():
    for llm in (MockLLM(), MockChat(), MockLLMWithNonyieldingChatStream(max_tokens=3)):
        (answer,) = AskGate(llm).p_known([QUESTION], ["a draft"])
        assert "asked for Yes or No, the model gave" in str(answer)  # the prompt, as a mock does


def test_ports_of_one_model_are_equal():
    llm = chat()
    assert port_of("generate", llm, "generate") == port_of("generate", llm, "generate")
    assert port_of("generate", llm, "generate") != port_of("generate", chat(), "generate")
    assert writer_of(llm.invoke) is writer_of(llm)


def test_the_name_of_a_model_is_found_behind_a_binding():
    class Named(FakeListChatModel):
        model_name: str = "small-1"

    llm = Named(responses=["Yes"])
    for each in (llm, llm.bind(stop=["x"]), llm | StrOutputParser(), llm.invoke):
        assert model_name(AskGate(each).judged) == "small-1"


@pytest.mark.parametrize("reply", ["Perhaps.", "Yes. That is incorrect."])
def test_a_reply_without_a_verdict_is_reported_and_retrieves(reply):
    gate = AskGate(RunnableLambda(lambda prompt: AIMessage(reply)), draft_tokens=0)
    decision = RetrievalGate(gate=gate).invoke(QUESTION)
    assert decision["retrieve"]
    assert f"asked for Yes or No, the model gave {reply!r}" in decision["why"]


def test_methods_take_any_model_too():
    llm = chat("<Q> Who? [Search(Who)]").with_retry()
    context = run(SlimPLM(llm, FixedGate(0.0), rewriter=llm)(QUESTION, Ports(retrieve=nothing)))
    assert context.steps and isinstance(writer_of(llm), Writer)


def nothing(queries):
    return [[] for _ in queries]
