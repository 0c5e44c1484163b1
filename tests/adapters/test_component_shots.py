"""Examples in the prompts of every component that takes a language model, in both frameworks."""

import json

import pytest
from langchain_core.load import dumpd
from langchain_core.runnables import RunnableLambda
from llama_fakes import NodeRetriever, ScriptedLLM
from llama_index.core.query_engine import CustomQueryEngine

from fitrag_integrations import langchain, llama_index
from fitrag_integrations.errors import InputError
from fitrag_integrations.methods import ITRG
from fitrag_integrations.methods.direct import Direct

SHOTS = [
    {
        "question": "Who built the Tirva bridge?",
        "answers": ["Ilse Marbach"],
        "passages": [{"title": "Tirva", "text": "Ilse Marbach built the bridge."}],
        "keywords": "Tirva bridge, builder",
        "document": "Ilse Marbach built the bridge over the Tirva.",
    }
]
QUESTION = "Where does the Danube end?"
FOUND = "The Danube ends in the Black Sea."


class Heard:
    """Remember what was asked."""

    def __init__(self):
        self.asked = []

    def one(self, prompt):
        self.asked.append(str(prompt))
        return "Yes"

    def generate(self, prompts):
        return list(map(self.one, prompts))


def search(query):
    return [{"title": "Danube", "url": "https://danube.example", "content": FOUND}]


LANGCHAIN = {
    "method": lambda **how: langchain.MethodRunnable(method=Direct(), retriever=found, **how),
    "itrg": lambda **how: langchain.ITRGRetriever(base=found, rounds=1, **how),
    "slimplm": lambda **how: langchain.SlimPLMRetriever(base=found, **how),
    "web": lambda **how: langchain.WebSearchRetriever(search=search, rewrite=True, **how),
    "gate": lambda **how: langchain.RetrievalGate(**how),
    "router": lambda **how: langchain.KnowledgeRouter(unknown=found, **how),
}


def found(question):
    from langchain_core.documents import Document

    return [Document(FOUND)]


@pytest.mark.parametrize("name", LANGCHAIN)
def test_langchain_components_show_them(name):
    heard = Heard()
    made = LANGCHAIN[name](llm=RunnableLambda(heard.one), shots=SHOTS)
    made.invoke(QUESTION)
    assert any("Ilse Marbach" in prompt for prompt in heard.asked), heard.asked
    assert not any(prompt.count("Ilse Marbach") > 3 for prompt in heard.asked)


def test_they_travel_with_a_component():
    made = langchain.MethodRunnable(method=ITRG(), retriever=found, llm=Heard().one, shots=SHOTS)
    given = json.loads(json.dumps(dumpd(made)["kwargs"]["shots"]))
    assert langchain.MethodRunnable(method=ITRG(), retriever=found, shots=given).shots == made.shots
    with pytest.raises((InputError, ValueError), match=r"shots\[0\]"):
        langchain.MethodRunnable(method=ITRG(), retriever=found, shots=[{"question": "Who?"}])
    with pytest.raises(InputError, match=r"shots\[0\]"):
        llama_index.ITRGRetriever(NodeRetriever(), llm=ScriptedLLM(), shots=[{"question": "Who?"}])


class Rest(CustomQueryEngine):
    """Answer what the model does not know."""

    def custom_query(self, query_str):
        return "the rest"


def engine(**how):
    return llama_index.MethodQueryEngine(Direct(), NodeRetriever(), **how)


LLAMA_INDEX = {
    "method": engine,
    "stream": lambda **how: engine(streaming=True, **how),
    "itrg": lambda **how: llama_index.ITRGRetriever(NodeRetriever(), rounds=1, **how),
    "slimplm": lambda **how: llama_index.SlimPLMRetriever(NodeRetriever(), **how),
    "web": lambda **how: llama_index.WebSearchRetriever(search, rewrite=True, **how),
    "router": lambda **how: llama_index.KnowledgeRouterQueryEngine(retrieve=Rest(), **how),
}


@pytest.mark.parametrize("name", LLAMA_INDEX)
def test_llama_index_components_show_them(name):
    llm = ScriptedLLM()
    made = LLAMA_INDEX[name](llm=llm, shots=SHOTS)
    str(made.query(QUESTION) if hasattr(made, "query") else made.retrieve(QUESTION))
    assert any("Ilse Marbach" in prompt for prompt in llm.prompts), llm.prompts
    assert not any(prompt.count("Ilse Marbach") > 3 for prompt in llm.prompts)
