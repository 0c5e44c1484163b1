"""LangChain's own suites over our retrievers, over stand-ins and over the models that ship."""

import importlib.util

import pytest
from decision_fakes import OverlapEvaluator, PageSearch
from fakes import OverlapScorer, WordEncoder
from first_contact import LANGCHAIN, LLMS, Shelf
from first_contact import QUESTION as OF_THE_SHELF
from langchain_fakes import OverlapBase, documents
from langchain_tests.integration_tests import RetrieversIntegrationTests

from fitrag_integrations import langchain as lc
from fitrag_integrations.methods import FitRag
from fitrag_integrations.types import Passage

FAISS = all(map(importlib.util.find_spec, ("faiss", "torch")))
CORRECT = "Who wrote the score of Amarcord?"
PAGES = tuple(
    Passage(f"p{i}", f"Page {i} on ferries.", source=f"https://{i}.example/") for i in range(5)
)


def scored():
    return {"base": OverlapBase(), "scorer": OverlapScorer()}


def shelved():
    return {"base": Shelf()}


def writing():
    return {"llm": LLMS[LANGCHAIN], **shelved()}


# the suite counts documents, of which CRAG drops those below this grade
ALL = {"strip_threshold": -1.0}
MADE = {
    "fitrag": (lc.FitRagRetriever, scored),
    "fitrag with a budget": (lc.FitRagRetriever, lambda: {**scored(), "max_tokens": 800}),
    "method": (
        lc.MethodRetriever,
        lambda: {"base": OverlapBase(), "method": FitRag(OverlapScorer(), max_share=None)},
    ),
    "compressing": (
        lc.CompressingRetriever,
        lambda: {
            "base": OverlapBase(),
            "compressors": [lc.BiLabelReranker(scorer=OverlapScorer())],
        },
    ),
    "corrective": (
        lc.CorrectiveRetriever,
        lambda: {"base": OverlapBase(), "evaluator": OverlapEvaluator(), **ALL},
    ),
    "web search": (lc.WebSearchRetriever, lambda: {"search": PageSearch(PAGES)}),
    "faiss": (
        lc.FaissRetriever,
        lambda: {"index": lc.FaissRetriever.from_documents(documents(), WordEncoder()).index},
    ),
    "default fitrag": (lc.FitRagRetriever, shelved),
    "default corrective": (lc.CorrectiveRetriever, lambda: {**shelved(), **ALL}),
    "default slimplm": (lc.SlimPLMRetriever, writing),
    "default itrg": (lc.ITRGRetriever, writing),
}


@pytest.mark.parametrize("name", MADE)
class TestRetrievers(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _named(self, name):
        if name == "faiss" and not FAISS:
            pytest.skip("needs faiss and torch")
        self.name = name

    @property
    def retriever_constructor(self):
        return MADE[self.name][0]

    @property
    def retriever_constructor_params(self):
        return MADE[self.name][1]()

    @property
    def retriever_query_example(self):
        return OF_THE_SHELF if self.name.startswith("default") else CORRECT
